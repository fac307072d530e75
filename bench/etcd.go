package main

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/coordgo/coord/internal/bench"
)

const etcdModule = "go.etcd.io/etcd/client/v3"

func etcdSubjects() []subject {
	return []subject{
		{store: "etcd", name: "create + delete", kind: floor, use: alone | contended | shared, locks: openBareEtcd, about: "by a watch of the key, all at once"},
		{store: "etcd", name: "concurrency.Mutex", module: etcdModule, use: alone | contended, locks: openEtcdMutex, about: "woken, in order"},
		{store: "etcd", name: "put", kind: floor, limits: openEtcdPut, about: "none"},
	}
}

func newEtcd(s *store) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{s.addr}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
}

// openBareEtcd creates a key under a lease, and watches it while it is another's.
func openBareEtcd(ctx context.Context, s *store) (*locks, error) {
	c, err := newEtcd(s)
	if err != nil {
		return nil, err
	}
	lease, err := c.Grant(ctx, int64(ttl.Seconds()))
	if err != nil {
		return nil, err
	}
	return &locks{c.Close, func(ctx context.Context, key string) (unlock, error) {
		for {
			r, err := c.Txn(ctx).
				If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
				Then(clientv3.OpPut(key, "", clientv3.WithLease(lease.ID))).
				Else(clientv3.OpGet(key)).Commit()
			if err != nil {
				return nil, err
			}
			if rev := r.Header.Revision; r.Succeeded {
				return func(ctx context.Context) error {
					_, err := c.Txn(ctx).
						If(clientv3.Compare(clientv3.CreateRevision(key), "=", rev)).
						Then(clientv3.OpDelete(key)).Commit()
					return err
				}, nil
			}
			if err := awaitDelete(ctx, c, key, clientv3.WithRev(r.Header.Revision+1)); err != nil {
				return nil, err
			}
		}
	}}, nil
}

// awaitDelete waits until something is deleted there.
func awaitDelete(ctx context.Context, c *clientv3.Client, key string, where ...clientv3.OpOption) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for r := range c.Watch(ctx, key, append(where, clientv3.WithFilterPut())...) {
		if err := r.Err(); err != nil {
			return err
		}
		if len(r.Events) > 0 {
			return nil
		}
	}
	return context.Cause(ctx)
}

// openEtcdMutex is package concurrency. Two Mutexes of one session do not keep each other out, so that each Lock has a
// session to itself; sessions are used again, and end by themselves: closing each takes a request.
func openEtcdMutex(_ context.Context, s *store) (*locks, error) {
	c, err := newEtcd(s)
	if err != nil {
		return nil, err
	}
	var idle sync.Pool
	session := func() (*concurrency.Session, error) {
		if s, ok := idle.Get().(*concurrency.Session); ok {
			return s, nil
		}
		return concurrency.NewSession(c, concurrency.WithTTL(int(ttl.Seconds())))
	}
	return &locks{c.Close, func(ctx context.Context, key string) (unlock, error) {
		s, err := session()
		if err != nil {
			return nil, err
		}
		m := concurrency.NewMutex(s, key)
		return func(ctx context.Context) error {
			defer idle.Put(s)
			return m.Unlock(ctx)
		}, m.Lock(ctx)
	}}, nil
}

// openEtcdPut is the least that a decision on etcd can be: one write.
func openEtcdPut(_ context.Context, s *store, _ bench.Rate) (*limits, error) {
	c, err := newEtcd(s)
	if err != nil {
		return nil, err
	}
	return &limits{c.Close, func(ctx context.Context, key string) (bool, error) {
		_, err := c.Put(ctx, key, state)
		return true, err
	}}, nil
}
