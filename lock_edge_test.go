package coord

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/internal/hold"
)

// A Bound does not end with its parent, and does not say that it did.
func TestBoundCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancelCause(t.Context())
		b := driver.NewBound(parent, time.Second)
		defer b.Stop()
		cancel(errors.New("the caller left"))
		if cause := context.Cause(b); cause != nil {
			t.Errorf("cause of a live Bound: %v", cause)
		}
		child, stop := context.WithCancel(b)
		defer stop()
		time.Sleep(2 * time.Second)
		if cause := context.Cause(b); cause != context.DeadlineExceeded {
			t.Errorf("Err %v, Cause %v", b.Err(), cause)
		}
		if cause := context.Cause(child); cause != context.DeadlineExceeded {
			t.Errorf("child: Err %v, Cause %v", child.Err(), cause)
		}
	})
}

// Causes of contexts can be compared.
func TestCauseIsComparable(t *testing.T) {
	c := newTestClient(t, newFake())
	l := must[*Lock](t)(c.Lock(t.Context(), "k"))
	ctx, cancel := l.Context(t.Context())
	defer cancel()
	c.locks.LossPushed("k", l.h.t.ID(), errors.New("session expired"))
	defer func() {
		if r := recover(); r != nil {
			t.Error(r)
		}
	}()
	if cause := context.Cause(ctx); cause != context.Cause(ctx) {
		t.Error("differs from itself")
	}
}

// pushingFake is a store that tells of losses.
type pushingFake struct {
	*fakeStore
	lost    func(key, id string, cause error)
	revokes bool // each grant, before TryLock returns
}

func (f *pushingFake) Info() driver.Info { return claiming(f.fakeStore, driver.LossPush) }

func (f *pushingFake) NotifyLost(fn func(key, id string, cause error)) { f.lost = fn }

func (f *pushingFake) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	g, err := f.fakeStore.TryLock(ctx, key, r)
	if err == nil && f.revokes {
		f.mu.Lock()
		delete(f.leases, key)
		f.mu.Unlock()
		f.lost(key, r.ID, errWire)
	}
	return g, err
}

// A loss may be told before the call that granted the hold has returned.
func TestLossPushedBeforeTheGrantArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &pushingFake{fakeStore: newFake(), revokes: true}
		c := newTestClient(t, f)
		l := must[*Lock](t)(c.TryLock(t.Context(), "k"))
		if err := l.Err(); !errors.Is(err, ErrLost) || !errors.Is(err, errWire) {
			t.Errorf("Err %v, want ErrLost and its cause", err)
		}
		f.revokes = false
		next := must[*Lock](t)(c.TryLock(t.Context(), "k"))
		if err := next.Unlock(t.Context()); err != nil {
			t.Errorf("Unlock of the next hold: %v", err)
		}
		if err := l.Unlock(t.Context()); !errors.Is(err, ErrLost) {
			t.Errorf("Unlock %v, want ErrLost", err)
		}
		synctest.Wait()
		if left := c.leftovers(); left != (leftovers{}) {
			t.Errorf("left behind: %+v", left)
		}
	})
}

// A loss that was told before the store was asked again says nothing of what is granted then.
func TestLossPushedBeforeTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &pushingFake{fakeStore: newFake()}
		f.leases["k"] = &fakeLease{id: "other", end: time.Now().Add(time.Second)}
		unanswered := make(chan struct{})
		f.setIntercept(func(op, key string) outcome {
			if op != "trylock" || f.held(key) {
				return outcome{}
			}
			f.setIntercept(nil)
			close(unanswered)
			return outcome{after: errWire}
		})
		c := newTestClient(t, f)
		granted := make(chan *Lock, 1)
		go func() { granted <- must[*Lock](t)(c.Lock(t.Context(), "k")) }()
		<-unanswered
		synctest.Wait() // until the next attempt
		f.mu.Lock()
		id := f.leases["k"].id
		delete(f.leases, "k")
		f.mu.Unlock()
		f.lost("k", id, errWire)
		l := <-granted
		if err := l.Err(); err != nil || l.h.t.ID() != id {
			t.Errorf("%s after a loss of %s: %v", l.h.t.ID(), id, err)
		}
	})
}

// patientFake waits at the store by asking again.
type patientFake struct{ *fakeStore }

func (f patientFake) Info() driver.Info { return claiming(f.fakeStore, driver.Fair) }

func (f patientFake) Lock(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
	var once sync.Once
	for {
		sent := time.Now()
		g, err := f.TryLock(ctx, key, r)
		if err == nil {
			g.Since = sent
			return g, nil
		}
		if !errors.Is(err, driver.ErrLocked) {
			return g, err
		}
		once.Do(waits)
		select {
		case <-ctx.Done():
			return g, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Whenever Close comes, nothing is left at the store.
func TestCloseChaos(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			f.info.Claims = append(f.info.Claims, driver.Fair)
			rng := rand.New(rand.NewPCG(seed, 3))
			var rmu sync.Mutex
			rnd := func(n int) int { rmu.Lock(); defer rmu.Unlock(); return rng.IntN(n) }
			f.setIntercept(func(op, key string) outcome { time.Sleep(time.Duration(1+rnd(9)) * time.Millisecond); return outcome{} })
			var b driver.Backend = f
			if seed%2 == 1 {
				b = patientFake{f}
			}
			c, err := New(b, WithHolderName("victim"))
			if err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex
			var locks []*Lock
			var wg sync.WaitGroup
			for i := range 8 {
				base := context.Background()
				if i%2 == 0 {
					base = WithOwner(base)
				}
				for range 2 {
					wg.Go(func() {
						for {
							key := string(rune('a' + rnd(3)))
							var l *Lock
							var err error
							opts := []LockOption{TTL(time.Second)}
							switch rnd(4) {
							case 0:
								l, err = c.TryLock(base, key, opts...)
							case 1:
								if seed%2 == 1 && i%2 == 1 {
									opts = append(opts, Fair())
								}
								fallthrough
							default:
								ctx, cancel := context.WithTimeout(base, time.Duration(1+rnd(200))*time.Millisecond)
								l, err = c.Lock(ctx, key, opts...)
								cancel()
							}
							if errors.Is(err, ErrClosed) {
								return
							}
							if err != nil {
								time.Sleep(time.Millisecond)
								continue
							}
							mu.Lock()
							locks = append(locks, l)
							mu.Unlock()
							time.Sleep(time.Duration(rnd(30)) * time.Millisecond)
							if rnd(10) > 0 {
								if err := l.Unlock(base); err != nil && !errors.Is(err, ErrClosed) {
									t.Errorf("seed %d unlock: %v", seed, err)
								}
							}
							if rnd(50) == 0 {
								return
							}
						}
					})
				}
			}
			time.Sleep(time.Duration(50+rnd(1000)) * time.Millisecond)
			start := time.Now()
			if rnd(2) == 0 {
				ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
				_ = c.Shutdown(ctx)
				cancel()
			} else if err := c.Close(); err != nil {
				t.Error(err)
			}
			if d := time.Since(start); d > time.Second {
				t.Errorf("seed %d: close took %v", seed, d)
			}
			mu.Lock()
			for _, l := range locks {
				if !isClosed(l.Done()) {
					t.Errorf("seed %d: a Done is open after Close", seed)
				}
			}
			mu.Unlock()
			f.mu.Lock()
			for k := range f.leases {
				if l := f.live(k); l != nil && strings.HasPrefix(l.id, "victim") {
					t.Errorf("seed %d: %s is held after Close for %v", seed, k, time.Until(l.end))
				}
			}
			f.mu.Unlock()
			wg.Wait()
			if left := c.leftovers(); left.Keys+left.Attempts+left.Holds+left.Tasks != 0 {
				t.Errorf("seed %d: left %+v", seed, left)
			}
		})
	}
}

// remoteFake is a store a network away: calls take 10 ms, and fail once the
// backend is closed.
func remoteFake() *fakeStore {
	f := newFake()
	f.setIntercept(func(op, key string) outcome {
		time.Sleep(10 * time.Millisecond)
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.closed {
			return outcome{before: driver.ErrClosed}
		}
		return outcome{}
	})
	return f
}

// Close waits, within its bound, for what is under way: an acquisition is withdrawn.
func TestCloseDuringAnAcquisition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := remoteFake()
		c := newTestClient(t, f)
		done := make(chan error, 1)
		go func() {
			_, err := c.Lock(context.Background(), "k")
			done <- err
		}()
		time.Sleep(5 * time.Millisecond) // the attempt is on its way
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		wantErr(t, <-done, ErrClosed)
		if f.held("k") {
			t.Errorf("the orphan is held for %v after Close", time.Until(f.freeAt("k")))
		}
	})
}

// Close gives back: an Unlock under way must not be cut off.
func TestCloseDuringAnUnlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := remoteFake()
		c := newTestClient(t, f)
		l := must[*Lock](t)(c.Lock(t.Context(), "k"))
		done := make(chan error, 1)
		go func() { done <- l.Unlock(context.Background()) }()
		time.Sleep(5 * time.Millisecond)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Errorf("Unlock that was under way: %v", err)
		}
		if f.held("k") {
			t.Error("the key is held after Unlock and Close")
		}
	})
}

// A context tells a loss that is on its way to it.
func TestContextErrWhileTheTenureEnds(t *testing.T) {
	c := newTestClient(t, newFake())
	l := must[*Lock](t)(c.Lock(t.Context(), "k"))
	lost, goOn := make(chan struct{}), make(chan struct{})
	l.h.t.Watch(&hold.Watcher{Cancel: func(error) { close(lost); <-goOn }}) // cancelled before ctx
	ctx, cancel := l.Context(t.Context())
	defer cancel()
	var pushing sync.WaitGroup
	pushing.Go(func() { c.locks.LossPushed("k", l.h.t.ID(), errWire) })
	<-lost
	if l.Err() == nil || ctx.Err() == nil {
		t.Errorf("Lock.Err %v, Context.Err %v: want both to tell the loss", l.Err(), ctx.Err())
	}
	close(goOn)
	pushing.Wait()
}

// A nested Do binds its ctx again when it would not end with the hold.
func TestNestedDoUnderWithoutCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestClient(t, newFake())
		err := Do(t.Context(), c, "k", func(ctx context.Context) error {
			return Do(context.WithoutCancel(ctx), c, "k", func(inner context.Context) error {
				select {
				case <-inner.Done():
				case <-time.After(time.Minute):
					t.Error("the ctx of the nested Do has not ended a minute after its hold was lost")
				}
				return nil
			})
		}, TTL(time.Second), NoRenew())
		wantErr(t, err, ErrLost)
	})
}

// A fair hold is one of the client's, also when the slot of its key has gone
// meanwhile.
func TestFairHoldInDetachedSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := queuedFake{newFake(), make(chan struct{}, 10)}
		f.info.Claims = append(f.info.Claims, driver.Fair)
		c := newTestClient(t, f)
		first := must[*Lock](t)(c.Lock(t.Context(), "k", Fair()))
		got := make(chan *Lock, 1)
		go func() {
			l, err := c.Lock(context.Background(), "k", Fair())
			if err != nil {
				t.Error(err)
			}
			got <- l
		}()
		synctest.Wait()
		if err := first.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		second := <-got
		ctx, cancel := second.Context(context.Background())
		defer cancel()
		if n := c.leftovers().Keys; n != 1 {
			t.Errorf("%d slots while a hold is live: want 1", n)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if !isClosed(second.Done()) || ctx.Err() == nil {
			t.Error("Done or the context of the hold is open after Close")
		}
		if f.held("k") {
			t.Error("the key is held after Close")
		}
		time.Sleep(time.Minute)
		if !isClosed(second.Done()) {
			t.Error("Done is still open a minute later, long after the deadline")
		}
	})
}

// The clean-up of a call that was waited for longer than its TTL goes on for a TTL
// after it was given up.
func TestLateApplicationOfALongCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, f)
		f.setIntercept(func(op, key string) (o outcome) { return outcome{hang: op == "trylock"} })
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		defer cancel()
		_, err := c.Lock(ctx, "k", TTL(10*time.Second))
		wantErr(t, err, ErrUnknownOutcome)
		time.Sleep(10 * time.Millisecond)
		if c.leftovers().Tasks == 0 {
			t.Error("the clean-up ended within 10 ms of the call being given up: want it to go on for a TTL, as the call may yet be applied")
		}
	})
}

// Held gives the lock of the innermost Do, on whichever client.
func TestHeldWithTwoClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fa, fb := newFake(), newFake()
		fb.token = 1000
		a, b := newTestClient(t, fa), newTestClient(t, fb)
		err := Do(t.Context(), a, "k", func(ctx context.Context) error {
			want, _ := Held(ctx, "k")
			return Do(ctx, b, "k", func(ctx context.Context) error {
				return Do(ctx, a, "k", func(ctx context.Context) error {
					if got, _ := Held(ctx, "k"); got.Token() != want.Token() {
						t.Errorf("inside Do on a, Held has token %d: want %d, that of a", got.Token(), want.Token())
					}
					return nil
				})
			})
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// A waiter who has long been in the local queue rides out an outage.
func TestLocalWaiterRidesOutAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, f)
		first := must[*Lock](t)(c.Lock(t.Context(), "k"))
		const n = 5
		errs := make(chan error, n)
		for range n {
			go func() {
				l, err := c.Lock(context.Background(), "k")
				if err == nil {
					err = l.Unlock(context.Background())
				}
				errs <- err
			}()
		}
		time.Sleep(time.Minute) // all are in the queue
		down := time.Now().Add(100 * time.Millisecond)
		f.setIntercept(func(op, key string) outcome {
			if op == "trylock" && time.Now().Before(down) {
				return outcome{before: driver.ErrNotSent}
			}
			return outcome{}
		})
		if err := first.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range n {
			if err := <-errs; err != nil {
				t.Errorf("a waiter of a minute: %v", err)
			}
		}
	})
}

func TestLocalWaitRunsOutInTheFirstCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, f)
		first := must[*Lock](t)(c.Lock(t.Context(), "k"))
		done := make(chan error, 1)
		go func() {
			_, err := c.Lock(context.Background(), "k", WaitAtMost(10*time.Second))
			done <- err
		}()
		time.Sleep(10*time.Second - 20*time.Millisecond)
		f.setIntercept(func(op, key string) outcome { return outcome{hang: op == "trylock"} })
		if err := first.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantErr(t, <-done, ErrLocked, context.DeadlineExceeded)
		f.setIntercept(nil)
	})
}

// The clean-up after an Unlock that was not confirmed keeps MinHold.
func TestMinHoldSurvivesAnOutageAtUnlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := delayedFake{newFake()}
		a, b := newTestClient(t, f), newTestClient(t, f)
		start := time.Now()
		l := must[*Lock](t)(a.Lock(t.Context(), "k", TTL(time.Second), MinHold(20*time.Second)))
		f.setIntercept(func(op, key string) outcome { return outcome{before: errWire} })
		wantErr(t, l.Unlock(t.Context()), ErrUnavailable)
		time.Sleep(time.Second)
		f.setIntercept(nil)
		l2 := must[*Lock](t)(b.Lock(t.Context(), "k"))
		if d := time.Since(start); d < 20*time.Second {
			t.Errorf("the key was free %v after the grant: want at least MinHold, 20s", d)
		}
		_ = l2.Unlock(t.Context())
	})
}

// A wall clock that is set forward does not end MinHold.
func TestMinHoldWhenTheWallClockSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, f)
		var mu sync.Mutex
		var step time.Duration
		c.clock.Read = func() clock.Instant {
			mu.Lock()
			defer mu.Unlock()
			now := c.clock.At(time.Now())
			now.Wall += int64(step)
			return now
		}
		l := must[*Lock](t)(c.Lock(t.Context(), "k", TTL(30*time.Second), MinHold(20*time.Second)))
		mu.Lock()
		step = 25 * time.Second // less than the TTL: the lock is not lost
		mu.Unlock()
		if err := l.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !f.held("k") {
			t.Error("the key is free at once: want it taken for 20s")
		}
	})
}

// A call that was not sent before its ctx ended says so.
func TestNotSentMatchesItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, f)
		f.setIntercept(func(op, key string) outcome { time.Sleep(time.Second); return outcome{before: driver.ErrNotSent} })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.TryLock(ctx, "k")
		wantErr(t, err, ErrUnavailable, context.DeadlineExceeded)
	})
}

// Close ends every hold, also one that the store has given to another waiter
// meanwhile.
func TestCloseEndsAnOverwrittenHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := queuedFake{newFake(), make(chan struct{}, 10)}
		f.info.Claims = append(f.info.Claims, driver.Fair)
		c := newTestClient(t, f)
		first := must[*Lock](t)(c.Lock(t.Context(), "k"))
		if err := c.BreakNow(t.Context(), "k", first.h.t.ID()); err != nil {
			t.Fatal(err)
		}
		must[*Lock](t)(c.Lock(t.Context(), "k", Fair()))
		start := time.Now()
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d > time.Second {
			t.Errorf("Close took %v", d)
		}
		if !isClosed(first.Done()) {
			t.Error("Done of the first hold is open after Close")
		}
		time.Sleep(time.Minute)
		if !isClosed(first.Done()) {
			t.Error("and a minute later")
		}
	})
}

// On a store with a queue of its own, too, a wait that ends says both.
func TestQueuedWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := queuedFake{newFake(), make(chan struct{}, 10)}
		a, b := newTestClient(t, f), newTestClient(t, f)
		must[*Lock](t)(a.Lock(t.Context(), "k"))
		f.setIntercept(func(op, key string) outcome { time.Sleep(50 * time.Millisecond); return outcome{} })
		_, err := b.Lock(t.Context(), "k", WaitAtMost(20*time.Millisecond))
		wantErr(t, err, ErrLocked, context.DeadlineExceeded)
	})
}

type breakingQueuer struct {
	*fakeStore
	n int
}

func (f *breakingQueuer) Info() driver.Info { return claiming(f.fakeStore, driver.Fair) }

func (f *breakingQueuer) Lock(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
	f.mu.Lock()
	f.n++
	n := f.n
	f.mu.Unlock()
	switch {
	case n == 1: // waits in the queue for a minute, then the connection breaks
		waits()
		select {
		case <-ctx.Done():
			return driver.Grant{}, ctx.Err()
		case <-time.After(time.Minute):
		}
		return driver.Grant{}, errWire
	case n < 5:
		return driver.Grant{}, errWire
	}
	<-ctx.Done()
	return driver.Grant{}, ctx.Err()
}

// A waiter who has long been in the store's queue rides out an outage.
func TestQueuedWaiterRidesOutAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &breakingQueuer{fakeStore: newFake()}
		a, b := newTestClient(t, f), newTestClient(t, f)
		must[*Lock](t)(a.Lock(t.Context(), "k"))
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		start := time.Now()
		_, err := b.Lock(ctx, "k", TTL(10*time.Second))
		if d := time.Since(start); d < 2*time.Minute {
			t.Errorf("gave up after %v on a connection that was broken for a few ms: %v", d, err)
		}
	})
}

// What a query holds is kept out of errors.
func TestOpenShowsASecretOfTheQuery(t *testing.T) {
	scheme := registerHere(func(context.Context, *url.URL) (driver.Backend, error) { return nil, driver.ErrInvalid })
	_, err := Open(t.Context(), scheme+"://host?password=hunter2")
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v", err)
	}
}

// Re-entry, too, does nothing under a ctx that has ended.
func TestReentryUnderAnEndedContext(t *testing.T) {
	c := newTestClient(t, newFake())
	ctx, cancel := context.WithCancel(WithOwner(t.Context()))
	must[*Lock](t)(c.Lock(ctx, "k"))
	cancel()
	_, err := c.Lock(ctx, "k")
	wantErr(t, err, context.Canceled)
}

type sessionFake struct {
	*fakeStore
	since time.Time
}

func (f *sessionFake) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	g, err := f.fakeStore.TryLock(ctx, key, r)
	f.since = time.Now()
	g.Since = f.since
	return g, err
}

func (f *sessionFake) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	time.Sleep(time.Millisecond)
	g, err := f.fakeStore.Renew(ctx, key, r)
	g.Since, g.TTL = f.since, r.TTL // no keepalive since the grant
	return g, err
}

// A session whose keepalive is of long ago is not renewed without pause.
func TestRenewalSpins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &sessionFake{fakeStore: newFake()}
		c := newTestClient(t, f)
		l := must[*Lock](t)(c.Lock(t.Context(), "k", TTL(30*time.Second)))
		time.Sleep(20 * time.Second)
		if n := f.count("renew"); n > 20 {
			t.Errorf("%d renewals of one hold in 20s of a TTL of 30s", n)
		}
		_ = l.Unlock(t.Context())
	})
}

type shortBatch struct {
	*fakeStore
	n int
}

func (f *shortBatch) RenewAll(ctx context.Context, holds []driver.Hold) (out []driver.Renewal) {
	f.n++
	for i, h := range holds {
		if f.n == 1 && i > 0 {
			break
		}
		g, err := f.Renew(ctx, h.Key, h.Request)
		out = append(out, driver.Renewal{Grant: g, Err: err})
	}
	return out
}

// A batch that left a hold out is repaired by the next.
func TestShortBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestClient(t, &shortBatch{fakeStore: newFake()})
		a := must[*Lock](t)(c.Lock(t.Context(), "a"))
		b := must[*Lock](t)(c.Lock(t.Context(), "b"))
		time.Sleep(2 * time.Minute)
		if a.Err() != nil || b.Err() != nil {
			t.Errorf("%v, %v: want one missing answer to be repaired by the next renewal", a.Err(), b.Err())
		}
	})
}

// A wall clock that is set forward ends a hold, but does not free its key: who goes by Deadline alone, outside the
// process, is not overtaken. A waiter of this client and one of another go on then.
func TestWallClockFreesNothing(t *testing.T) {
	for name, opts := range map[string][]LockOption{
		"lease": {TTL(time.Minute)}, "max hold": {TTL(time.Hour), MaxHold(time.Minute)}, "no renewal": {TTL(time.Minute), NoRenew()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				c, other := newTestClient(t, f), newTestClient(t, f)
				var step atomic.Int64
				c.clock.Read = func() clock.Instant {
					now := c.clock.At(time.Now())
					now.Wall += step.Load()
					return now
				}
				l := must[*Lock](t)(c.Lock(t.Context(), "k", opts...))
				until := time.Now().Add(time.Until(l.Deadline()))
				if ends := time.Now().Add(time.Minute); len(opts) > 1 && ends.Before(until) {
					until = ends
				}
				step.Store(int64(2 * time.Hour))
				<-l.Done()
				granted := make(chan time.Time, 2)
				for _, c := range []*Client{other, c} {
					go func() {
						l, err := c.Lock(t.Context(), "k")
						granted <- time.Now()
						if err != nil {
							t.Error(err)
							return
						}
						_ = l.Unlock(t.Context())
					}()
				}
				if err := l.Unlock(t.Context()); !errors.Is(err, ErrLost) {
					t.Errorf("Unlock: %v", err)
				}
				for range 2 {
					if at := <-granted; at.Before(until) || at.After(until.Add(2*time.Minute)) {
						t.Errorf("granted %v after the deadline", at.Sub(until))
					}
				}
			})
		})
	}
}

// Done, too, tells what the wall clock says: a machine that slept has lost its locks, or loses them by so much earlier, or
// renews them at once.
func TestDoneAfterSuspend(t *testing.T) {
	for _, tc := range []struct {
		name  string
		slept time.Duration // while the monotonic clock stood still
		opts  []LockOption
		lost  time.Duration // after the machine resumed, at the latest; 0: never
	}{
		{"renewed, slept for longer than the lease", time.Hour, []LockOption{TTL(time.Minute)}, 5 * time.Second},
		{"not renewed, slept for longer than the lease", time.Hour, []LockOption{TTL(time.Minute), NoRenew()}, 5 * time.Second},
		{"renewed, slept for most of the lease", 50 * time.Second, []LockOption{TTL(time.Minute)}, 0},
		{"not renewed, slept for most of the lease", 50 * time.Second, []LockOption{TTL(time.Minute), NoRenew()}, 9 * time.Second},
		{"slept for most of MaxHold", 50 * time.Second, []LockOption{TTL(time.Hour), MaxHold(time.Minute)}, 9 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newTestClient(t, newFake())
				var mu sync.Mutex
				var step time.Duration
				c.clock.Read = func() clock.Instant {
					mu.Lock()
					defer mu.Unlock()
					now := c.clock.At(time.Now())
					now.Wall += int64(step)
					return now
				}
				l := must[*Lock](t)(c.Lock(t.Context(), "k", tc.opts...))
				time.Sleep(time.Second)
				mu.Lock()
				step = tc.slept
				mu.Unlock()
				resumed := time.Now()
				select {
				case <-l.Done():
					if d := time.Since(resumed); tc.lost == 0 || d > tc.lost {
						t.Errorf("Done closed %v after the machine resumed", d)
					}
				case <-time.After(10 * time.Minute):
					if tc.lost > 0 {
						t.Error("Done has not closed")
					}
				}
			})
		})
	}
}

// TryLock does not wait with a Lock of the same owner.
func TestTryLockJoinsAWaitingLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		holder, c := newTestClient(t, f), newTestClient(t, f)
		held := must[*Lock](t)(holder.Lock(t.Context(), "k"))
		ctx := WithOwner(t.Context())
		go func() {
			if l, err := c.Lock(ctx, "k"); err == nil {
				_ = l.Unlock(ctx)
			}
		}()
		time.Sleep(time.Second)
		time.AfterFunc(time.Hour, func() { _ = held.Unlock(context.Background()) })
		start := time.Now()
		l, err := c.TryLock(ctx, "k")
		if d := time.Since(start); d > time.Second {
			t.Errorf("TryLock took %v", d)
		}
		if err == nil {
			_ = l.Unlock(ctx)
		} else {
			wantErr(t, err, ErrLocked)
		}
		time.Sleep(2 * time.Hour)
	})
}

// A store whose leases are sessions grants its session's TTL, whatever was asked for. Renewals go
// by what was granted, in time even when some fail or hang.
func TestSessionShorterThanTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const session = 600 * time.Millisecond
		store := &sessionStore{fakeStore: newFake(), session: session}
		var calls atomic.Int32
		store.intercept = func(op, _ string) outcome {
			if op != "renew" {
				return outcome{}
			}
			switch calls.Add(1) % 4 {
			case 1:
				return outcome{before: errWire}
			case 3:
				return outcome{hang: true}
			}
			return outcome{}
		}
		c := newTestClient(t, store)
		l := must[*Lock](t)(c.Lock(t.Context(), "k", TTL(30*time.Second)))
		if l.TTL() != session {
			t.Errorf("TTL %v, want %v", l.TTL(), session)
		}
		time.Sleep(20 * time.Second)
		if err := l.Err(); err != nil {
			t.Fatal(err)
		}
		n := store.count("renew")
		if n < 60 || n > 250 {
			t.Errorf("%d renewals in 20 s of a session of %v", n, session)
		}
		if err := l.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// sessionStore grants leases of its session's length.
type sessionStore struct {
	*fakeStore
	session time.Duration
}

func (s *sessionStore) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	r.TTL = s.session
	return s.fakeStore.TryLock(ctx, key, r)
}

func (s *sessionStore) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	r.TTL = s.session
	return s.fakeStore.Renew(ctx, key, r)
}

// However many contexts a hold has, each is cancelled at the same cost, in any order.
func TestManyContextsOfAHold(t *testing.T) {
	const contexts = 100_000
	c := newTestClient(t, newFake())
	l := must[*Lock](t)(c.Lock(t.Context(), "k"))
	ctx, cancel := make([]context.Context, contexts), make([]context.CancelFunc, contexts)
	for i := range contexts {
		ctx[i], cancel[i] = l.Context(t.Context())
	}
	start := time.Now()
	for i := range contexts / 2 { // from both ends, and one in the middle stays
		cancel[i]()
		if end := contexts - 1 - i; end != contexts/2 {
			cancel[end]()
			cancel[end]()
		}
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("cancelling %d contexts of one hold took %v", contexts, took)
	}
	if n := l.h.t.Watchers(); n != 1 || ctx[contexts/2].Err() != nil {
		t.Fatalf("%d contexts are left, the last %v: want the one that was not cancelled", n, ctx[contexts/2].Err())
	}
	unlock(t, l)
	wantErr(t, context.Cause(ctx[contexts/2]), ErrNotHeld)
	cancel[contexts/2]()
}
