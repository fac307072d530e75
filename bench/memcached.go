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
		{store: "memcached", name: "add + gets, cas", kind: floor, use: alone | contended | shared, locks: openBareMemcached, about: "polls every 10 ms"},
		{store: "memcached", name: "gets + cas", kind: floor, limits: openSwap, about: "none"},
	}
}

func newMemcached(s *store) *memcache.Client {
	c := memcache.New(s.addr)
	c.MaxIdleConns = 100
	c.Timeout = 5 * time.Second
	return c
}

// openBareMemcached adds a key, and lets it expire by compare-and-swap.
func openBareMemcached(_ context.Context, s *store) (*locks, error) {
	c := newMemcached(s)
	return &locks{c.Close, func(ctx context.Context, key string) (unlock, error) {
		id := rand.Text()
		err := poll(ctx, 10*time.Millisecond, func() (bool, error) {
			err := c.Add(&memcache.Item{Key: key, Value: []byte(id), Expiration: int32(ttl.Seconds())})
			if errors.Is(err, memcache.ErrNotStored) {
				return false, nil
			}
			return err == nil, err
		})
		return func(context.Context) error { return expire(c, key, id) }, err
	}}, nil
}

func expire(c *memcache.Client, key, id string) error {
	item, err := c.Get(key)
	if err != nil {
		return err
	}
	if string(item.Value) != id {
		return fmt.Errorf("%s is another's", key)
	}
	item.Expiration = -1
	return c.CompareAndSwap(item)
}

// openSwap is the least that a decision on memcached can be, if it is to see the last one. An attempt that another
// defeats counts as a decision.
func openSwap(_ context.Context, s *store, _ bench.Rate) (*limits, error) {
	c := newMemcached(s)
	return &limits{c.Close, func(_ context.Context, key string) (bool, error) {
		item, err := c.Get(key)
		switch {
		case errors.Is(err, memcache.ErrCacheMiss):
			err = c.Add(&memcache.Item{Key: key, Value: []byte(state)})
		case err == nil:
			err = c.CompareAndSwap(item)
		}
		if errors.Is(err, memcache.ErrNotStored) || errors.Is(err, memcache.ErrCASConflict) {
			err = nil
		}
		return true, err
	}}, nil
}

// state is as long as what coord keeps of a limit.
const state = "state of thirty-two bytes, or so"
