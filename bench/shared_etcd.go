package main

import (
	"context"
	"crypto/rand"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	recipe "go.etcd.io/etcd/client/v3/experimental/recipes"

	"github.com/coordgo/coord/internal/bench"
)

func sharedEtcd() []subject {
	write, read := openRWMutex((*recipe.RWMutex).Lock, (*recipe.RWMutex).Unlock), openRWMutex((*recipe.RWMutex).RLock, (*recipe.RWMutex).RUnlock)
	return []subject{
		usedAt("etcd", "create + delete", alone),
		{store: "etcd", name: "session keys, 16", module: etcdModule, kind: bench.Peer, locks: openSessionKeys(permits), shares: alone | saturated, waits: "woken, all at once"},
		{store: "etcd", name: "session keys, 1", module: etcdModule, kind: bench.Peer, locks: openSessionKeys(1), shares: woken, waits: "woken, all at once"},
		{store: "etcd", name: "recipe.RWMutex, RLock", module: etcdModule, kind: bench.Peer, locks: read, shares: alone, waits: "woken, in order"},
		{store: "etcd", name: "recipe.RWMutex, Lock", module: etcdModule, kind: bench.Peer, locks: write, reads: read, shares: alone | amongReaders | woken, waits: "woken, in order"},
	}
}

// etcdSession is a client with one session.
type etcdSession struct {
	c *clientv3.Client
	*concurrency.Session
}

func openEtcdSession(s *store) (etcdSession, error) {
	c, err := newEtcd(s)
	if err != nil {
		return etcdSession{}, err
	}
	session, err := concurrency.NewSession(c, concurrency.WithTTL(int(ttl.Seconds())))
	return etcdSession{c, session}, err
}

func (e etcdSession) Close() error {
	e.Orphan()
	return e.c.Close()
}

// rwMutexes is package recipe. It heeds no context.
type rwMutexes struct {
	etcdSession
	lock, unlock func(*recipe.RWMutex) error
}

func openRWMutex(lock, unlock func(*recipe.RWMutex) error) func(context.Context, *store) (lockClient, error) {
	return func(_ context.Context, s *store) (lockClient, error) {
		e, err := openEtcdSession(s)
		return rwMutexes{e, lock, unlock}, err
	}
}

type rwMutexHeld struct {
	m      *recipe.RWMutex
	unlock func(*recipe.RWMutex) error
}

func (e rwMutexes) Lock(_ context.Context, key string) (bench.Held, error) {
	m := recipe.NewRWMutex(e.Session, key)
	if err := e.lock(m); err != nil {
		return nil, err
	}
	return rwMutexHeld{m, e.unlock}, nil
}

func (h rwMutexHeld) Unlock(context.Context) error { return h.unlock(h.m) }

// sessionKeys is a semaphore: each has a key on its session, and those of the first revisions hold it.
type sessionKeys struct {
	etcdSession
	of int64
}

func openSessionKeys(of int64) func(context.Context, *store) (lockClient, error) {
	return func(_ context.Context, s *store) (lockClient, error) {
		e, err := openEtcdSession(s)
		return sessionKeys{e, of}, err
	}
}

func (e sessionKeys) Lock(ctx context.Context, key string) (bench.Held, error) {
	prefix := key + "/"
	own := prefix + rand.Text()
	if _, err := e.c.Put(ctx, own, "", clientv3.WithLease(e.Lease())); err != nil {
		return nil, err
	}
	for {
		first, err := e.c.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(e.of),
			clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(first.Kvs, func(kv *mvccpb.KeyValue) bool { return string(kv.Key) == own }) {
			return sessionKeyHeld{e.c, own}, nil
		}
		if err := awaitDelete(ctx, e.c, prefix, clientv3.WithRev(first.Header.Revision+1), clientv3.WithPrefix()); err != nil {
			return nil, err
		}
	}
}

type sessionKeyHeld struct {
	c   *clientv3.Client
	key string
}

func (h sessionKeyHeld) Unlock(ctx context.Context) error {
	_, err := h.c.Delete(ctx, h.key)
	return err
}
