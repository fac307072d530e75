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
		{store: "etcd", name: "create + delete", kind: bench.Floor, locks: openBareEtcd, waits: "by a watch of the key, all at once"},
		{store: "etcd", name: "concurrency.Mutex", module: etcdModule, kind: bench.Peer, locks: openEtcdMutex, waits: "woken, in order"},
		{store: "etcd", name: "put", kind: bench.Floor, limits: openEtcdPut, limit: "none"},
	}
}

func newEtcd(s *store) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{s.addr}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
}

// bareEtcd creates a key under a lease, and watches it while it is another's.
type bareEtcd struct {
	*clientv3.Client
	lease clientv3.LeaseID
}

func openBareEtcd(ctx context.Context, s *store) (lockClient, error) {
	c, err := newEtcd(s)
	if err != nil {
		return nil, err
	}
	lease, err := c.Grant(ctx, int64(ttl.Seconds()))
	if err != nil {
		return nil, err
	}
	return &bareEtcd{c, lease.ID}, nil
}

type bareEtcdHeld struct {
	c   *clientv3.Client
	key string
	rev int64
}

func (b *bareEtcd) Lock(ctx context.Context, key string) (bench.Held, error) {
	for {
		r, err := b.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
			Then(clientv3.OpPut(key, "", clientv3.WithLease(b.lease))).
			Else(clientv3.OpGet(key)).Commit()
		if err != nil {
			return nil, err
		}
		if r.Succeeded {
			return &bareEtcdHeld{b.Client, key, r.Header.Revision}, nil
		}
		if err := awaitDelete(ctx, b.Client, key, clientv3.WithRev(r.Header.Revision+1)); err != nil {
			return nil, err
		}
	}
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

func (h *bareEtcdHeld) Unlock(ctx context.Context) error {
	_, err := h.c.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(h.key), "=", h.rev)).
		Then(clientv3.OpDelete(h.key)).Commit()
	return err
}

// etcdMutexes is package concurrency. Two Mutexes of one session do not keep each other out, so
// that each Lock has a session to itself; sessions are used again.
type etcdMutexes struct {
	c    *clientv3.Client
	mu   sync.Mutex
	idle []*concurrency.Session
	all  []*concurrency.Session
}

func openEtcdMutex(_ context.Context, s *store) (lockClient, error) {
	c, err := newEtcd(s)
	if err != nil {
		return nil, err
	}
	return &etcdMutexes{c: c}, nil
}

func (e *etcdMutexes) session() (*concurrency.Session, error) {
	e.mu.Lock()
	if n := len(e.idle); n > 0 {
		s := e.idle[n-1]
		e.idle = e.idle[:n-1]
		e.mu.Unlock()
		return s, nil
	}
	e.mu.Unlock()
	s, err := concurrency.NewSession(e.c, concurrency.WithTTL(int(ttl.Seconds())))
	if err == nil {
		e.mu.Lock()
		e.all = append(e.all, s)
		e.mu.Unlock()
	}
	return s, err
}

type etcdMutexHeld struct {
	of *etcdMutexes
	s  *concurrency.Session
	m  *concurrency.Mutex
}

func (e *etcdMutexes) Lock(ctx context.Context, key string) (bench.Held, error) {
	s, err := e.session()
	if err != nil {
		return nil, err
	}
	m := concurrency.NewMutex(s, key)
	if err := m.Lock(ctx); err != nil {
		return nil, err
	}
	return &etcdMutexHeld{e, s, m}, nil
}

func (h *etcdMutexHeld) Unlock(ctx context.Context) error {
	err := h.m.Unlock(ctx)
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	h.of.idle = append(h.of.idle, h.s)
	return err
}

// Close leaves the sessions to end by themselves: closing each takes a request.
func (e *etcdMutexes) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.all {
		s.Orphan()
	}
	return e.c.Close()
}

// etcdPut is the least that a decision on etcd can be: one write.
type etcdPut struct{ *clientv3.Client }

func openEtcdPut(_ context.Context, s *store, _ bench.Rate) (limitClient, error) {
	c, err := newEtcd(s)
	return etcdPut{c}, err
}

func (e etcdPut) Allow(ctx context.Context, key string) (bool, error) {
	_, err := e.Put(ctx, key, "state of thirty-two bytes, or so")
	return true, err
}
