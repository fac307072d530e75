package coord

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
)

// fakeLimits is a limiter beside a fakeStore, by the shared arithmetic.
type fakeLimits struct {
	*fakeStore
	states map[string]*limits.State
}

func newFakeLimits() *fakeLimits {
	f := &fakeLimits{newFake(), make(map[string]*limits.State)}
	f.info.Claims = append(f.info.Claims, driver.Reserve)
	return f
}

func (f *fakeLimits) state(key string, l driver.Limit) *limits.State {
	name := key + " " + limits.Name(l)
	if f.states[name] == nil {
		f.states[name] = &limits.State{}
	}
	return f.states[name]
}

func (f *fakeLimits) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (driver.TakenOne, error) {
	return driver.One(f.Take(ctx, key, l, []driver.Ask{a}))
}

func (f *fakeLimits) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (out driver.Taken, err error) {
	err = f.do(ctx, "take", key, func() error {
		for _, a := range asks {
			one, _ := f.state(key, l).Take(l, time.Now().UnixMicro(), a)
			out.Asks = append(out.Asks, one.Granted)
			out.Remaining, out.ResetAfter = one.Remaining, one.ResetAfter
		}
		return nil
	})
	return out, err
}

func (f *fakeLimits) Reset(ctx context.Context, key string, l driver.Limit) error {
	return f.do(ctx, "reset", key, func() error {
		delete(f.states, key+" "+limits.Name(l))
		return nil
	})
}

func (f *fakeLimits) Refund(ctx context.Context, key string, l driver.Limit, id string, n int) error {
	return f.do(ctx, "refund", key, func() error {
		f.state(key, l).Refund(l, time.Now().UnixMicro(), id, n)
		return nil
	})
}

var ten = PerSecond(10)

func TestAllow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestClient(t, newFakeLimits())
		for i := range 10 {
			r := must[Result](t)(c.Allow(t.Context(), "k", ten))
			if !r.Allowed || r.Granted != 1 || r.Remaining != 9-i || r.Degraded != nil {
				t.Fatalf("ask %d: %+v", i, r)
			}
		}
		r := must[Result](t)(c.Allow(t.Context(), "k", ten))
		if r.Allowed || r.Granted != 0 || r.RetryAfter <= 0 {
			t.Fatalf("ask 11: %+v", r)
		}
		time.Sleep(r.RetryAfter - time.Millisecond)
		if r := must[Result](t)(c.Allow(t.Context(), "k", ten)); r.Allowed {
			t.Error("admitted before RetryAfter")
		}
		time.Sleep(time.Millisecond)
		if r := must[Result](t)(c.Allow(t.Context(), "k", ten)); !r.Allowed {
			t.Errorf("denied after RetryAfter: %+v", r)
		}
	})
}

func TestAllowAtMostAndPeek(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLimits()
		c := newTestClient(t, f)
		r := must[Result](t)(c.AllowAtMost(t.Context(), "k", ten, 7))
		if r.Granted != 7 || !r.Allowed {
			t.Errorf("%+v", r)
		}
		if r := must[Result](t)(c.Peek(t.Context(), "k", ten)); !r.Allowed || r.Granted != 0 || r.Remaining != 3 {
			t.Errorf("peek %+v", r)
		}
		if r := must[Result](t)(c.AllowAtMost(t.Context(), "k", ten, 1000)); r.Granted != 3 {
			t.Errorf("%+v", r)
		}
		if r := must[Result](t)(c.Peek(t.Context(), "k", ten)); r.Allowed || r.RetryAfter <= 0 {
			t.Errorf("peek %+v", r)
		}
		if err := c.Reset(t.Context(), "k", ten); err != nil {
			t.Fatal(err)
		}
		if r := must[Result](t)(c.AllowN(t.Context(), "k", ten, 10)); !r.Allowed {
			t.Errorf("after Reset %+v", r)
		}
	})
}

// Denials are answered from the cache until their time, and no longer than a second.
func TestDenialCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLimits()
		a, b := newTestClient(t, f), newTestClient(t, f)
		hour := PerHour(1)
		ctx := t.Context()
		must[Result](t)(a.Allow(ctx, "k", hour))
		first := must[Result](t)(a.Allow(ctx, "k", hour))
		n := f.count("take")
		for range 100 {
			time.Sleep(9 * time.Millisecond)
			if r := must[Result](t)(a.Allow(ctx, "k", hour)); r.Allowed {
				t.Fatal("admitted")
			}
		}
		if got := f.count("take") - n; got != 0 {
			t.Errorf("%d calls for what was known", got)
		}
		r := must[Result](t)(a.Allow(ctx, "k", hour))
		if want := first.RetryAfter - 900*time.Millisecond; r.RetryAfter != want || r.ResetAfter != want {
			t.Errorf("cached denial %+v: want it aged to %v", r, want)
		}
		// Another ask of the same key is another question.
		must[Result](t)(a.Allow(ctx, "k", PerHour(2)))
		must[Result](t)(a.Peek(ctx, "k", hour))
		if got := f.count("take") - n; got != 2 {
			t.Errorf("%d calls: want 2", got)
		}
		// Another client's reset shows within a second, the own one at once.
		if err := b.Reset(ctx, "k", hour); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if r := must[Result](t)(a.Allow(ctx, "k", hour)); !r.Allowed {
			t.Error("another client's reset does not show")
		}
		must[Result](t)(a.Allow(ctx, "k", hour))
		if err := a.Reset(ctx, "k", hour); err != nil {
			t.Fatal(err)
		}
		if r := must[Result](t)(a.Allow(ctx, "k", hour)); !r.Allowed {
			t.Error("the own reset does not show")
		}
	})
}

func TestFailurePolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLimits()
		shut, openly := newTestClient(t, f), newTestClient(t, f, WithFailurePolicy(FailOpen))
		f.setIntercept(func(op, key string) outcome { return outcome{before: errWire} })
		ctx := t.Context()
		_, err := shut.Allow(ctx, "k", ten)
		wantErr(t, err, ErrUnavailable, ErrUnknownOutcome, errWire)
		_, err = shut.Peek(ctx, "k", ten)
		wantErr(t, err, ErrUnavailable)
		if errors.Is(err, ErrUnknownOutcome) {
			t.Error("a peek has no outcome")
		}
		wantErr(t, shut.Wait(ctx, "k", ten), ErrUnavailable)
		r := must[Result](t)(openly.AllowN(ctx, "k", ten, 3))
		if !r.Allowed || r.Granted != 3 {
			t.Errorf("%+v", r)
		}
		wantErr(t, r.Degraded, ErrUnavailable, errWire)
		if err := openly.Wait(ctx, "k", ten); err != nil {
			t.Error(err)
		}
		// A mistake and a caller who has gone are not the store's failure.
		_, err = openly.AllowN(ctx, "k", ten, -1)
		wantErr(t, err, ErrInvalid)
		gone, cancel := context.WithCancel(ctx)
		f.setIntercept(func(op, key string) outcome { cancel(); return outcome{hang: true} })
		_, err = openly.Allow(gone, "k", ten)
		wantErr(t, err, context.Canceled)
	})
}

func TestWaitIsFIFOAndHonoursDeadlines(t *testing.T) {
	for _, limit := range []Limit{PerSecond(1), {Rate: 1, Per: time.Second, Burst: 1}, {Rate: 1, Per: time.Second, Algorithm: FixedWindow}} {
		t.Run(limit.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newTestClient(t, newFakeLimits())
				var mu sync.Mutex
				var order []int
				var wg sync.WaitGroup
				for i := range 5 {
					wg.Go(func() {
						if err := c.Wait(t.Context(), "k", limit); err != nil {
							t.Error(err)
						}
						mu.Lock()
						defer mu.Unlock()
						order = append(order, i)
					})
					synctest.Wait()
				}
				// Behind four waiters there is no permit within a second: no need to wait
				// for that.
				ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
				defer cancel()
				start := time.Now()
				err := c.Wait(ctx, "k", limit)
				wantErr(t, err, ErrLimited, context.DeadlineExceeded)
				if d := time.Since(start); d > 500*time.Millisecond {
					t.Errorf("took %v", d)
				}
				wg.Wait()
				for i, got := range order {
					if got != i {
						t.Fatalf("order %v", order)
					}
				}
			})
		})
	}
}

func TestWaitReturnsEarly(t *testing.T) {
	for _, limit := range []Limit{PerMinute(1), {Rate: 1, Per: time.Minute, Burst: 1}} {
		t.Run(limit.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newTestClient(t, newFakeLimits())
				must[Result](t)(c.Allow(t.Context(), "k", limit))
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				start := time.Now()
				err := c.Wait(ctx, "k", limit)
				wantErr(t, err, ErrLimited, context.DeadlineExceeded)
				var e *Error
				if d := time.Since(start); d != 0 || !errors.As(err, &e) || e.RetryAfter < 10*time.Second {
					t.Errorf("after %v: %v: want at once, with the time to retry", d, err)
				}
				_, err = c.Allow(ctx, "", limit)
				wantErr(t, err, ErrInvalid)
			})
		})
	}
}

// A cancelled wait on a bucket gives its reservation back.
func TestCancelledWaitGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestClient(t, newFakeLimits())
		bucket := Limit{Rate: 1, Per: time.Second, Burst: 1}
		must[Result](t)(c.Allow(t.Context(), "k", bucket))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		wantErr(t, c.Wait(ctx, "k", bucket), ErrLimited, context.Canceled)
		time.Sleep(900 * time.Millisecond)
		if r := must[Result](t)(c.Allow(t.Context(), "k", bucket)); !r.Allowed {
			t.Errorf("the cancelled waiter's permit is gone: %+v", r)
		}
	})
}

// A cancellation that the store did not answer is tried again by the next.
func TestCancelAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLimits()
		c := newTestClient(t, f)
		ctx := t.Context()
		bucket := Limit{Rate: 1, Per: time.Second, Burst: 1}
		must[*Reservation](t)(c.Reserve(ctx, "k", bucket, 1))
		later := must[*Reservation](t)(c.Reserve(ctx, "k", bucket, 1))
		f.setIntercept(func(string, string) outcome { return outcome{before: errWire} })
		wantErr(t, later.Cancel(ctx), ErrUnavailable)
		f.setIntercept(nil)
		for range 2 {
			if err := later.Cancel(ctx); err != nil {
				t.Error(err)
			}
		}
		if n := f.count("refund"); n != 2 {
			t.Errorf("%d refunds: want the one that failed and the one that did not", n)
		}
		if again := must[*Reservation](t)(c.Reserve(ctx, "k", bucket, 1)); again.Delay() != time.Second {
			t.Errorf("delay %v after the cancellation: want 1s", again.Delay())
		}
	})
}

func TestReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLimits()
		c := newTestClient(t, f)
		ctx := t.Context()
		bucket := Limit{Rate: 10, Per: time.Second, Burst: 10}
		now := must[*Reservation](t)(c.Reserve(ctx, "k", bucket, 10))
		if now.Delay() != 0 || now.N() != 10 {
			t.Errorf("delay %v, n %d", now.Delay(), now.N())
		}
		later := must[*Reservation](t)(c.Reserve(ctx, "k", bucket, 5))
		if later.Delay() != 500*time.Millisecond {
			t.Errorf("delay %v: want 500ms", later.Delay())
		}
		for range 2 {
			if err := later.Cancel(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if err := now.Cancel(ctx); err != nil { // due already: nothing to give back
			t.Fatal(err)
		}
		if n := f.count("refund"); n != 1 {
			t.Errorf("%d refunds: want 1", n)
		}
		again := must[*Reservation](t)(c.Reserve(ctx, "k", bucket, 5))
		if again.Delay() != 500*time.Millisecond {
			t.Errorf("delay %v after a cancellation: want 500ms", again.Delay())
		}
		_, err := c.Reserve(ctx, "k", ten, 1)
		wantErr(t, err, ErrUnsupported)
		_, err = c.Reserve(ctx, "k", bucket, 11)
		wantErr(t, err, ErrExceedsBurst)
		_, err = c.Reserve(ctx, "day", Limit{Rate: 1, Per: 48 * time.Hour, Burst: 1}, 1)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Reserve(ctx, "day", Limit{Rate: 1, Per: 48 * time.Hour, Burst: 1}, 1)
		wantErr(t, err, ErrLimited)
	})
}

func TestInvalidLimits(t *testing.T) {
	f := newFakeLimits()
	c := newTestClient(t, f)
	for _, tc := range []struct {
		name  string
		limit Limit
		n     int
		kind  error
		want  string
	}{
		{"no rate", Limit{Per: time.Second}, 1, ErrInvalid, "rate 0: want 1 to"},
		{"negative rate", PerSecond(-5), 1, ErrInvalid, "rate -5"},
		{"no period", Limit{Rate: 1}, 1, ErrInvalid, "period 0s: want 1ms to"},
		{"fine period", Per(1, time.Millisecond+1), 1, ErrInvalid, "want whole microseconds"},
		{"long period", Per(1, 1<<62), 1, ErrInvalid, "want 1ms to"},
		{"negative burst", Limit{Rate: 1, Per: time.Second, Burst: -1}, 1, ErrInvalid, "burst -1"},
		{"burst on a window", Limit{Rate: 1, Per: time.Second, Burst: 1, Algorithm: FixedWindow}, 1, ErrInvalid, "only a token-bucket has a burst"},
		{"unknown algorithm", Limit{Rate: 1, Per: time.Second, Algorithm: 9}, 1, ErrInvalid, "algorithm(9)"},
		{"too fine", Limit{Rate: 999_999_999_989, Per: 366 * 24 * time.Hour, Burst: 1_000_000}, 1, ErrInvalid, "too fine"},
		{"negative permits", ten, -3, ErrInvalid, "-3 permits"},
		{"more than ever", ten, 11, ErrExceedsBurst, "grants at most 10"},
		{"more than the burst", Limit{Rate: 10, Per: time.Second, Burst: 3}, 4, ErrExceedsBurst, "grants at most 3"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := c.AllowN(t.Context(), "k", tc.limit, tc.n)
			wantErr(t, err, tc.kind)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v: want it to say %q", err, tc.want)
			}
			wantErr(t, c.WaitN(t.Context(), "k", tc.limit, tc.n), tc.kind)
		})
	}
	if len(f.calls) != 0 {
		t.Errorf("refused asks reached the store: %v", f.calls)
	}
}

func TestNoLimiter(t *testing.T) {
	c := newTestClient(t, newFake())
	_, err := c.Allow(t.Context(), "k", ten)
	wantErr(t, err, ErrUnsupported)
	wantErr(t, c.Wait(t.Context(), "k", ten), ErrUnsupported)
	wantErr(t, c.Reset(t.Context(), "k", ten), ErrUnsupported)
}

// A debt deeper than can be reserved is waited for, not refused.
func TestWaitBeyondMaxReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestClient(t, newFakeLimits())
		slow := Limit{Rate: 1, Per: 48 * time.Hour, Burst: 1}
		must[Result](t)(c.Allow(t.Context(), "k", slow))
		start := time.Now()
		if err := c.Wait(t.Context(), "k", slow); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d != 48*time.Hour {
			t.Errorf("waited %v: want 48h", d)
		}
	})
}

// A wait whose time is up while it asks again was limited; the store is not to blame.
func TestWaitEndsWhileItAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLimits()
		c := newTestClient(t, f)
		must[Result](t)(c.Allow(t.Context(), "k", PerSecond(1)))
		asks := 0
		f.setIntercept(func(op, key string) outcome {
			asks++
			return outcome{hang: asks > 1}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		err := c.Wait(ctx, "k", PerSecond(1))
		wantErr(t, err, ErrLimited, context.DeadlineExceeded)
		if errors.Is(err, ErrUnavailable) {
			t.Errorf("error %v", err)
		}
	})
}
