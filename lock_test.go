package coord

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/internal/errs"
	"github.com/coordgo/coord/internal/hold"
)

func TestLockUnlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, f)
		ctx := t.Context()
		l := must[*Lock](t)(c.Lock(ctx, "k"))
		if l.Key() != "k" || l.Token() != 1<<hold.SeqBits || l.Err() != nil || l.TTL() != DefaultTTL {
			t.Errorf("lock: key %q token %d err %v ttl %v", l.Key(), l.Token(), l.Err(), l.TTL())
		}
		if d := time.Until(l.Deadline()); d != DefaultTTL-DefaultTTL/100 {
			t.Errorf("deadline in %v: want the TTL less its margin", d)
		}
		if isClosed(l.Done()) {
			t.Error("Done is closed while held")
		}
		if err := l.Unlock(ctx); err != nil {
			t.Fatal(err)
		}
		if !isClosed(l.Done()) || f.held("k") {
			t.Error("after Unlock: Done open or key taken")
		}
		wantErr(t, l.Err(), ErrNotHeld)
		wantErr(t, l.Unlock(ctx), ErrNotHeld)
		if errors.Is(l.Unlock(ctx), ErrLost) {
			t.Error("a second Unlock is ErrLost: nothing was lost")
		}
		l2 := must[*Lock](t)(c.TryLock(ctx, "k"))
		if l2.Token() <= l.Token() {
			t.Errorf("token %d after %d", l2.Token(), l.Token())
		}
		if err := l2.Unlock(ctx); err != nil {
			t.Fatal(err)
		}
		if n := len(f.calls); n != 4 {
			t.Errorf("%d calls for two locks: want 4: %v", n, f.calls)
		}
	})
}

func TestRenewalKeepsTheHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, f)
		l := must[*Lock](t)(c.Lock(t.Context(), "k", TTL(3*time.Second)))
		time.Sleep(time.Minute + 500*time.Millisecond)
		if err := l.Err(); err != nil {
			t.Fatal(err)
		}
		if n := f.count("renew"); n < 59 || n > 66 {
			t.Errorf("%d renewals in a minute: want about one per TTL/3", n)
		}
		if err := l.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		n := f.count("renew")
		time.Sleep(time.Minute)
		if got := f.count("renew"); got != n {
			t.Errorf("%d renewals after Unlock", got-n)
		}
	})
}

// The store falls silent; the holder knows before the lease can end.
func TestLossAtDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, f)
		l := must[*Lock](t)(c.Lock(t.Context(), "k", TTL(3*time.Second)))
		work, cancel := l.Context(t.Context())
		defer cancel()
		time.Sleep(2 * time.Second)
		f.setIntercept(func(op, key string) outcome { return outcome{hang: true} })
		<-l.Done()
		if left := time.Until(f.freeAt("k")); left <= 0 || left > 100*time.Millisecond {
			t.Errorf("Done closed %v before the lease ended: want a margin's time", left)
		}
		wantErr(t, l.Err(), ErrLost, ErrNotHeld)
		wantErr(t, context.Cause(work), ErrLost)
		wantErr(t, l.Unlock(t.Context()), ErrLost)
		f.setIntercept(nil)
	})
}

func TestPassingRenewalFailureIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, f)
		l := must[*Lock](t)(c.Lock(t.Context(), "k", TTL(3*time.Second)))
		f.setIntercept(func(op, key string) outcome { return outcome{before: errWire} })
		time.Sleep(2500 * time.Millisecond)
		f.setIntercept(nil)
		time.Sleep(10 * time.Second)
		if err := l.Err(); err != nil {
			t.Error(err)
		}
	})
}

func TestEntryRemovedMeansLossWithinOneRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, f)
		l := must[*Lock](t)(c.Lock(t.Context(), "k", TTL(3*time.Second)))
		start := time.Now()
		f.mu.Lock()
		delete(f.leases, "k")
		f.mu.Unlock()
		<-l.Done()
		if d := time.Since(start); d > time.Second {
			t.Errorf("loss seen after %v: want one renewal interval", d)
		}
		wantErr(t, l.Unlock(t.Context()), ErrLost)
	})
}

// A holder that was frozen sees the loss in its first call, before any timer runs, on
// whichever clock went on.
func TestFrozenHolderSeesLossAtOnce(t *testing.T) {
	for name, skip := range map[string]clock.Instant{
		"monotonic": {Mono: time.Hour},
		"wall":      {Wall: int64(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newTestClient(t, newFake())
				l := must[*Lock](t)(c.Lock(t.Context(), "k"))
				work, cancel := l.Context(t.Context())
				defer cancel()
				c.clock.Read = func() clock.Instant {
					now := c.clock.At(time.Now())
					return clock.Instant{Mono: now.Mono + skip.Mono, Wall: now.Wall + skip.Wall}
				}
				if err := work.Err(); err == nil {
					t.Error("the context does not see it")
				}
				wantErr(t, context.Cause(work), ErrLost)
				wantErr(t, l.Err(), ErrLost)
			})
		})
	}
}

// After the machine has slept, Deadline is nearer by as much, for the store's clock went on.
func TestDeadlineAfterSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestClient(t, newFake())
		l := must[*Lock](t)(c.Lock(t.Context(), "k", TTL(time.Minute), NoRenew()))
		before := time.Until(l.Deadline())
		const slept = 20 * time.Second
		c.clock.Read = func() clock.Instant {
			now := c.clock.At(time.Now())
			now.Wall += int64(slept)
			return now
		}
		if d := before - time.Until(l.Deadline()); d != slept {
			t.Errorf("Deadline is nearer by %v: want %v", d, slept)
		}
	})
}

func TestMaxHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, f)
		start := time.Now()
		l := must[*Lock](t)(c.Lock(t.Context(), "k", TTL(3*time.Second), MaxHold(10*time.Second)))
		<-l.Done()
		if d := time.Since(start); d != 10*time.Second {
			t.Errorf("ended after %v: want 10s", d)
		}
		wantErr(t, l.Err(), ErrMaxHold, ErrLost, ErrNotHeld)
		synctest.Wait()
		if f.held("k") {
			t.Error("the key is not free after MaxHold")
		}
		wantErr(t, l.Unlock(t.Context()), ErrMaxHold)
	})
}

func TestNoRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, f)
		l := must[*Lock](t)(c.Lock(t.Context(), "k", TTL(3*time.Second), NoRenew()))
		<-l.Done()
		wantErr(t, l.Err(), ErrLost)
		if n := f.count("renew"); n != 0 {
			t.Errorf("%d renewals", n)
		}
	})
}

// Without the store's help, the client keeps the key for MinHold and then frees it.
func TestMinHoldWithoutDelayedUnlocker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, f)
		start := time.Now()
		l := must[*Lock](t)(c.Lock(t.Context(), "k", TTL(time.Second), MinHold(5*time.Second)))
		if err := l.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		if time.Since(start) != 0 || !isClosed(l.Done()) {
			t.Error("Unlock did not return at once")
		}
		l2 := must[*Lock](t)(c.Lock(t.Context(), "k"))
		if d := time.Since(start); d < 5*time.Second || d > 5*time.Second+2*pollPause {
			t.Errorf("the next had it after %v: want 5s", d)
		}
		if err := l2.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// delayedFake is a fakeStore that can unlock later.
type delayedFake struct{ *fakeStore }

func (f delayedFake) Info() driver.Info { return claiming(f.fakeStore, driver.MinHoldAfterExit) }

func (f delayedFake) UnlockAfter(ctx context.Context, key, id string, d time.Duration) error {
	return f.do(ctx, "unlockafter", key, func() error {
		l := f.live(key)
		if l == nil || l.id != id {
			return driver.ErrNotHeld
		}
		l.id, l.end = "-"+id, time.Now().Add(d)
		return nil
	})
}

func TestMinHoldAtTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, delayedFake{f})
		l := must[*Lock](t)(c.Lock(t.Context(), "k", TTL(time.Second), MinHold(5*time.Second)))
		time.Sleep(time.Second)
		if err := l.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left := time.Until(f.freeAt("k")); left != 4*time.Second {
			t.Errorf("key stays taken for %v: want the rest of MinHold, 4s", left)
		}
		if f.count("unlockafter") != 1 || f.count("unlock") != 0 {
			t.Errorf("calls: %v", f.calls)
		}
	})
}

func TestWaitingEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		a, b := newTestClient(t, f), newTestClient(t, f)
		must[*Lock](t)(a.Lock(t.Context(), "k"))

		reason := errors.New("user went away")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(reason) })
		start := time.Now()
		_, err := b.Lock(ctx, "k")
		if d := time.Since(start); d != time.Second {
			t.Errorf("returned after %v: want 1s", d)
		}
		wantErr(t, err, ErrLocked, context.Canceled, reason)

		_, err = b.Lock(t.Context(), "k", WaitAtMost(time.Second))
		wantErr(t, err, ErrLocked, context.DeadlineExceeded)

		calls := len(f.calls)
		_, err = b.Lock(ctx, "k")
		wantErr(t, err, context.Canceled, reason)
		if errors.Is(err, ErrLocked) || len(f.calls) != calls {
			t.Errorf("a dead ctx: error %v, %d calls: want no I/O and no claim about the key", err, len(f.calls)-calls)
		}
	})
}

func TestTryLockSaysForHowLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		a, b := newTestClient(t, f), newTestClient(t, f)
		must[*Lock](t)(a.Lock(t.Context(), "k", TTL(10*time.Second)))
		_, err := b.TryLock(t.Context(), "k")
		wantErr(t, err, ErrLocked)
		var e *Error
		if !errors.As(err, &e) || e.RetryAfter != 10*time.Second || e.Op != "trylock" || e.Backend != "fake" || e.Key != "k" {
			t.Errorf("error %#v", e)
		}
	})
}

// The reply of an acquisition is lost: the caller is told, and the janitor removes
// what may be there.
func TestLostAcquireReply(t *testing.T) {
	for name, o := range map[string]outcome{"applied": {after: errWire}, "not applied": {before: errWire}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				c := newTestClient(t, f)
				f.setIntercept(func(op, key string) outcome {
					if op == "trylock" {
						return o
					}
					return outcome{}
				})
				_, err := c.TryLock(t.Context(), "k", TTL(10*time.Second))
				wantErr(t, err, ErrUnknownOutcome, ErrUnavailable, errWire)
				synctest.Wait()
				if f.held("k") {
					t.Error("an orphan is left")
				}
				f.setIntercept(nil)
				time.Sleep(20 * time.Second)
				n := f.count("unlock")
				time.Sleep(time.Hour)
				if got := f.count("unlock"); got != n || f.count("renew") != 0 {
					t.Errorf("the janitor goes on after last send + TTL: %d calls more", got-n)
				}
			})
		})
	}
}

// A call that the store applies late, after a first clean-up found nothing, is
// still removed.
func TestLateAcquireIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, f)
		var late func()
		f.setIntercept(func(op, key string) outcome {
			if op != "trylock" {
				return outcome{}
			}
			return outcome{hang: true}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Lock(ctx, "k", TTL(10*time.Second))
		wantErr(t, err, context.DeadlineExceeded, ErrUnknownOutcome)
		f.setIntercept(nil)
		id := ""        // the request is applied now, long after the caller has gone
		synctest.Wait() // until the janitor has found nothing
		f.mu.Lock()
		id = f.asked.ID
		f.mu.Unlock()
		late = func() { _, _ = f.TryLock(context.Background(), "k", driver.Request{ID: id, TTL: 10 * time.Second}) }
		time.Sleep(3 * time.Second)
		late()
		time.Sleep(2 * cleanUpPause)
		if f.held("k") {
			t.Error("the late grant is left until its lease ends")
		}
	})
}

func TestLostReleaseReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, f)
		l := must[*Lock](t)(c.Lock(t.Context(), "k"))
		first := true
		f.setIntercept(func(op, key string) outcome {
			if op == "unlock" && first {
				first = false
				return outcome{hangAfter: true}
			}
			return outcome{}
		})
		if err := l.Unlock(t.Context()); err != nil {
			t.Errorf("the key was freed, but Unlock says %v", err)
		}
	})
}

func TestUnlockUnderCancelledContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, f)
		l := must[*Lock](t)(c.Lock(t.Context(), "k"))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := l.Unlock(ctx); err != nil || f.held("k") {
			t.Errorf("Unlock: %v, held %v", err, f.held("k"))
		}
	})
}

func TestUnlockIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, f)
		l := must[*Lock](t)(c.Lock(t.Context(), "k"))
		f.setIntercept(func(op, key string) outcome { return outcome{hang: true} })
		start := time.Now()
		err := l.Unlock(t.Context())
		if d := time.Since(start); d > unlockBound+100*time.Millisecond {
			t.Errorf("Unlock took %v", d)
		}
		wantErr(t, err, ErrUnknownOutcome, ErrUnavailable)
		f.setIntercept(nil)
		time.Sleep(2 * time.Second)
		if f.held("k") {
			t.Error("the janitor has not freed the key")
		}
	})
}

// A definite refusal of the store is no lost hold, and no held lock.
func TestUnavailableStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, f)
		refused := errs.Chain(driver.ErrNotSent, errors.New("connection refused"))
		f.setIntercept(func(op, key string) outcome { return outcome{before: refused} })
		_, err := c.Lock(t.Context(), "k")
		wantErr(t, err, ErrUnavailable)
		if errors.Is(err, ErrUnknownOutcome) || errors.Is(err, ErrLocked) {
			t.Errorf("error %v", err)
		}
	})
}

// The socket's timer fires a moment before ctx's: the call has timed out with
// ctx all the same.
func TestStoreTimesOutJustBeforeTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLimits()
		c := newTestClient(t, f)
		f.setIntercept(func(op, key string) outcome {
			if op != "unlock" {
				time.Sleep(time.Second - 500*time.Microsecond)
			}
			return outcome{before: errWire}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.TryLock(ctx, "k")
		wantErr(t, err, context.DeadlineExceeded, ErrUnknownOutcome, ErrUnavailable)
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = c.Allow(ctx, "k", ten)
		wantErr(t, err, context.DeadlineExceeded, ErrUnknownOutcome, ErrUnavailable)
	})
}

// A waiter in the queue rides out an outage shorter than its TTL, not a longer one.
func TestWaiterRidesOutAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		a, b := newTestClient(t, f), newTestClient(t, f)
		must[*Lock](t)(a.Lock(t.Context(), "k", MaxHold(20*time.Second)))
		down := func(op, key string) outcome { return outcome{before: errWire} }
		time.AfterFunc(time.Second, func() { f.setIntercept(down) })
		time.AfterFunc(5*time.Second, func() { f.setIntercept(nil) })
		l := must[*Lock](t)(b.Lock(t.Context(), "k", TTL(10*time.Second)))
		if err := l.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		must[*Lock](t)(a.Lock(t.Context(), "k"))
		time.AfterFunc(time.Second, func() { f.setIntercept(down) })
		start := time.Now()
		_, err := b.Lock(t.Context(), "k", TTL(10*time.Second))
		wantErr(t, err, ErrUnavailable, errWire)
		if d := time.Since(start); d < 10*time.Second || d > 12*time.Second {
			t.Errorf("gave up after %v: want a TTL after the last answer", d)
		}
		f.setIntercept(nil)
	})
}

func TestCloseEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c, err := New(f)
		if err != nil {
			t.Fatal(err)
		}
		l := must[*Lock](t)(c.Lock(t.Context(), "k"))
		kept := must[*Lock](t)(c.Lock(t.Context(), "kept", MinHold(time.Minute)))
		work, cancel := l.Context(t.Context())
		defer cancel()
		f.setIntercept(func(op, key string) outcome {
			if op == "unlock" && !isClosed(l.Done()) {
				t.Error("a release was sent before Done closed")
			}
			return outcome{}
		})
		waited := make(chan error)
		go func() {
			_, err := c.Lock(t.Context(), "k")
			waited <- err
		}()
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		wantErr(t, <-waited, ErrClosed)
		wantErr(t, l.Err(), ErrClosed, ErrLost)
		wantErr(t, context.Cause(work), ErrLost)
		wantErr(t, l.Unlock(t.Context()), ErrLost)
		wantErr(t, kept.Err(), ErrClosed)
		if f.held("k") || !f.held("kept") || !f.closed {
			t.Errorf("k held %v, kept held %v, closed %v: want false, true (MinHold), true", f.held("k"), f.held("kept"), f.closed)
		}
		_, err = c.Lock(t.Context(), "k")
		wantErr(t, err, ErrClosed)
		_, err = c.Allow(t.Context(), "k", PerSecond(1))
		wantErr(t, err, ErrClosed)
		wantErr(t, c.Ping(t.Context()), ErrClosed)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, f)
		for _, k := range []string{"a", "b", "c"} {
			must[*Lock](t)(c.Lock(t.Context(), k))
		}
		f.setIntercept(func(op, key string) outcome { return outcome{hang: true} })
		start := time.Now()
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d > closeBound+time.Second {
			t.Errorf("Close took %v", d)
		}
	})
}

func TestShutdownWaitsForHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, f)
		ctx := WithOwner(t.Context())
		l := must[*Lock](t)(c.Lock(ctx, "k"))
		start := time.Now()
		time.AfterFunc(time.Second, func() {
			if _, err := c.TryLock(t.Context(), "other"); !errors.Is(err, ErrClosed) {
				t.Errorf("a new lock while shutting down: %v", err)
			}
			again, err := c.Lock(ctx, "k")
			if err != nil {
				t.Errorf("re-entry while shutting down: %v", err)
			} else if err := again.Unlock(ctx); err != nil {
				t.Error(err)
			}
			if err := l.Unlock(ctx); err != nil {
				t.Error(err)
			}
		})
		if err := c.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d != time.Second {
			t.Errorf("shut down after %v: want when the hold ended", d)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := newTestClient(t, newFake())
		l := must[*Lock](t)(c.Lock(t.Context(), "k"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantErr(t, c.Shutdown(ctx), context.DeadlineExceeded)
		wantErr(t, l.Err(), ErrClosed)
	})
}

// batchFake renews in batches.
type batchFake struct {
	*fakeStore
	batches int
}

func (f *batchFake) RenewAll(ctx context.Context, holds []driver.Hold) []driver.Renewal {
	f.mu.Lock()
	f.batches++
	f.mu.Unlock()
	out := make([]driver.Renewal, len(holds))
	for i, h := range holds {
		out[i].Grant, out[i].Err = f.Renew(ctx, h.Key, h.Request)
	}
	return out
}

func TestManyHoldsCostNoGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 10_000
		f := &batchFake{fakeStore: newFake()}
		c := newTestClient(t, f)
		before := runtime.NumGoroutine()
		locks := make([]*Lock, n)
		for i := range locks {
			locks[i] = must[*Lock](t)(c.Lock(t.Context(), Key("k", string(rune('a'+i%26)), time.Duration(i).String()), TTL(30*time.Second)))
			if i%100 == 0 {
				time.Sleep(10 * time.Millisecond) // acquired over a second
			}
		}
		if now := runtime.NumGoroutine(); now > before+1 {
			t.Errorf("%d goroutines more for %d holds", now-before, n)
		}
		time.Sleep(95 * time.Second)
		for _, l := range locks {
			if err := l.Err(); err != nil {
				t.Fatal(err)
			}
		}
		if now := runtime.NumGoroutine(); now > before+1 {
			t.Errorf("%d goroutines more after renewals", now-before)
		}
		if renewals := f.count("renew"); renewals < 9*n || f.batches > 60 {
			t.Errorf("%d renewals in %d batches: want some 9 rounds in few batches", renewals, f.batches)
		}
	})
}

func TestInvalidLockCalls(t *testing.T) {
	f := newFake()
	c := newTestClient(t, f)
	long := strings.Repeat("k", MaxKey+1)
	for _, tc := range []struct {
		name string
		key  string
		opts []LockOption
		want string
	}{
		{"empty key", "", nil, `empty key: want 1 to 1024 bytes`},
		{"long key", long, nil, `key of 1025 bytes: want 1 to 1024`},
		{"not UTF-8", "a\xff", nil, `want valid UTF-8`},
		{"zero TTL", "k", []LockOption{TTL(0)}, `TTL 0s: want above 0`},
		{"negative TTL", "k", []LockOption{TTL(-1)}, `TTL -1ns: want above 0`},
		{"long TTL", "k", []LockOption{TTL(2 * time.Hour)}, `want at most 1h0m0s on fake`},
		{"zero wait", "k", []LockOption{WaitAtMost(0)}, `WaitAtMost 0s: want above 0`},
		{"zero MaxHold", "k", []LockOption{MaxHold(0)}, `MaxHold 0s: want above 0`},
		{"zero MinHold", "k", []LockOption{MinHold(-time.Second)}, `MinHold -1s: want above 0`},
		{"MinHold above MaxHold", "k", []LockOption{MinHold(2 * time.Second), MaxHold(time.Second)}, `MinHold 2s above MaxHold 1s`},
		{"overflow", "k", []LockOption{MaxHold(1<<63 - 1)}, `at most`},
		{"empty option", "k", []LockOption{{}}, `empty LockOption`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, lock := range []func(context.Context, string, ...LockOption) (*Lock, error){c.Lock, c.TryLock} {
				_, err := lock(t.Context(), tc.key, tc.opts...)
				wantErr(t, err, ErrInvalid)
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("error %v: want it to say %q", err, tc.want)
				}
			}
		})
	}
	_, err := c.TryLock(t.Context(), "k", WaitAtMost(time.Second))
	wantErr(t, err, ErrInvalid)
	_, err = c.TryLock(t.Context(), "k", Fair())
	wantErr(t, err, ErrUnsupported)
	if len(f.calls) != 0 {
		t.Errorf("refused calls reached the store: %v", f.calls)
	}
}

// A TTL below the least of the store is raised to it, which is said once.
func TestShortTTLIsRaised(t *testing.T) {
	f := newFake()
	log := new(bytes.Buffer)
	c := newTestClient(t, f, WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	must[*Lock](t)(c.Lock(t.Context(), "enough", TTL(10*time.Millisecond)))
	if log.Len() > 0 {
		t.Errorf("a TTL that the store can keep is warned of: %s", log)
	}
	l := must[*Lock](t)(c.Lock(t.Context(), "k", TTL(time.Millisecond)))
	if l.TTL() < 5*time.Millisecond || f.asked.TTL != 10*time.Millisecond {
		t.Errorf("TTL %v asked %v: want the store's least, 10ms", l.TTL(), f.asked.TTL)
	}
	must[*Lock](t)(c.Lock(t.Context(), "other", TTL(time.Millisecond)))
	if said := log.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, "ttl=1ms least=10ms") {
		t.Errorf("the log has %q", said)
	}
}
