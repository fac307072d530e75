package postgres

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// pair is a primary and its replica.
type pair struct{ primary, replica *testserver.Server }

func newPair(t *testing.T, synchronous bool) pair {
	t.Helper()
	primary := testserver.Postgres(t)
	p := pair{primary, testserver.PostgresReplica(t, primary)}
	primary.Synchronous(synchronous)
	return p
}

// url names both: whoever takes writes is used.
func (p pair) url() string {
	return testserver.PostgresURL(testserver.PostgresUser, p.primary.Addr, p.replica.Addr)
}

func (p pair) primaryURL() string {
	return testserver.PostgresURL(testserver.PostgresUser, p.primary.Addr)
}

// settled repeats op until the store answers, and gives its answer.
func settled(t *testing.T, op func(ctx context.Context) error) error {
	t.Helper()
	for deadline := time.Now().Add(hung); ; pause(5 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		err := op(ctx)
		cancel()
		if err == nil || errors.Is(err, driver.ErrNotHeld) || errors.Is(err, driver.ErrLocked) {
			return err
		}
		if time.Now().After(deadline) {
			t.Fatalf("no answer: %v", err)
		}
	}
}

// The primary dies in the middle of grants, renewals and permits, and its replica takes over. With a synchronous replica
// nothing that was acknowledged is lost. Otherwise two can hold, after the failover, for less than a TTL; tokens rise even so.
func TestNightlyFailoverUnderLoad(t *testing.T) {
	t.Parallel()
	for name, synchronous := range map[string]bool{"synchronous": true, "asynchronous": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const ttl = 3 * time.Second
			p := newPair(t, synchronous)
			h := &history{limit: coord.PerSecond(50)}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var wg sync.WaitGroup
			for range 3 {
				c := newClient(t, p.url())
				wg.Go(func() { h.hold(ctx, c, "k", ttl) })
				wg.Go(func() { h.hold(ctx, c, "k", ttl) })
				wg.Go(func() { h.take(ctx, c, "limit") })
			}
			b := open(t, p.url())
			kept := request("kept", time.Hour)
			before := mustTry(t, b, "kept", kept)
			if synchronous {
				wg.Go(func() { guard(ctx, t, b, kept) })
			}
			h.await(t, "before the failover", time.Time{}, 20)
			died := time.Now()
			p.primary.Kill()
			p.replica.Promote()
			h.await(t, "after the failover", time.Now(), 20)
			stop()
			wg.Wait()
			h.checkTokens(t)
			t.Logf("%d holds, %d lost, %d permits, at most %d in a second", len(h.tenures), h.lost, len(h.takes), h.peak())
			if !synchronous {
				h.checkOverlapsAfter(t, died, ttl)
				return
			}
			h.checkExclusion(t)
			if peak := h.peak(); peak > h.limit.Rate {
				t.Errorf("%d permits in a second, want at most %d", peak, h.limit.Rate)
			}
			if g, err := b.Renew(t.Context(), "kept", kept); err != nil || g.Token != before.Token {
				t.Errorf("a hold from before the failover: token %d, %v, want %d", g.Token, err, before.Token)
			}
		})
	}
}

// guard renews a hold of the key "kept" all the time, and asks for it in the name of another.
func guard(ctx context.Context, t *testing.T, b *backend, kept driver.Request) {
	for ctx.Err() == nil {
		if _, err := b.Renew(ctx, "kept", kept); errors.Is(err, driver.ErrNotHeld) {
			t.Errorf("renewal: %v", err)
		}
		if g, err := b.TryLock(ctx, "kept", request("other", time.Minute)); err == nil {
			t.Errorf("token %d is granted of a key that is held", g.Token)
		}
	}
}

// checkOverlapsAfter wants two to hold only after the primary died, and for less than a TTL.
func (h *history) checkOverlapsAfter(t *testing.T, died time.Time, ttl time.Duration) {
	t.Helper()
	of, begun := h.overlaps()
	for i := range of {
		if begun[i].Before(died) || of[i] > ttl {
			t.Errorf("two hold for %v, %v after the primary died", of[i], begun[i].Sub(died))
		}
	}
	t.Logf("%d times two held at once", len(of))
}

// The primary dies before its replica has the lock. The next renewal of the holder says that the hold is gone, and the next
// holder's token is above the lost one.
func TestNightlyFailoverLosesTheGrant(t *testing.T) {
	t.Parallel()
	p := newPair(t, false)
	b, c := open(t, p.url()), newClient(t, p.url())
	ctx := t.Context()
	kept := request("kept", time.Hour)
	mustTry(t, b, "kept", kept)
	p.replica.Pause()
	admin(t, p.primaryURL(), "SELECT pg_terminate_backend(pid) FROM pg_stat_replication")
	lost, next := request("lost", time.Hour), request("next", time.Hour)
	held := mustTry(t, b, "k", lost)
	l := must[*coord.Lock](t)(c.TryLock(ctx, "client", coord.TTL(3*time.Second)))
	p.primary.Kill()
	p.replica.Resume()
	p.replica.Promote()
	if err := settled(t, func(ctx context.Context) error { _, err := b.Renew(ctx, "k", lost); return err }); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("renewal of the lost hold: %v, want ErrNotHeld", err)
	}
	if h, err := b.Inspect(ctx, "k"); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("Inspect: %+v, %v, want ErrNotHeld", h, err)
	}
	if g := mustTry(t, b, "k", next); g.Token <= held.Token {
		t.Errorf("token %d after %d, which was lost", g.Token, held.Token)
	}
	select {
	case <-l.Done():
		if err := l.Err(); !errors.Is(err, coord.ErrLost) {
			t.Errorf("a lock that the replica does not have: %v, want ErrLost", err)
		}
	case <-time.After(hung):
		t.Error("nobody tells the holder that its lock is lost")
	}
	if err := settled(t, func(ctx context.Context) error { _, err := b.Renew(ctx, "kept", kept); return err }); err != nil {
		t.Errorf("renewal of a hold that the replica had: %v", err)
	}
}

// A primary that hangs is replaced, and comes back: there are two. With a synchronous replica the old one can confirm
// nothing any more, and what it says of the past grants nobody anything.
func TestNightlyTwoPrimaries(t *testing.T) {
	t.Parallel()
	p := newPair(t, true)
	b, old := open(t, p.url()), open(t, p.primaryURL())
	kept, other := request("kept", time.Hour), request("other", time.Hour)
	before := mustTry(t, b, "kept", kept)
	p.primary.Pause()
	p.replica.Promote()
	var g driver.Grant
	if err := settled(t, func(ctx context.Context) (err error) { g, err = b.Renew(ctx, "kept", kept); return err }); err != nil || g.Token != before.Token {
		t.Fatalf("renewal at the new primary: %+v, %v, want token %d", g, err, before.Token)
	}
	if err := settled(t, func(ctx context.Context) error { _, err := b.TryLock(ctx, "new", kept); return err }); err != nil {
		t.Fatalf("TryLock at the new primary: %v", err)
	}
	p.primary.Resume()
	limit := must[driver.Limit](t)(driver.ParseLimit("5/1h"))
	for what, call := range map[string]func(context.Context) error{
		"a key that the new primary has granted": func(ctx context.Context) error { _, err := old.TryLock(ctx, "new", other); return err },
		"a key that is held":                     func(ctx context.Context) error { _, err := old.TryLock(ctx, "kept", other); return err },
		"a renewal":                              func(ctx context.Context) error { _, err := old.Renew(ctx, "kept", kept); return err },
		"a permit": func(ctx context.Context) error {
			_, err := old.TakeOne(ctx, "k", limit, driver.Ask{Min: 1, N: 1})
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		if err := call(ctx); err == nil {
			t.Errorf("the old primary grants %s", what)
		}
		cancel()
	}
}

// Without its synchronous replica a primary confirms nothing: grants have an unknown outcome, and what is held can be seen.
// When the replica is back, the same requests find what they left.
func TestNightlySynchronousReplicaIsAway(t *testing.T) {
	t.Parallel()
	p := newPair(t, true)
	b := open(t, p.url())
	held, r := request("held", time.Hour), request("a", time.Hour)
	mustTry(t, b, "held", held)
	mustTry(t, b, "left", held)
	mustQueue(t, b, "left", r)
	p.replica.Kill()
	if _, err := b.TryLock(t.Context(), "k", r); err == nil || driver.Definite(err) {
		t.Errorf("TryLock: %v, want an unknown outcome", err)
	}
	if _, err := b.Renew(t.Context(), "held", held); err == nil || driver.Definite(err) {
		t.Errorf("Renew: %v, want an unknown outcome", err)
	}
	if err := b.Unlock(t.Context(), "left", held.ID); err == nil || driver.Definite(err) { // although the waiter may go on
		t.Errorf("Unlock: %v, want an unknown outcome", err)
	}
	if h, err := b.Inspect(t.Context(), "held"); err != nil || h.ID != held.ID {
		t.Errorf("Inspect: %+v, %v, want the hold", h, err)
	}
	p.replica.Restart()
	if err := settled(t, func(ctx context.Context) error { _, err := b.TryLock(ctx, "k", r); return err }); err != nil {
		t.Errorf("the same request: %v", err)
	}
	if err := settled(t, func(ctx context.Context) error { _, err := b.Renew(ctx, "held", held); return err }); err != nil {
		t.Errorf("Renew: %v", err)
	}
}

// Nothing is asked of a server that only reads, and whoever names one alone is told what it is.
func TestReplicaIsNoStore(t *testing.T) {
	t.Parallel()
	p := newPair(t, false)
	b := open(t, p.url())
	mustTry(t, b, "k", request("a", time.Hour))
	alone := must[*url.URL](t)(url.Parse(pair{p.replica, p.replica}.primaryURL()))
	var r driver.Backend
	_ = settled(t, func(ctx context.Context) (err error) { r, err = Open(ctx, alone); return err }) // once it has the tables
	defer r.Close()
	err := answered(func() error {
		_, err := r.(*backend).TryLock(t.Context(), "k2", request("a", time.Hour))
		return err
	})
	if !errors.Is(err, driver.ErrNotSent) || !contains(err, "use the address of the primary") {
		t.Errorf("TryLock at a replica: %v, want ErrNotSent that says so", err)
	}
	p.primary.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	if _, err := b.TryLock(ctx, "k2", request("a", time.Hour)); err == nil {
		t.Error("granted without a primary")
	}
}

// Somebody cancels the wait for the replica. PostgreSQL then confirms what the replica lacks, with a warning: that is no grant.
func TestNightlyCancelledWaitForTheReplica(t *testing.T) {
	t.Parallel()
	p := newPair(t, true)
	b, r := open(t, p.url()+"&timeout=5s"), request("a", time.Hour)
	mustTry(t, b, "warm", request("a", time.Hour))
	p.replica.Pause()
	tried := make(chan error, 1)
	go func() {
		_, err := b.TryLock(context.WithoutCancel(t.Context()), "k", r)
		tried <- err
	}()
	for done := false; !done; {
		select {
		case err := <-tried:
			if done = true; err == nil || driver.Definite(err) {
				t.Errorf("TryLock: %v, want an unknown outcome", err)
			}
		case <-time.After(5 * time.Millisecond):
			admin(t, p.primaryURL(), "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
		}
	}
	p.replica.Resume()
	if err := settled(t, func(ctx context.Context) error { _, err := b.TryLock(ctx, "k", r); return err }); err != nil {
		t.Errorf("the same request, with the replica: %v", err)
	}
}
