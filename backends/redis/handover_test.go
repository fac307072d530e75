package redis_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/testserver"
)

// handedOn is how often a lock was handed on inside a client before this one, see
// docs/contract.md on tokens.
func handedOn(l *coord.Lock) int64 { return int64(l.Token()) & 1023 }

// TestHandOver: goroutines of a client that wait for each other soon hand the lock on
// among themselves, which the store sees nothing of.
func TestHandOver(t *testing.T) {
	t.Parallel()
	srv := testserver.Redis(t)
	client := openAt(t, srv.Addr)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var taken, handed atomic.Int64
	sent := func() int64 { c := srv.Commands(); return c["evalsha"] + c["eval"] }
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for handed.Load() < 500 && ctx.Err() == nil {
				l, err := client.Lock(ctx, "k")
				if err != nil {
					t.Error(err)
					return
				}
				taken.Add(1)
				if handedOn(l) > 0 {
					handed.Add(1)
				}
				if err := l.Unlock(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if handed.Load() < 500 {
		t.Errorf("%d of %d locks were handed on", handed.Load(), taken.Load())
	}
	if n, most := sent(), 2*(taken.Load()-handed.Load())+4; n > most {
		t.Errorf("%d commands for %d locks of which %d were handed on, want at most %d", n, taken.Load(), handed.Load(), most)
	}
	t.Logf("%d commands for %d locks, of which %d were handed on", sent(), taken.Load(), handed.Load())
}

// TestFairWaiterHasItsTurn: goroutines of one client hand a lock on among themselves, and a
// fair waiter of another client is granted it all the same. Then none of them holds.
func TestFairWaiterHasItsTurn(t *testing.T) {
	t.Parallel()
	srv := testserver.Redis(t)
	busy, other := openAt(t, srv.Addr), openAt(t, srv.Addr)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	working, stop := context.WithCancel(ctx)
	var taken, handed atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for working.Err() == nil {
				l, err := busy.Lock(working, "k")
				if err != nil {
					return
				}
				taken.Add(1)
				if handedOn(l) > 0 {
					handed.Add(1)
				}
				if err := l.Unlock(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for handed.Load() == 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	for range 20 {
		l, err := other.Lock(ctx, "k", coord.Fair())
		if err != nil {
			t.Fatal(err)
		}
		// It holds: nobody has the lock meanwhile.
		before := taken.Load()
		time.Sleep(time.Millisecond)
		if now := taken.Load(); now > before {
			t.Errorf("%d locks were taken while another client held", now-before)
		}
		if err := l.Unlock(ctx); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	wg.Wait()
}

// TestFairLocksInFewScripts: a fair lock that others want costs the question for a place, the release before it,
// which offers it, and the question that takes it.
func TestFairLocksInFewScripts(t *testing.T) {
	t.Parallel()
	srv := testserver.Redis(t)
	ctx := t.Context()
	const clients, each, locks = 4, 4, 50
	var wg sync.WaitGroup
	var inside atomic.Int32
	start := time.Now()
	for range clients {
		c := openAt(t, srv.Addr)
		for range each {
			wg.Go(func() {
				for range locks {
					l, err := c.Lock(ctx, "k", coord.Fair())
					if err != nil {
						t.Error(err)
						return
					}
					if inside.Add(1) != 1 {
						t.Error("two hold one key")
					}
					inside.Add(-1)
					if err := l.Unlock(ctx); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	lapses := int64(time.Since(start) / (50 * time.Millisecond)) // offerLeast
	counts := srv.Commands()
	const all = clients * each * locks
	// What comes on top is places that are kept alive, and offers that have lapsed because a waiter got no processor: each
	// is asked for again, and by the next, and takes its time.
	if n := counts["evalsha"] + counts["eval"]; n > all*33/10+3*lapses {
		t.Errorf("%d scripts for %d locks, want three for each and a few more, and three for each of %d offers that may have lapsed", n, all, lapses)
	}
	if n := counts["publish"]; n > all*23/10+3*lapses {
		t.Errorf("%d messages for %d locks, want two for each, to who is offered it and who is next, and three for each of %d offers that may have lapsed", n, all, lapses)
	}
	t.Logf("%d scripts and %d messages for %d locks", counts["evalsha"]+counts["eval"], counts["publish"], all)
}
