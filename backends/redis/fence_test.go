package redis

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

// TestFenceTellsOfAQueue: a key that became free by itself is not had by who comes past the queue,
// which an attempt only looks for where the fence is not a bare number; whatever has become of the
// fence.
func TestFenceTellsOfAQueue(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, tamper := range map[string]func(t *testing.T, b *backend, held driver.Request){
		"as it was": func(*testing.T, *backend, driver.Request) {},
		"deleted":   func(_ *testing.T, b *backend, _ driver.Request) { b.client.Del(ctx, "coord:{k}:fence") },
		"seeded by a renewal": func(t *testing.T, b *backend, held driver.Request) {
			b.client.Del(ctx, "coord:{k}:fence")
			must[driver.Grant](t)(b.Renew(ctx, "k", held))
		},
		"renewed": func(t *testing.T, b *backend, held driver.Request) {
			must[driver.Grant](t)(b.Renew(ctx, "k", held))
		},
		"of a repeated attempt": func(t *testing.T, b *backend, held driver.Request) {
			must[driver.Grant](t)(b.TryLock(ctx, "k", held))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := shared(t)
			held, first, second, last := request("h", time.Minute), request("1", time.Minute), request("2", time.Minute), request("l", time.Minute)
			before := must[driver.Grant](t)(b.TryLock(ctx, "k", held))
			one := waitFor(t, pushed(t, b), "k", first, 1)
			two := waitFor(t, pushed(t, b), "k", second, 2)
			tamper(t, b, held)
			for _, waiter := range []<-chan answer{one, two} {
				b.client.Del(ctx, "coord:{k}") // as if the lease had run out
				if g, err := b.TryLock(ctx, "k", last); !errors.Is(err, driver.ErrLocked) {
					t.Fatalf("past the queue: %+v, %v, want ErrLocked", g, err)
				}
				g := grantOf(t, waiter)
				if g.Token <= before.Token {
					t.Errorf("token %d after %d", g.Token, before.Token)
				}
				before = g
			}
			if err := b.Unlock(ctx, "k", second.ID); err != nil {
				t.Fatal(err)
			}
			g := must[driver.Grant](t)(b.TryLock(ctx, "k", last))
			stored, err := b.client.Get(ctx, "coord:{k}:fence").Int64()
			if err != nil || g.Token != stored || g.Token <= before.Token {
				t.Errorf("token %d after %d, %d is stored (%v): want it bare again", g.Token, before.Token, stored, err)
			}
		})
	}
}

// TestFenceOutlivesTheLease: by an hour at least, whatever the lease and whoever was told of it.
func TestFenceOutlivesTheLease(t *testing.T) {
	t.Parallel()
	b := shared(t)
	listening := another(t, b)
	listening.waiters.mu.Lock()
	listening.waiters.start()
	listening.waiters.mu.Unlock()
	eventually(t, "that it listens", listening.waiters.isUp)
	for _, ttl := range []time.Duration{minTTL, 30 * time.Second, time.Hour, time.Hour + time.Millisecond, 24 * time.Hour, maxTTL} {
		for name, b := range map[string]*backend{"without messages": b, "listening": listening} {
			r := request("a", ttl)
			must[driver.Grant](t)(b.TryLock(t.Context(), "k", r))
			for what, op := range map[string]func() error{
				"taken":   func() error { return nil },
				"renewed": func() error { _, err := b.Renew(t.Context(), "k", r); return err },
			} {
				if err := op(); err != nil && ttl > minTTL { // which may have run out
					t.Fatal(err)
				}
				left := b.client.PTTL(t.Context(), "coord:{k}:fence").Val()
				if lease := b.client.PTTL(t.Context(), "coord:{k}").Val(); left < lease+time.Hour-time.Minute {
					t.Errorf("%s by a %s one for %v: the fence lives %v, the lease %v", what, name, ttl, left, lease)
				}
			}
			b.client.Del(t.Context(), "coord:{k}")
		}
	}
}

// TestFenceSeededForTheLease: a repeated attempt that finds the fence deleted asks for a shorter lease
// than there is, and the fence outlives that which there is.
func TestFenceSeededForTheLease(t *testing.T) {
	t.Parallel()
	b := shared(t)
	ctx := t.Context()
	r := request("a", 24*time.Hour)
	first := must[driver.Grant](t)(b.TryLock(ctx, "k", r))
	r.TTL = time.Minute
	for name, again := range map[string]func(context.Context, string, driver.Request) (driver.Grant, error){"TryLock": b.TryLock, "Lock": lockOf(b)} {
		b.client.Del(ctx, "coord:{k}:fence")
		if g := must[driver.Grant](t)(again(ctx, "k", r)); g.Token <= first.Token || g.TTL < 23*time.Hour {
			t.Errorf("%s: %+v after token %d", name, g, first.Token)
		}
		left := b.client.PTTL(ctx, "coord:{k}:fence").Val()
		if lease := b.client.PTTL(ctx, "coord:{k}").Val(); left < lease+time.Hour-time.Minute {
			t.Errorf("%s: the fence lives %v, the lease %v", name, left, lease)
		}
	}
}
