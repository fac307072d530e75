package coord

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
)

// A cached denial does not outlive the client's own grants under its key.
func TestDenialCacheAfterOwnGrants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestClient(t, newFakeLimits())
		limit := Limit{Rate: 10, Per: time.Second, Burst: 10}
		must[Result](t)(c.AllowN(t.Context(), "k", limit, 6)) // 4 left
		if r := must[Result](t)(c.AllowN(t.Context(), "k", limit, 10)); r.Allowed {
			t.Fatal("10 of 4")
		}
		must[Result](t)(c.AllowN(t.Context(), "k", limit, 4)) // none left
		r := must[Result](t)(c.AllowN(t.Context(), "k", limit, 10))
		if r.Remaining != 0 {
			t.Errorf("%d remaining: want 0", r.Remaining)
		}
		time.Sleep(r.RetryAfter)
		if again := must[Result](t)(c.AllowN(t.Context(), "k", limit, 10)); !again.Allowed {
			t.Errorf("denied after its RetryAfter of %v, wait %v more", r.RetryAfter, again.RetryAfter)
		}
	})
}

// RetryAfter from the cache is as honest as the store's, on a slow network too.
func TestDenialCacheUnderLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLimits()
		c := newTestClient(t, f)
		limit := Limit{Rate: 2, Per: time.Second, Burst: 1} // one every 500 ms
		must[Result](t)(c.Allow(t.Context(), "k", limit))
		f.setIntercept(func(op, key string) outcome { time.Sleep(100 * time.Millisecond); return outcome{} })
		if r := must[Result](t)(c.Allow(t.Context(), "k", limit)); r.Allowed {
			t.Fatal("allowed")
		}
		f.setIntercept(nil)
		r := must[Result](t)(c.Allow(t.Context(), "k", limit)) // from memory
		time.Sleep(r.RetryAfter)
		if again := must[Result](t)(c.Allow(t.Context(), "k", limit)); !again.Allowed {
			t.Errorf("denied after its RetryAfter of %v, wait %v more", r.RetryAfter, again.RetryAfter)
		}
	})
}

// Limits work while a Shutdown waits for locks.
func TestWaitWhileDraining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestClient(t, newFakeLimits())
		l := must[*Lock](t)(c.Lock(t.Context(), "k"))
		go func() { _ = c.Shutdown(context.Background()) }()
		synctest.Wait()
		ok, closed := 0, 0
		for i := range 20 {
			if err := c.Wait(t.Context(), fmt.Sprint(i), ten); err == nil {
				ok++
			} else if errors.Is(err, ErrClosed) {
				closed++
			}
		}
		if ok > 0 && closed > 0 {
			t.Errorf("of 20 equal waits %d were admitted and %d closed", ok, closed)
		}
		_ = l.Unlock(t.Context())
	})
}

// A wait that ended is not admitted because its permits could not be given back.
func TestFailOpenAdmitsAnEndedWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLimits()
		c := newTestClient(t, f, WithFailurePolicy(FailOpen))
		limit := Limit{Rate: 1, Per: time.Minute, Burst: 1}
		must[Result](t)(c.Allow(t.Context(), "k", limit))
		done := make(chan error, 1)
		go func() { done <- c.Wait(context.Background(), "k", limit) }()
		synctest.Wait()
		f.setIntercept(func(op, key string) outcome {
			if op == "refund" {
				return outcome{before: errWire}
			}
			return outcome{}
		})
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		wantErr(t, <-done, ErrClosed)
	})
}

// Who joins a line whose head sleeps beyond its deadline is told at once.
func TestWaitBehindASleepingHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestClient(t, newFakeLimits())
		limit := PerMinute(1)
		must[Result](t)(c.Allow(t.Context(), "k", limit))
		go func() { _ = c.Wait(context.Background(), "k", limit) }()
		synctest.Wait() // the head sleeps for about a minute
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()
		err := c.Wait(ctx, "k", limit)
		wantErr(t, err, ErrLimited, context.DeadlineExceeded)
		var e *Error
		if d := time.Since(start); d != 0 || !errors.As(err, &e) || e.RetryAfter < 10*time.Second {
			t.Errorf("after %v: %v: want at once, with the time to retry", d, err)
		}
		time.Sleep(2 * time.Minute)
	})
}

// A wait on a bucket, too, fails at once when the permits come too late.
func TestWaitOnABucketFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLimits()
		c := newTestClient(t, f)
		limit := Limit{Rate: 1, Per: time.Minute, Burst: 1}
		must[Result](t)(c.Allow(t.Context(), "k", limit))
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second) // the permit comes after 60s
		defer cancel()
		start := time.Now()
		err := c.Wait(ctx, "k", limit)
		wantErr(t, err, ErrLimited, context.DeadlineExceeded)
		var e *Error
		if d := time.Since(start); d != 0 || !errors.As(err, &e) || e.RetryAfter < 59*time.Second {
			t.Errorf("after %v and %d calls: %v: want at once, with a RetryAfter of 60s", d, f.count("take"), err)
		}
	})
}

func TestWaitBeyondMaxReservePolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLimits()
		c := newTestClient(t, f)
		limit := Limit{Rate: 24, Per: 24 * time.Hour, Burst: 24}
		must[Result](t)(c.AllowN(t.Context(), "k", limit, 24))
		must[*Reservation](t)(c.Reserve(t.Context(), "k", limit, 24)) // 24 hours are reserved
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n := f.count("take")
		done := make(chan error, 1)
		go func() { done <- c.WaitN(ctx, "k", limit, 6) }() // due after 30 hours
		time.Sleep(6*time.Hour + time.Minute)
		if n = f.count("take") - n; n > 5 {
			t.Errorf("%d calls while it waits for six hours until it can reserve", n)
		}
		cancel()
		<-done
	})
}

// After Split the store of the limits alone says whether it is in this process, not that of the locks.
func TestLimitsElsewhereBesideLocksHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks, f := newFake(), newFakeLimits()
		locks.info.Claims = append(locks.info.Claims, driver.ScopeProcess)
		f.info.Claims = append(f.info.Claims, driver.ScopeHosts)
		c := newTestClient(t, driver.Split(locks, f))
		f.setIntercept(func(op, _ string) outcome { return outcome{hangAfter: op == "take"} })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Reserve(ctx, "k", Limit{Rate: 10, Per: time.Second, Burst: 1}, 1)
		wantErr(t, err, ErrUnavailable, context.DeadlineExceeded)
		synctest.Wait()
		if n := f.count("refund"); n != 1 {
			t.Errorf("%d refunds of what Reserve did not hear of, want 1", n)
		}
	})
}
