package main

import (
	"context"
	"crypto/rand"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	recipe "go.etcd.io/etcd/client/v3/experimental/recipes"
)

func etcdShared() []subject {
	write, read := openRWMutex((*recipe.RWMutex).Lock, (*recipe.RWMutex).Unlock), openRWMutex((*recipe.RWMutex).RLock, (*recipe.RWMutex).RUnlock)
	return []subject{
		{store: "etcd", name: "session keys, 16", module: etcdModule, use: shared | saturated, locks: openSessionKeys(permits), about: "woken, all at once"},
		{store: "etcd", name: "session keys, 1", module: etcdModule, use: sharedWake, locks: openSessionKeys(1), about: "woken, all at once"},
		{store: "etcd", name: "recipe.RWMutex, RLock", module: etcdModule, use: shared, locks: read, about: "woken, in order"},
		{store: "etcd", name: "recipe.RWMutex, Lock", module: etcdModule, use: shared | amongReaders | sharedWake, locks: write, reads: read, about: "woken, in order"},
	}
}

// newEtcdSession makes a client with one session, which ends by itself.
func newEtcdSession(s *store) (*clientv3.Client, *concurrency.Session, error) {
	c, err := newEtcd(s)
	if err != nil {
		return nil, nil, err
	}
	session, err := concurrency.NewSession(c, concurrency.WithTTL(int(ttl.Seconds())))
	return c, session, err
}

// openRWMutex is package recipe. It heeds no context.
func openRWMutex(enter, leave func(*recipe.RWMutex) error) opener {
	return func(_ context.Context, s *store) (*locks, error) {
		c, session, err := newEtcdSession(s)
		return &locks{c.Close, func(_ context.Context, key string) (unlock, error) {
			m := recipe.NewRWMutex(session, key)
			return func(context.Context) error { return leave(m) }, enter(m)
		}}, err
	}
}

// openSessionKeys is a semaphore: each has a key on its session, and those of the first revisions hold it.
func openSessionKeys(of int64) opener {
	return func(_ context.Context, s *store) (*locks, error) {
		c, session, err := newEtcdSession(s)
		return &locks{c.Close, func(ctx context.Context, key string) (unlock, error) {
			prefix := key + "/"
			own := prefix + rand.Text()
			if _, err := c.Put(ctx, own, "", clientv3.WithLease(session.Lease())); err != nil {
				return nil, err
			}
			for {
				first, err := c.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(of),
					clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
				if err != nil {
					return nil, err
				}
				if slices.ContainsFunc(first.Kvs, func(kv *mvccpb.KeyValue) bool { return string(kv.Key) == own }) {
					return func(ctx context.Context) error {
						_, err := c.Delete(ctx, own)
						return err
					}, nil
				}
				if err := awaitDelete(ctx, c, prefix, clientv3.WithRev(first.Header.Revision+1), clientv3.WithPrefix()); err != nil {
					return nil, err
				}
			}
		}}, err
	}
}
