package memcached

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
	"github.com/coordgo/coord/driver/optimistic"
	"github.com/coordgo/coord/internal/testserver"
)

// roundTrips counts the commands that the server was sent while fn ran.
func roundTrips(t *testing.T, srv *testserver.Server, fn func() error) int64 {
	t.Helper()
	sum := func() int64 {
		s := srv.Stats()
		return s["cmd_get"] + s["cmd_set"] + s["cmd_touch"] + s["incr_hits"] + s["incr_misses"] + s["decr_hits"] + s["decr_misses"] +
			s["delete_hits"] + s["delete_misses"] + s["cas_misses"] + s["cas_badval"] + s["cmd_flush"] + s["cmd_meta"]
	}
	before := sum()
	if err := fn(); err != nil {
		t.Fatal(err)
	}
	return sum() - before
}

// An uncontended lock takes six commands, the first of a name one more for its counter; a decision
// takes two, and one if it is a denial or a peek.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	srv, b := open(t, "-M")
	client, err := coord.New(b)
	if err != nil {
		t.Fatal(err)
	}
	ctx := coord.WithOwner(t.Context())
	limit := coord.PerHour(2)
	lock := func() error { return coord.Do(ctx, client, "k", func(context.Context) error { return nil }) }
	allow := func() error { _, err := client.Allow(ctx, "k", limit); return err }
	r := request("a", time.Minute)
	for _, step := range []struct {
		name string
		want int64
		do   func() error
	}{
		{"Lock and Unlock, first", 7, lock},
		{"Lock and Unlock", 6, lock},
		{"Lock, re-entry and Unlock", 6, func() error {
			return coord.Do(ctx, client, "k", func(ctx context.Context) error {
				return coord.Do(ctx, client, "k", func(context.Context) error { return nil })
			})
		}},
		{"TryLock", 5, func() error { _, err := b.TryLock(ctx, "k2", r); return err }},
		{"TryLock of a held key", 2, func() error {
			_, err := b.TryLock(ctx, "k2", request("b", time.Minute))
			if !errors.Is(err, driver.ErrLocked) {
				t.Error(err)
			}
			return nil
		}},
		{"TryLock again", 3, func() error { _, err := b.TryLock(ctx, "k2", r); return err }},
		{"Renew", 2, func() error { _, err := b.Renew(ctx, "k2", r); return err }},
		{"Inspect", 1, func() error { _, err := b.Inspect(ctx, "k2"); return err }},
		{"UnlockAfter", 2, func() error { return b.UnlockAfter(ctx, "k2", r.ID, time.Second) }},
		{"Allow, first", 2, allow},
		{"Allow", 2, allow},
		{"Allow, denied", 1, allow},
		{"Allow, denied again", 0, allow},
		{"Peek", 1, func() error { _, err := client.Peek(ctx, "k", limit); return err }},
		{"Reset", 2, func() error { return client.Reset(ctx, "k", limit) }},
	} {
		if got := roundTrips(t, srv, step.do); got != step.want {
			t.Errorf("%s: %d commands, want %d", step.name, got, step.want)
		}
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
}

// Any sequence of requests on the store is answered as package limits does it, on the same clock.
func TestLimitsAreThoseOfThePackage(t *testing.T) {
	t.Parallel()
	_, b := open(t, "-M")
	rng := rand.New(rand.NewPCG(1, 2))
	now := time.Now()
	b.clock = func() time.Time { return now }
	for _, s := range []string{"10/1m", "10/1m fixed-window", "10/1m burst=5", "1000000/720h burst=1000", "7/100ms"} {
		l := limitFrom(t, s)
		var want limits.State
		ids := []string{""}
		for i := range 300 {
			now = now.Add(time.Duration(rng.Int64N(int64(l.Per) / 5)))
			if i%50 == 49 {
				now = now.Add(-l.Per / 7) // a clock that steps back
			}
			a := driver.Ask{ID: newID("a"), N: rng.IntN(l.Max() + 1)}
			a.Min = rng.IntN(a.N + 1)
			if l.Algorithm == driver.TokenBucket && i%3 == 0 {
				a.MaxDelay = time.Duration(rng.Int64N(int64(l.Per)))
			}
			ids = append(ids, a.ID)
			expected, _ := want.Take(l, now.UnixMicro(), a)
			if got := must[driver.TakenOne](t)(b.TakeOne(t.Context(), s, l, a)); got != expected {
				t.Fatalf("%s, ask %d %+v: %+v, want %+v", s, i, a, got, expected)
			}
			if i%4 == 0 {
				id, n := ids[rng.IntN(len(ids))], 1+rng.IntN(3)
				want.Refund(l, now.UnixMicro(), id, n)
				if err := b.Refund(t.Context(), s, l, id, n); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// A limit that is not there is fresh under Full, and spent under Empty, until what a lost state
// could have forbidden is past. A Reset under Empty is not mistaken for a loss, nor is idleness.
func TestOnMissing(t *testing.T) {
	t.Parallel()
	srv := testserver.Memcached(t, testserver.WithFlags("-M"))
	full := connect(t, srv.Addr)
	empty := connect(t, srv.Addr, WithOnMissing(Empty))
	now := time.Now()
	full.clock = func() time.Time { return now }
	empty.clock = full.clock
	ctx := t.Context()
	take := func(b *backend, key string, l driver.Limit, n int) driver.TakenOne {
		t.Helper()
		return must[driver.TakenOne](t)(b.TakeOne(ctx, key, l, driver.Ask{Min: min(n, 1), N: n}))
	}
	for _, s := range []string{"10/1m", "10/1m fixed-window", "10/1m burst=10"} {
		l := limitFrom(t, s)
		if got := take(full, s, l, 10); got.N != 10 {
			t.Errorf("%s, full: %+v", s, got)
		}
		srv.Text("flush_all")
		if got := take(full, s, l, 10); got.N != 10 {
			t.Errorf("%s, full, after a loss: %+v", s, got)
		}
		srv.Text("flush_all")
		// A peek finds nothing and writes nothing, a denied ask starts the time.
		for range 2 {
			if got := take(empty, s, l, 0); got.Remaining != 0 || got.RetryAfter <= 0 {
				t.Errorf("%s, empty, a peek: %+v", s, got)
			}
		}
		if got := srv.Text("get " + limitOf(s, l).storeKey()); got[0] != "END" {
			t.Errorf("%s: a peek has written %q", s, got)
		}
		first := take(empty, s, l, 10)
		if first.N != 0 || first.RetryAfter <= 0 || first.RetryAfter > 2*l.Per {
			t.Fatalf("%s, empty: %+v", s, first)
		}
		now = now.Add(first.RetryAfter)
		if got := take(empty, s, l, 1); got.N != 1 {
			t.Errorf("%s, empty, after RetryAfter: %+v", s, got)
		}
		now = now.Add(10 * l.Per) // idle
		if got := take(empty, s, l, 10); got.N != 10 {
			t.Errorf("%s, empty, after idleness: %+v", s, got)
		}
		if err := empty.Reset(ctx, s, l); err != nil {
			t.Fatal(err)
		}
		if got := take(empty, s, l, 10); got.N != 10 {
			t.Errorf("%s, empty, after Reset: %+v", s, got)
		}
	}
}

// What clients whose clocks differ admit together is what the package comment says: in a fixed window
// of the clock that is ahead also what was counted to the one before, and in a sliding one nothing more.
func TestClocksThatDiffer(t *testing.T) {
	t.Parallel()
	const e = 10 * time.Second
	srv := testserver.Memcached(t, testserver.WithFlags("-M"))
	slow, ahead := connect(t, srv.Addr), connect(t, srv.Addr)
	now := time.Now().Truncate(time.Minute).Add(time.Minute) // on the clock that is ahead
	ahead.clock = func() time.Time { return now }
	slow.clock = func() time.Time { return now.Add(-e) }
	admitted := func(l driver.Limit, of ...*backend) (n int) {
		for _, b := range of {
			n += must[driver.TakenOne](t)(b.TakeOne(t.Context(), "k", l, driver.Ask{Min: 1, N: l.Max()})).N
		}
		return n
	}
	fixed := limitFrom(t, "10/1m fixed-window")
	if n := admitted(fixed, slow, ahead, slow, ahead); n != 20 {
		t.Errorf("%d in the first %v of a fixed window: want 10, and 10 of the one before", n, e)
	}
	now = now.Add(time.Minute - time.Second)
	if n := admitted(fixed, slow, ahead); n != 0 {
		t.Errorf("%d in the rest of it, want none", n)
	}
	sliding := limitFrom(t, "10/1m")
	if n := admitted(sliding, slow, ahead); n != 10 {
		t.Errorf("%d at once in a sliding window, want 10", n)
	}
	now = now.Add(sliding.Per - e)
	if n := admitted(sliding, slow, ahead); n > 10 {
		t.Errorf("%d after Per-e in a sliding window, want 10 at most", n)
	}
	bucket := limitFrom(t, "60/1m burst=5")
	if n := admitted(bucket, slow, ahead, slow, ahead); n < 5 || n > 5+int(e/time.Second) {
		t.Errorf("%d at once of a bucket, want 5 and at most one a second of %v more", n, e)
	}
}

// Callers of one client do not defeat each other, and each gets its own answer.
func TestCallersTakeTurns(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, srv *testserver.Server, connect func(string) *backend) {
		b, l := connect(srv.Addr), limitFrom(t, "100/1h")
		var granted, denied atomic.Int64
		trips := roundTrips(t, srv, func() error {
			var wg sync.WaitGroup
			for range 200 {
				wg.Go(func() {
					one, err := b.TakeOne(t.Context(), "hot", l, driver.Ask{Min: 1, N: 1})
					switch {
					case err != nil:
						t.Error(err)
					case one.N == 1:
						granted.Add(1)
					default:
						denied.Add(1)
					}
				})
			}
			wg.Wait()
			return nil
		})
		if granted.Load() != 100 || denied.Load() != 100 {
			t.Errorf("%d granted and %d denied of 200 asks: want 100 each", granted.Load(), denied.Load())
		}
		if trips > 2*200 {
			t.Errorf("%d commands for 200 decisions: want at most two each", trips)
		}
	})
}

// Writers of many clients on one key: swaps fail, and nobody is refused for it, or loses count.
func TestManySwaps(t *testing.T) {
	t.Parallel()
	srv := testserver.Memcached(t, testserver.WithFlags("-M"))
	const clients, each = 16, 20
	l := limitFrom(t, "1000000/1h")
	var wg sync.WaitGroup
	for range clients {
		b := connect(t, srv.Addr)
		wg.Go(func() {
			for range each {
				ctx, cancel := context.WithTimeout(t.Context(), hung)
				one, err := b.TakeOne(ctx, "hot", l, driver.Ask{Min: 1, N: 1})
				cancel()
				if err != nil || one.N != 1 {
					t.Errorf("%+v, %v", one, err)
				}
			}
		})
	}
	wg.Wait()
	b := connect(t, srv.Addr)
	if one := must[driver.TakenOne](t)(b.TakeOne(t.Context(), "hot", l, driver.Ask{})); one.Remaining != l.Rate-clients*each {
		t.Errorf("%d taken, want %d", l.Rate-one.Remaining, clients*each)
	}
	if bad := srv.Stats()["cas_badval"]; bad == 0 {
		t.Log("no swap was ever overtaken: this run has shown little")
	}
}

// Who gives up while another caller decides was not sent; who gives up while its swap is under way does not know.
func TestGivingUp(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, srv *testserver.Server, connect func(string) *backend) {
		b, replies := link(t, srv, connect)
		l := limitFrom(t, "100/1h")
		must[driver.TakenOne](t)(b.TakeOne(t.Context(), "k", l, driver.Ask{Min: 1, N: 1}))
		deciding, decided := make(chan struct{}), make(chan struct{})
		first := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			first <- b.update(ctx, "k", optimistic.Change{Limit: l, Apply: func(s *limits.State, now int64) bool {
				close(deciding)
				<-decided
				_, changed := s.Take(l, now, driver.Ask{Min: 1, N: 1})
				return changed
			}})
		}()
		<-deciding
		behind, giveUp := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer giveUp()
		_, err := b.TakeOne(behind, "k", l, driver.Ask{Min: 1, N: 1})
		if !errors.Is(err, driver.ErrNotSent) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("behind another caller: %v, want ErrNotSent", err)
		}
		before := srv.Stats()["cas_hits"]
		replies.StallReplies()
		close(decided)
		for start := time.Now(); srv.Stats()["cas_hits"] == before; time.Sleep(time.Millisecond) {
			if time.Since(start) > hung {
				t.Fatal("no swap reaches the server")
			}
		}
		cancel()
		if err := <-first; err == nil || driver.Definite(err) {
			t.Errorf("under way: %v, want an unknown outcome", err)
		}
		replies.Heal()
		if one := must[driver.TakenOne](t)(connect(srv.Addr).TakeOne(t.Context(), "k", l, driver.Ask{})); one.Remaining != 98 {
			t.Errorf("%d left, want 98: the swap was made", one.Remaining)
		}
	})
}

// Who gives up while no connection was free was not sent either, first in the queue or later.
func TestGivingUpWithoutAConnection(t *testing.T) {
	t.Parallel()
	srv := testserver.Memcached(t, testserver.WithFlags("-M"))
	b := patient(t, srv.Addr, listLife, 1)
	l, n := limitFrom(t, "100/1h"), nameOf("k")
	srv.Pause()
	busy, free := context.WithCancel(t.Context())
	defer free()
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := b.Inspect(busy, "k"); !errors.Is(err, context.Canceled) {
			t.Errorf("in the way: %v", err)
		}
	})
	underWay(b.pools.to(n), 1)
	take := func(ctx context.Context, want error) {
		if _, err := b.TakeOne(ctx, "k", l, driver.Ask{Min: 1, N: 1}); !errors.Is(err, driver.ErrNotSent) || !errors.Is(err, want) {
			t.Errorf("%v, want ErrNotSent and %v", err, want)
		}
	}
	first, leave := context.WithCancel(t.Context())
	defer leave()
	wg.Go(func() { take(first, context.Canceled) })
	time.AfterFunc(100*time.Millisecond, leave) // the other is the first then
	later, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	take(later, context.DeadlineExceeded)
	free()
	wg.Wait()
	srv.Resume()
}
