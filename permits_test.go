package coord

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
)

// crowd is a limiter that shows which asks flew together.
type crowd struct {
	*fakeLimits
	mu      sync.Mutex
	flights [][]int // N of each ask
}

func (f *crowd) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	ns := make([]int, 0, len(asks))
	for _, a := range asks {
		ns = append(ns, a.N)
	}
	f.mu.Lock()
	f.flights = append(f.flights, ns)
	f.mu.Unlock()
	return f.fakeLimits.Take(ctx, key, l, asks)
}

func newCrowd() *crowd { return &crowd{fakeLimits: newFakeLimits()} }

// stuckFirst makes the first call wait until release is called; the others go on.
func (f *crowd) stuckFirst() (release func()) {
	gate, once := make(chan struct{}), sync.Once{}
	f.setIntercept(func(op, key string) outcome {
		first := false
		once.Do(func() { first = true })
		if first {
			<-gate
		}
		return outcome{}
	})
	return func() { close(gate) }
}

func TestAsksFlyTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newCrowd()
		c := newTestClient(t, f)
		release := f.stuckFirst()
		limit := PerHour(50)
		results := make([]Result, 10)
		var wg sync.WaitGroup
		for i := range results {
			wg.Go(func() { results[i] = must[Result](t)(c.AllowN(t.Context(), "k", limit, i+1)) })
			synctest.Wait() // one after the other, so that the order is known
		}
		release()
		wg.Wait()
		if got := fmt.Sprint(f.flights); got != "[[1] [2 3 4 5 6 7 8 9 10]]" {
			t.Errorf("flights %s: want the first ask alone and the others together, in order", got)
		}
		sum := 0
		for i, r := range results {
			sum += r.Granted
			// 1+2+…+9 = 45 fit into 50, the tenth does not.
			if want := i < 9; r.Allowed != want || !want && r.RetryAfter <= 0 {
				t.Errorf("ask %d: %+v", i+1, r)
			}
		}
		if n := left(t, c, "k", limit); sum != 45 || n != 5 {
			t.Errorf("%d granted and %d left of 50", sum, n)
		}
		if len(c.flights.lines) != 0 {
			t.Errorf("%d lines are left", len(c.flights.lines))
		}
	})
}

// Different keys and limits do not wait for one another.
func TestFlightsAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newCrowd()
		c := newTestClient(t, f)
		release := f.stuckFirst()
		var wg sync.WaitGroup
		wg.Go(func() { must[Result](t)(c.Allow(t.Context(), "k", ten)) })
		synctest.Wait()
		start := time.Now()
		must[Result](t)(c.Allow(t.Context(), "other", ten))
		must[Result](t)(c.Allow(t.Context(), "k", PerSecond(11)))
		if d := time.Since(start); d != 0 {
			t.Errorf("they waited %v for a call on another limit", d)
		}
		release()
		wg.Wait()
	})
}

// A caller who leaves the line has asked for nothing; one who leaves a flight may have got
// what it asked for; neither disturbs the others.
func TestCancelledAskHarmsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newCrowd()
		c := newTestClient(t, f)
		limit := PerHour(50)
		gates := make(chan struct{})
		f.setIntercept(func(op, key string) outcome { <-gates; return outcome{} })
		ask := func(ctx context.Context, n int) <-chan error {
			done := make(chan error, 1)
			go func() {
				r, err := c.AllowN(ctx, "k", limit, n)
				if err == nil && !r.Allowed {
					err = ErrLimited
				}
				done <- err
			}()
			synctest.Wait()
			return done
		}
		first := ask(t.Context(), 1)
		inLine, leaveLine := context.WithCancel(t.Context())
		inFlight, leaveFlight := context.WithCancel(t.Context())
		gone, flown, stays := ask(inLine, 2), ask(inFlight, 4), ask(t.Context(), 8)
		leaveLine()
		err := <-gone
		wantErr(t, err, context.Canceled)
		if errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("an ask that never flew: %v, want it to be known that nothing was taken", err)
		}
		gates <- struct{}{} // the first lands, the two others fly
		synctest.Wait()
		leaveFlight()
		wantErr(t, <-flown, context.Canceled, ErrUnknownOutcome)
		gates <- struct{}{}
		for _, ch := range []<-chan error{first, stays} {
			if err := <-ch; err != nil {
				t.Error(err)
			}
		}
		f.setIntercept(nil)
		if n := left(t, c, "k", limit); n != 50-1-4-8 {
			t.Errorf("%d left of 50, want 37: the ask that left the line took nothing, the one that left the flight counts as spent", n)
		}
	})
}

// A call nobody waits for any more is ended.
func TestFlightEndsWhenAllHaveLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newCrowd()
		c := newTestClient(t, f)
		hang := false
		release := f.stuckFirst()
		first := make(chan struct{})
		go func() {
			defer close(first)
			must[Result](t)(c.Allow(t.Context(), "k", ten))
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				_, err := c.Allow(ctx, "k", ten)
				wantErr(t, err, ErrUnavailable, context.DeadlineExceeded)
			})
		}
		synctest.Wait()
		f.setIntercept(func(op, key string) outcome { hang = true; return outcome{hang: true} })
		release()
		wg.Wait()
		<-first
		synctest.Wait()
		if !hang || len(c.flights.lines) != 0 {
			t.Errorf("hung: %v; %d lines are left, want none: the call ends with its callers", hang, len(c.flights.lines))
		}
	})
}

// A call that does not return keeps others waiting for a moment only.
func TestStuckCallIsPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newCrowd()
		c := newTestClient(t, f)
		release := f.stuckFirst()
		var wg sync.WaitGroup
		wg.Go(func() { must[Result](t)(c.Allow(t.Context(), "k", ten)) })
		synctest.Wait()
		start := time.Now()
		for range 3 {
			wg.Go(func() {
				must[Result](t)(c.Allow(t.Context(), "k", ten))
				if d := time.Since(start); d != patience {
					t.Errorf("an ask behind a call that is stuck took %v, want %v", d, patience)
				}
			})
		}
		time.Sleep(10 * patience)
		release()
		wg.Wait()
		if len(f.flights) != 2 || len(c.flights.lines) != 0 {
			t.Errorf("flights %v, %d lines are left", f.flights, len(c.flights.lines))
		}
	})
}

func TestPanicStrandsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newCrowd()
		c := newTestClient(t, f)
		release := f.stuckFirst()
		var wg sync.WaitGroup
		wg.Go(func() { must[Result](t)(c.Allow(t.Context(), "k", ten)) })
		synctest.Wait()
		for range 3 {
			wg.Go(func() {
				_, err := c.Allow(t.Context(), "k", ten)
				wantErr(t, err, ErrUnknownOutcome)
				if err == nil || !strings.Contains(err.Error(), "panicked: out of cheese") {
					t.Errorf("%v: want the panic", err)
				}
			})
		}
		synctest.Wait()
		f.setIntercept(func(op, key string) outcome { panic("out of cheese") })
		release()
		wg.Wait()
		// One that flew alone panics where it was called, and leaves the key usable.
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a panic of a lone call was swallowed")
				}
			}()
			_, _ = c.Allow(t.Context(), "k", ten)
		}()
		f.setIntercept(nil)
		must[Result](t)(c.Allow(t.Context(), "k", ten))
	})
}

func TestCloseEndsTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newCrowd()
		c := newTestClient(t, f)
		release := f.stuckFirst()
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = c.Allow(t.Context(), "k", ten) })
		synctest.Wait()
		wg.Go(func() {
			_, err := c.Allow(t.Context(), "k", ten)
			wantErr(t, err, ErrClosed)
		})
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		release()
		wg.Wait()
	})
}

// However asks travel, the sum is exact.
func TestCrowdIsExact(t *testing.T) {
	f := newCrowd()
	c := newTestClient(t, f)
	limit, granted := PerHour(1000), make([]int, 64)
	var wg sync.WaitGroup
	for i := range granted {
		wg.Go(func() {
			for n := range 50 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				if n%7 == 0 {
					cancel()
				}
				r, err := c.AllowN(ctx, "k", limit, 1)
				cancel()
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				granted[i] += r.Granted
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, n := range granted {
		sum += n
	}
	if sum != 1000 || left(t, c, "k", limit) != 0 {
		t.Errorf("%d granted of 1000, %d left", sum, left(t, c, "k", limit))
	}
}
