package redis_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/coordgo/coord"
	_ "github.com/coordgo/coord/backends/redis"
	"github.com/coordgo/coord/internal/testserver"
)

// openAt makes a client by URL, closed with the test.
func openAt(t *testing.T, addr string, opts ...coord.Option) *coord.Client {
	t.Helper()
	c, err := coord.Open(t.Context(), "redis://"+addr+"/0", opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Five hundred goroutines of two clients want one key: no update is lost,
// tokens rise, and the store sees two waiters, not five hundred.
func TestFiveHundredGoroutines(t *testing.T) {
	t.Parallel()
	srv := testserver.Redis(t)
	clients := []*coord.Client{openAt(t, srv.Addr), openAt(t, srv.Addr)}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	counter, last := 0, coord.Token(0) // guarded by the lock alone
	var wg sync.WaitGroup
	for i := range 500 {
		wg.Go(func() {
			err := coord.Do(ctx, clients[i%2], "hot", func(ctx context.Context) error {
				lock, _ := coord.Held(ctx, "hot")
				if lock.Token() <= last {
					t.Errorf("token %d after %d", lock.Token(), last)
				}
				last = lock.Token()
				counter++
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if counter != 500 {
		t.Errorf("counted %d: want 500", counter)
	}
}

// Two thousand locks are held, by no goroutine of their own and with renewals in batches.
func TestNightlyManyHeldLocks(t *testing.T) {
	const n, ttl = 2000, 30 * time.Second
	srv := testserver.Redis(t)
	client := openAt(t, srv.Addr, coord.WithLockDefaults(coord.TTL(ttl)))
	before := runtime.NumGoroutine()
	locks := make([]*coord.Lock, n)
	for i := range locks {
		lock, err := client.Lock(t.Context(), fmt.Sprint("k", i))
		if err != nil {
			t.Fatal(err)
		}
		locks[i] = lock
	}
	taken, most := time.Now(), 0
	for tick := time.NewTicker(50 * time.Millisecond); !renewedSince(t, locks, taken); <-tick.C {
		most = max(most, runtime.NumGoroutine())
	}
	if most > before+20 {
		t.Errorf("up to %d goroutines more for %d held locks", most-before, n)
	}
}

// renewedSince reports whether each lock has been renewed since then, and fails the test if one is lost.
func renewedSince(t *testing.T, locks []*coord.Lock, then time.Time) bool {
	t.Helper()
	all := true
	for _, l := range locks {
		if err := l.Err(); err != nil {
			t.Fatal(err)
		}
		all = all && l.Deadline().After(then.Add(l.TTL()))
	}
	return all
}

// Through the whole of the core, an uncontended lock is two round trips, a
// decision one, and re-entry, a peek at the handle and a known denial none.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	srv := testserver.Redis(t)
	client := openAt(t, srv.Addr)
	ctx := coord.WithOwner(t.Context())
	limit := coord.PerHour(1)
	count := func() int64 { c := srv.Commands(); return c["evalsha"] + c["eval"] }
	// The server learns the scripts first.
	if err := coord.Do(ctx, client, "warm up", func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Allow(ctx, "warm up", limit); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name string
		want int64
		do   func() error
	}{
		{"Lock and Unlock", 2, func() error {
			lock, err := client.Lock(ctx, "k")
			if err != nil {
				return err
			}
			return lock.Unlock(ctx)
		}},
		{"Lock, re-entry, Err and Unlock", 2, func() error {
			return coord.Do(ctx, client, "k", func(ctx context.Context) error {
				return coord.Do(ctx, client, "k", func(context.Context) error { return nil })
			})
		}},
		{"TryLock of a key that the client holds", 2, func() error {
			return coord.Do(ctx, client, "k", func(ctx context.Context) error {
				ran, err := coord.TryDo(coord.WithOwner(ctx), client, "k", func(context.Context) error { return nil })
				if ran {
					t.Error("two owners hold one key")
				}
				return err
			})
		}},
		{"Allow", 1, func() error { _, err := client.Allow(ctx, "limit", limit); return err }},
		{"Allow, denied", 1, func() error { _, err := client.Allow(ctx, "limit", limit); return err }},
		{"Allow, denied again", 0, func() error { _, err := client.Allow(ctx, "limit", limit); return err }},
	} {
		before := count()
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if got := count() - before; got != step.want {
			t.Errorf("%s: %d commands, want %d", step.name, got, step.want)
		}
	}
}
