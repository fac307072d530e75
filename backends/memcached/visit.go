package memcached

import (
	"context"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

// visit reads an item, and writes it if it is still the same. All its commands go to the server process that answered the
// first one: with clients of our own it keeps the connection of its first command.
type visit struct {
	b      *backend
	to     name
	on     *call     // nil over the application's client, and before the first command
	readAt time.Time // when the item was asked for
}

// step calls fn, which makes commands for v.
func step[T any](ctx context.Context, v *visit, fn func(*call) (T, error)) (t T, err error) {
	if v.b.pools == nil {
		return run(ctx, v.b, v.to, fn)
	}
	if v.on == nil {
		if v.on, err = v.b.beginOn(ctx, v.b.pools.to(v.to)); err != nil {
			return t, err
		}
	}
	t, err = fn(v.on)
	return t, v.b.outcome(ctx, err)
}

// end gives the connection back. The next command begins a new visit.
func (v *visit) end() {
	if v.on != nil {
		v.on.end()
		v.on = nil
	}
}

// readItem is an item that was asked for at some time; nil if there was none.
type readItem struct {
	item *memcache.Item
	at   time.Time
}

// read gives an item, nil if there is none. Before anything is granted on it, the call has to be admitted.
func (v *visit) read(ctx context.Context, key string, admit bool) (*memcache.Item, error) {
	r, err := step(ctx, v, func(c *call) (readItem, error) {
		if admit {
			if err := c.admit(); err != nil {
				return readItem{}, err
			}
		}
		item, err := c.read(key)
		if err == memcache.ErrCacheMiss {
			item, err = nil, nil
		}
		return readItem{item, c.readAt}, err
	})
	v.readAt = r.at
	return r.item, err
}

// write replaces the item that was read, or adds one where there was none. done is false, without an error, if another
// client was faster.
func (v *visit) write(ctx context.Context, key string, old *memcache.Item, value []byte, expiration int32) (done bool, err error) {
	item := memcache.Item{Key: key}
	if old != nil {
		item = *old
	}
	item.Value, item.Expiration = value, expiration
	readAt := v.readAt
	return step(ctx, v, func(c *call) (bool, error) {
		c.readAt = readAt
		return c.store(&item, old == nil)
	})
}

// store adds an item or swaps it.
func (c *call) store(item *memcache.Item, add bool) (done bool, err error) {
	if add {
		err = c.add(item)
	} else {
		err = c.cas(item)
	}
	if answer(err) {
		return false, nil
	}
	return err == nil, err
}
