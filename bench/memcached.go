package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/coordgo/coord/internal/bench"
)

func memcachedSubjects() []subject {
	return []subject{
		{store: "memcached", name: "add + gets, cas", kind: bench.Floor, locks: openBareMemcached, waits: "polls every 10 ms"},
		{store: "memcached", name: "gets + cas", kind: bench.Floor, limits: openSwap, limit: "none"},
	}
}

func newMemcached(s *store) *memcache.Client {
	c := memcache.New(s.addr)
	c.MaxIdleConns = 100
	c.Timeout = 5 * time.Second
	return c
}

// bareMemcached adds a key, and lets it expire by compare-and-swap.
type bareMemcached struct{ *memcache.Client }

func openBareMemcached(_ context.Context, s *store) (lockClient, error) {
	return bareMemcached{newMemcached(s)}, nil
}

type addHeld struct {
	c       *memcache.Client
	key, id string
}

func (b bareMemcached) Lock(ctx context.Context, key string) (bench.Held, error) {
	id := rand.Text()
	for {
		err := b.Add(&memcache.Item{Key: key, Value: []byte(id), Expiration: int32(ttl.Seconds())})
		if err == nil {
			return &addHeld{b.Client, key, id}, nil
		}
		if !errors.Is(err, memcache.ErrNotStored) {
			return nil, err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (h *addHeld) Unlock(context.Context) error {
	item, err := h.c.Get(h.key)
	if err != nil {
		return err
	}
	if string(item.Value) != h.id {
		return fmt.Errorf("%s is another's", h.key)
	}
	item.Expiration = -1
	return h.c.CompareAndSwap(item)
}

// swap is the least that a decision on memcached can be, if it is to see the last one.
type swap struct{ *memcache.Client }

func openSwap(_ context.Context, s *store, _ bench.Rate) (limitClient, error) {
	return swap{newMemcached(s)}, nil
}

// Allow counts an attempt that another defeats as a decision.
func (s swap) Allow(_ context.Context, key string) (bool, error) {
	item, err := s.Get(key)
	if errors.Is(err, memcache.ErrCacheMiss) {
		if err = s.Add(&memcache.Item{Key: key, Value: []byte("state of thirty-two bytes, or so")}); errors.Is(err, memcache.ErrNotStored) {
			err = nil
		}
		return true, err
	}
	if err != nil {
		return false, err
	}
	if err = s.CompareAndSwap(item); errors.Is(err, memcache.ErrCASConflict) {
		err = nil
	}
	return true, err
}
