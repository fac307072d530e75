package coord

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/observe"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
)

// fakeCharges is a limiter that can be charged.
type fakeCharges struct{ *fakeLimits }

func newFakeCharges() *fakeCharges {
	f := &fakeCharges{newFakeLimits()}
	f.info.Claims = append(f.info.Claims, driver.Charge)
	return f
}

func (f *fakeCharges) Charge(ctx context.Context, key string, l driver.Limit, n int) (c driver.Charged, err error) {
	if err := limits.CheckCharge(n); err != nil {
		return c, err
	}
	err = f.do(ctx, "charge", key, func() error {
		c, _ = f.state(key, l).Charge(l, time.Now().UnixMicro(), n)
		return nil
	})
	return c, err
}

// requests counts the calls of the store by their kind.
func (f *fakeCharges) requests() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := make(map[string]int)
	for _, call := range f.calls {
		n[strings.Fields(call)[0]]++
	}
	return n
}

var tokens = Limit{Rate: 10, Per: time.Second, Burst: 10}

func TestCharge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCharges()
		c := newTestClient(t, f)
		ctx := t.Context()
		want := Result{Granted: 4, Allowed: true, Remaining: 6, ResetAfter: 400 * time.Millisecond}
		if r := must[Result](t)(c.Charge(ctx, "k", tokens, 4)); r != want {
			t.Errorf("%+v, want %+v", r, want)
		}
		want = Result{Granted: 26, RetryAfter: 2100 * time.Millisecond, ResetAfter: 3 * time.Second}
		if r := must[Result](t)(c.Charge(ctx, "k", tokens, 26)); r != want {
			t.Errorf("%+v, want %+v", r, want)
		}
		denied := must[Result](t)(c.Allow(ctx, "k", tokens))
		if denied.Allowed || denied.RetryAfter != want.RetryAfter {
			t.Errorf("%+v, want it denied for %v", denied, want.RetryAfter)
		}
		time.Sleep(denied.RetryAfter - time.Microsecond)
		if r := must[Result](t)(c.Allow(ctx, "k", tokens)); r.Allowed {
			t.Errorf("%+v, before the debt is repaid", r)
		}
		time.Sleep(time.Microsecond)
		if r := must[Result](t)(c.Allow(ctx, "k", tokens)); !r.Allowed {
			t.Errorf("%+v, when the debt is repaid", r)
		}
	})
}

func TestSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCharges()
		c := newTestClient(t, f)
		ctx := t.Context()
		for _, tt := range []struct{ estimated, used, left, charges int }{
			{6, 2, 8, 1},
			{2, 3, 5, 1},
			{5, 5, 0, 0}, // costs no request
			{0, 10, 0, 1},
			{0, 0, 0, 0},
			{0, MaxCharge, 0, 1},
			{MaxCharge, 0, 10, 1}, // no more than is missing
		} {
			before := f.requests()["charge"]
			must[Result](t)(c.AllowN(ctx, "k", tokens, min(tt.estimated, 10)))
			if err := c.Settle(ctx, "k", tokens, tt.estimated, tt.used); err != nil {
				t.Error(err)
			}
			if n := left(t, c, "k", tokens); n != tt.left {
				t.Errorf("estimated %d, used %d: %d left, want %d", tt.estimated, tt.used, n, tt.left)
			}
			if n := f.requests()["charge"] - before; n != tt.charges {
				t.Errorf("estimated %d, used %d: %d requests, want %d", tt.estimated, tt.used, n, tt.charges)
			}
		}
	})
}

// A denial that is remembered ends when Settle gives back, also one whose answer is on its way.
func TestSettleEndsDenials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCharges()
		c := newTestClient(t, f)
		ctx := t.Context()
		full := func() Result { return must[Result](t)(c.AllowN(ctx, "k", ten, 10)) }
		if !full().Allowed || full().Allowed {
			t.Fatal("want ten, and then none")
		}
		before := f.requests()["take"]
		if full().Allowed || f.requests()["take"] != before {
			t.Error("the denial was not remembered")
		}
		if err := c.Settle(ctx, "k", ten, 10, 0); err != nil {
			t.Error(err)
		}
		if !full().Allowed {
			t.Error("denied after ten were given back")
		}

		gate := make(chan struct{})
		f.setIntercept(func(op, _ string) outcome {
			if op == "take" {
				f.setIntercept(nil)
				return outcome{late: gate}
			}
			return outcome{}
		})
		var wg sync.WaitGroup
		wg.Go(func() {
			if full().Allowed {
				t.Error("granted what was not there")
			}
		})
		synctest.Wait() // it is denied, and its answer on the way
		if err := c.Settle(ctx, "k", ten, 10, 0); err != nil {
			t.Error(err)
		}
		close(gate)
		wg.Wait()
		if !full().Allowed {
			t.Error("a denial from before is remembered after ten were given back")
		}
	})
}

// A Wait that was denied asks again when Settle gives back what another limit of its account was granted.
func TestSettleWakesWaitsOfTheAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestClient(t, newFakeCharges())
		ctx := t.Context()
		must[Result](t)(c.AllowN(ctx, "k", PerMinute(10), 10))
		start := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			must[any](t)(nil, c.Wait(ctx, "k", PerMinute(8)))
			if d := time.Since(start); d > time.Second {
				t.Errorf("it waited for %v after all was given back", d-time.Second)
			}
		})
		time.Sleep(time.Second)
		must[any](t)(nil, c.Settle(ctx, "k", PerMinute(10), 10, 0))
		wg.Wait()
	})
}

// A charge makes what is remembered of a denial too short, not wrong: the next answer tells the longer time.
func TestChargeLengthensDenials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestClient(t, newFakeCharges())
		must[Result](t)(c.AllowN(t.Context(), "k", tokens, 10))
		must[Result](t)(c.Allow(t.Context(), "k", tokens))
		must[Result](t)(c.Charge(t.Context(), "k", tokens, 40))
		if r := must[Result](t)(c.Allow(t.Context(), "k", tokens)); r.Allowed || r.RetryAfter != 4100*time.Millisecond {
			t.Errorf("%+v, want it denied for 4.1s", r)
		}
	})
}

// A charge is sent once, whatever becomes of it, and its error says what may have happened.
func TestChargeWithoutAnAnswer(t *testing.T) {
	for name, tt := range map[string]struct {
		outcome outcome
		left    int
		want    []error
		not     error
	}{
		"lost request": {outcome{before: errWire}, 10, []error{ErrUnavailable, ErrUnknownOutcome}, nil},
		"lost reply":   {outcome{after: errWire}, 7, []error{ErrUnavailable, ErrUnknownOutcome}, nil},
		"not sent":     {outcome{before: fmt.Errorf("%w: out of memory", driver.ErrNotSent)}, 10, []error{ErrUnavailable}, ErrUnknownOutcome},
		"no answer":    {outcome{hangAfter: true}, 7, []error{ErrUnavailable, ErrUnknownOutcome, context.DeadlineExceeded}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeCharges()
				c := newTestClient(t, f, WithFailurePolicy(FailOpen)) // which does not apply
				f.setIntercept(func(op, _ string) outcome {
					if op == "charge" {
						return tt.outcome
					}
					return outcome{}
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := c.Charge(ctx, "k", ten, 3)
				wantErr(t, err, tt.want...)
				if tt.not != nil && errors.Is(err, tt.not) {
					t.Errorf("%v, which is no %v", err, tt.not)
				}
				if n := left(t, c, "k", ten); n != tt.left {
					t.Errorf("%d left, want %d", n, tt.left)
				}
				if n := f.requests()["charge"]; n != 1 {
					t.Errorf("%d requests, want 1", n)
				}
			})
		})
	}
}

// A store that does not claim charges, or has no method for them, is never asked for one.
func TestChargeIsUnsupported(t *testing.T) {
	silent := newFakeCharges()
	silent.info.Claims = silent.info.Claims.Without(driver.Charge)
	for name, b := range map[string]driver.Backend{"no claim": silent, "locks alone": newFake()} {
		t.Run(name, func(t *testing.T) {
			c := newTestClient(t, b)
			_, err := c.Charge(t.Context(), "k", ten, 1)
			wantErr(t, err, ErrUnsupported)
			wantErr(t, c.Settle(t.Context(), "k", ten, 2, 1), ErrUnsupported)
			wantErr(t, c.Settle(t.Context(), "k", ten, 2, 2), ErrUnsupported)
		})
	}
}

func TestObserverOfCharges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(eventLog)
		f := newFakeCharges()
		o := log.limits()
		o.Charged = func(_ context.Context, e observe.Decision) {
			log.add("%s %s %s %v: %d of %d, %d left, retry %v, took %v", e.Backend, e.Op, e.Key, e.Limit, e.Granted, e.Asked, e.Remaining, e.RetryAfter, e.Took)
		}
		c := newTestClient(t, f, WithObserver(o), WithPrefix("p/"))
		f.setIntercept(func(string, string) outcome { time.Sleep(time.Millisecond); return outcome{} })
		must[Result](t)(c.Charge(t.Context(), "k", ten, 12))
		if err := c.Settle(t.Context(), "k", ten, 5, 2); err != nil {
			t.Error(err)
		}
		if err := c.Settle(t.Context(), "k", ten, 5, 5); err != nil {
			t.Error(err)
		}
		must[Result](t)(c.Charge(t.Context(), "k", ten, 0))
		log.want(t, "fake charge k 10/1s: 12 of 12, 0 left, retry 1.009s, took 1ms", "fake settle k 10/1s: -3 of -3, 1 left, retry 0s, took 1ms")
	})
}

// What was taken in advance was debited before the charge: it may be spent until it ends, and the bound of R1 holds.
func TestChargeAndPrefetchedPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCharges()
		limit := Limit{Rate: 100_000, Per: time.Second, Burst: 100_000}
		const life = 200 * time.Millisecond
		c := newTestClient(t, f, WithPermitLease(PermitLease{For: life}, limit))
		for range 2000 {
			must[Result](t)(c.Allow(t.Context(), "k", limit))
			time.Sleep(10 * time.Microsecond)
		}
		before := f.requests()["take"]
		must[Result](t)(c.Charge(t.Context(), "k", limit, 300_000)) // denied for two seconds
		charged, spent := time.Now(), 0
		var last time.Duration
		for time.Since(charged) < time.Second {
			if must[Result](t)(c.Allow(t.Context(), "k", limit)).Allowed {
				spent++
				last = time.Since(charged)
			}
			time.Sleep(10 * time.Microsecond)
		}
		if spent == 0 || f.requests()["take"] == before {
			t.Errorf("%d permits spent of those taken in advance, and then %d requests: want both above 0", spent, f.requests()["take"]-before)
		}
		if last >= life {
			t.Errorf("permits taken before the charge were spent %v after it, want less than %v", last, life)
		}
	})
}

// costDay is a day of calls whose cost is known only afterwards, with its own bookkeeping.
type costDay struct {
	t      *testing.T
	c      *Client
	limit  Limit
	worst  int // a call uses at most so many more than was estimated
	mu     sync.Mutex
	all    []booking
	calls  int
	exact  int
	denied int
	used   int
}

// booking is permits that were granted, charged, or given back.
type booking struct {
	at      time.Time
	n       int
	granted bool
}

func (e booking) turn() int {
	switch {
	case e.n < 0:
		return 0
	case e.granted:
		return 1
	}
	return 2
}

func (d *costDay) add(at time.Time, n int, granted bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, booking{at, n, granted})
}

// caller makes one call after the other, until the day ends.
func (d *costDay) caller(rnd *rand.Rand, until time.Time) {
	for time.Now().Before(until) {
		estimated := 100 + rnd.IntN(d.worst)
		r, err := d.c.AllowN(d.t.Context(), "tokens", d.limit, estimated)
		switch {
		case err != nil:
			d.t.Error(err)
			return
		case !r.Allowed:
			d.mu.Lock()
			d.denied++
			d.mu.Unlock()
			time.Sleep(r.RetryAfter + time.Duration(rnd.IntN(2000))*time.Millisecond)
			continue
		}
		d.add(time.Now(), estimated, true)
		time.Sleep(time.Second + time.Duration(rnd.IntN(30_000))*time.Millisecond)
		used := rnd.IntN(estimated + d.worst)
		if rnd.IntN(10) == 0 {
			used = estimated
		}
		if err := d.c.Settle(d.t.Context(), "tokens", d.limit, estimated, used); err != nil {
			d.t.Error(err)
		}
		d.mu.Lock()
		d.all = append(d.all, booking{time.Now(), used - estimated, false})
		d.calls, d.used = d.calls+1, d.used+used
		if used == estimated {
			d.exact++
		}
		d.mu.Unlock()
	}
}

// run has callers use the limit for a day.
func (d *costDay) run(callers int) {
	until := time.Now().Add(24 * time.Hour)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() { d.caller(rand.New(rand.NewPCG(1, uint64(i))), until) })
	}
	wg.Wait()
	// Of what happened at one time the order is not known: what was given back counts first, and charges last.
	slices.SortFunc(d.all, func(a, b booking) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.turn(), b.turn()))
	})
}

// overBucket is by how much of a bucket's bound a grant was above, and what all was, at most.
func (d *costDay) overBucket() (grants, all int) {
	each := d.limit.Per.Microseconds() / int64(d.limit.Rate)
	level, at := int64(0), time.Time{}
	for _, e := range d.all {
		level = max(level-e.at.Sub(at).Microseconds(), 0)
		level, at = max(level+int64(e.n)*each, 0), e.at
		over := int((level+each-1)/each) - d.limit.Burst
		all = max(all, over)
		if e.granted {
			grants = max(grants, over)
		}
	}
	return grants, all
}

// overWindow is the same of a sliding window, or a fixed one.
func (d *costDay) overWindow() (grants, all int) {
	sum, from := 0, 0
	within := func(e, last booking) bool {
		if d.limit.Algorithm == FixedWindow {
			return e.at.Truncate(d.limit.Per).Equal(last.at.Truncate(d.limit.Per))
		}
		return last.at.Sub(e.at) < d.limit.Per
	}
	for _, e := range d.all {
		for sum += e.n; !within(d.all[from], e); from++ {
			sum -= d.all[from].n
		}
		all = max(all, sum-d.limit.Rate)
		if e.granted {
			grants = max(grants, sum-d.limit.Rate)
		}
	}
	return grants, all
}

// A day of calls with wrong estimates: no call is granted above the bound, counted with what was charged and given back
// before it, and what was used is above it by no more than the calls under way used more than was estimated.
func TestADayOfWrongEstimates(t *testing.T) {
	const callers, worst = 25, 4000
	for _, tt := range []struct {
		limit       string
		least, most float64 // used, of what the limit is in a day
	}{
		{"100000/1m burst=20000", 0.95, 1.001},
		{"100000/1m", 0.90, 1.10},
		{"100000/1m fixed-window", 0.90, 1.40}, // what was charged is forgotten with each window
	} {
		t.Run(tt.limit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeCharges()
				d := &costDay{t: t, c: newTestClient(t, f), limit: must[Limit](t)(ParseLimit(tt.limit)), worst: worst}
				d.run(callers)
				over := d.overWindow
				if d.limit.Burst > 0 {
					over = d.overBucket
				}
				grants, all := over()
				requests := f.requests()
				share := float64(d.used) / float64(d.limit.Rate) / (24 * 60)
				t.Logf("%d calls used %.1f%% of the limit, and were above its bound by %d at most; %d denied, %d requests to take, %d to settle, %d estimates exact",
					d.calls, 100*share, all, d.denied, requests["take"], requests["charge"], d.exact)
				if grants > 0 {
					t.Errorf("a call was granted %d above the bound", grants)
				}
				if all > callers*worst {
					t.Errorf("what was used is %d above the bound, want at most %d, which %d calls use more than was estimated", all, callers*worst, callers)
				}
				if share < tt.least || share > tt.most {
					t.Errorf("used %.3f of the limit, want %.2f to %.2f", share, tt.least, tt.most)
				}
				if got, want := requests["charge"], d.calls-d.exact; got != want {
					t.Errorf("%d requests to settle %d calls of which %d were exact, want %d", got, d.calls, d.exact, want)
				}
				if requests["take"] > d.calls+d.denied {
					t.Errorf("%d requests to take for %d calls and %d denials, want at most one each", requests["take"], d.calls, d.denied)
				}
			})
		})
	}
}

// A Wait behind a debt goes on when its own client erases it, also one whose request is on its way, and those behind it.
func TestWaitGoesOnWhenTheDebtEnds(t *testing.T) {
	limits := map[string]Limit{
		"token bucket":   {Rate: 1, Per: time.Hour, Burst: 2},
		"sliding window": {Rate: 2, Per: time.Hour, Algorithm: SlidingWindow},
	}
	ends := map[string]func(ctx context.Context, c *Client, limit Limit) error{
		"Settle": func(ctx context.Context, c *Client, limit Limit) error { return c.Settle(ctx, "k", limit, 100, 0) },
		"Reset":  func(ctx context.Context, c *Client, limit Limit) error { return c.Reset(ctx, "k", limit) },
	}
	for name, limit := range limits {
		for op, end := range ends {
			for _, late := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s of a %s, late answer %t", op, name, late), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						f := newFakeCharges()
						c := newTestClient(t, f)
						must[Result](t)(c.Charge(t.Context(), "k", limit, 100))
						gate := make(chan struct{})
						if late {
							f.setIntercept(func(op, _ string) outcome {
								if op == "take" {
									f.setIntercept(nil)
									return outcome{late: gate}
								}
								return outcome{}
							})
						}
						began := time.Now()
						var wg sync.WaitGroup
						for range 2 {
							wg.Go(func() { must[any](t)(nil, c.Wait(t.Context(), "k", limit)) })
							synctest.Wait()
						}
						if err := end(t.Context(), c, limit); err != nil {
							t.Error(err)
						}
						close(gate)
						wg.Wait()
						if d := time.Since(began); d > time.Second {
							t.Errorf("they waited for %v", d)
						}
					})
				})
			}
		}
	}
}
