package main

import (
	"context"
	"sync"

	"github.com/coordgo/coord/internal/bench"
)

func sharedOthers() []subject {
	return []subject{
		usedAt("zookeeper", "create + delete", alone),
		usedAt("zookeeper", "zk.Lock", alone|woken),
		usedAt("memcached", "add + gets, cas", alone),
	}
}

func sharedMemory() []subject {
	byKey := new(sync.Map)
	return []subject{
		{store: "memory", name: "channel by key", kind: bench.Floor, locks: openChannels, shares: alone | saturated, waits: "woken"},
		{
			store: "memory", name: "sync.RWMutex by key", kind: bench.Floor, locks: openRWMutexes(byKey, (*sync.RWMutex).Lock, (*sync.RWMutex).Unlock),
			reads: openRWMutexes(byKey, (*sync.RWMutex).RLock, (*sync.RWMutex).RUnlock), shares: alone | amongReaders, waits: "woken",
		},
	}
}

// channels is the least that a semaphore in memory can be.
type channels struct{ byKey sync.Map }

type channelHeld chan struct{}

func (h channelHeld) Unlock(context.Context) error {
	<-h
	return nil
}

func openChannels(context.Context, *store) (lockClient, error) { return new(channels), nil }

func (c *channels) Lock(_ context.Context, key string) (bench.Held, error) {
	v, ok := c.byKey.Load(key)
	if !ok {
		v, _ = c.byKey.LoadOrStore(key, make(chan struct{}, permits))
	}
	ch := v.(chan struct{})
	ch <- struct{}{}
	return channelHeld(ch), nil
}

func (*channels) Close() error { return nil }

// rwMutexesByKey is the least that a read/write lock in memory can be.
type rwMutexesByKey struct {
	byKey        *sync.Map
	lock, unlock func(*sync.RWMutex)
}

type rwMutexByKeyHeld struct {
	mu     *sync.RWMutex
	unlock func(*sync.RWMutex)
}

func (h rwMutexByKeyHeld) Unlock(context.Context) error {
	h.unlock(h.mu)
	return nil
}

func openRWMutexes(byKey *sync.Map, lock, unlock func(*sync.RWMutex)) func(context.Context, *store) (lockClient, error) {
	return func(context.Context, *store) (lockClient, error) { return rwMutexesByKey{byKey, lock, unlock}, nil }
}

func (m rwMutexesByKey) Lock(_ context.Context, key string) (bench.Held, error) {
	v, ok := m.byKey.Load(key)
	if !ok {
		v, _ = m.byKey.LoadOrStore(key, new(sync.RWMutex))
	}
	mu := v.(*sync.RWMutex)
	m.lock(mu)
	return rwMutexByKeyHeld{mu, m.unlock}, nil
}

func (rwMutexesByKey) Close() error { return nil }
