package coord

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/observe"
)

// fakeMulti takes several limits at once.
type fakeMulti struct{ *fakeLimits }

func newFakeMulti() fakeMulti {
	f := newFakeLimits()
	f.info.Claims = append(f.info.Claims, driver.AtomicMulti)
	return fakeMulti{f}
}

func (f fakeMulti) TakeAll(ctx context.Context, demands []driver.Demand) (out []driver.Taken, err error) {
	err = f.do(ctx, "takeall", demands[0].Key, func() error {
		now, fits := time.Now().UnixMicro(), true
		for _, d := range demands {
			sum := 0
			for _, o := range demands {
				if o.Key == d.Key && o.Limit == d.Limit {
					sum += o.N
				}
			}
			peek, _ := f.state(d.Key, d.Limit).Take(d.Limit, now, driver.Ask{})
			t := driver.Taken{Asks: make([]driver.Granted, 1), Remaining: peek.Remaining, ResetAfter: peek.ResetAfter}
			if sum > peek.Remaining {
				fits = false
				denial, _ := f.state(d.Key, d.Limit).Take(d.Limit, now, driver.Ask{Min: sum, N: sum})
				t.Asks[0].RetryAfter = denial.RetryAfter
			}
			out = append(out, t)
		}
		for i, d := range demands {
			if fits {
				one, _ := f.state(d.Key, d.Limit).Take(d.Limit, now, driver.Ask{Min: d.N, N: d.N})
				out[i] = driver.Taken{Asks: []driver.Granted{one.Granted}, Remaining: one.Remaining, ResetAfter: one.ResetAfter}
			}
		}
		return nil
	})
	return out, err
}

func left(t *testing.T, c *Client, key string, l Limit) int {
	t.Helper()
	return must[Result](t)(c.Peek(t.Context(), key, l)).Remaining
}

func TestAllowAll(t *testing.T) {
	user, all := PerMinute(5), PerMinute(8)
	for name, open := range map[string]func(*testing.T) *Client{
		"at once":     func(t *testing.T) *Client { return newTestClient(t, newFakeMulti()) },
		"best effort": func(t *testing.T) *Client { return newTestClient(t, newFakeLimits(), WithBestEffort()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, ctx := open(t), t.Context()
				ask := func(n int) []Result {
					t.Helper()
					r := must[[]Result](t)(c.AllowAll(ctx, Demand{Key: "all", Limit: all, N: n}, Demand{Key: "user", Limit: user, N: n}))
					if len(r) != 2 || r[0].Allowed != r[1].Allowed {
						t.Fatalf("%d of both: %+v: want two results, both allowed or neither", n, r)
					}
					return r
				}
				r := ask(4)
				if !r[0].Allowed || r[0].Granted != 4 || r[1].Granted != 4 || r[0].Remaining != 4 || r[1].Remaining != 1 {
					t.Errorf("4 of both: %+v", r)
				}
				r = ask(2)
				if r[0].Allowed || r[1].RetryAfter <= 0 || r[0].RetryAfter != 0 || r[0].Granted+r[1].Granted != 0 {
					t.Errorf("2 of both with 4 and 1 left: %+v: want a denial by the second", r)
				}
				if a, b := left(t, c, "all", all), left(t, c, "user", user); a != 4 || b != 1 {
					t.Errorf("after the denial: %d and %d left, want 4 and 1", a, b)
				}
				if r = ask(1); !r[0].Allowed || r[0].Remaining != 3 || r[1].Remaining != 0 {
					t.Errorf("1 of both: %+v", r)
				}
				time.Sleep(time.Minute + time.Second)
				if r = ask(5); !r[0].Allowed {
					t.Errorf("after a minute: %+v", r)
				}
			})
		})
	}
}

// Demands of one limit under one key add up, and are refused as one.
func TestAllowAllAddsUp(t *testing.T) {
	for name, open := range map[string]func(*testing.T) *Client{
		"at once":     func(t *testing.T) *Client { return newTestClient(t, newFakeMulti()) },
		"best effort": func(t *testing.T) *Client { return newTestClient(t, newFakeLimits(), WithBestEffort()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, ctx, one := open(t), t.Context(), Demand{Key: "k", Limit: ten, N: 4}
				r := must[[]Result](t)(c.AllowAll(ctx, one, one))
				if !r[0].Allowed || r[1].Granted != 4 || left(t, c, "k", ten) != 2 {
					t.Errorf("twice 4 of 10: %+v, %d left", r, left(t, c, "k", ten))
				}
				one.N = 2
				if r = must[[]Result](t)(c.AllowAll(ctx, one, one)); r[0].Allowed || left(t, c, "k", ten) != 2 {
					t.Errorf("twice 2 of 2: %+v, %d left", r, left(t, c, "k", ten))
				}
				// What did not fit as a sum may fit alone: nothing wrong was remembered.
				if r = must[[]Result](t)(c.AllowAll(ctx, one)); !r[0].Allowed {
					t.Errorf("once 2 of 2: %+v", r)
				}
			})
		})
	}
}

func TestAllowAllRemembersDenials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeMulti()
		c, ctx := newTestClient(t, f), t.Context()
		hour, demand := PerHour(1), Demand{Key: "user", Limit: PerHour(1), N: 1}
		must[[]Result](t)(c.AllowAll(ctx, demand, Demand{Key: "all", Limit: ten, N: 1}))
		must[[]Result](t)(c.AllowAll(ctx, demand, Demand{Key: "all", Limit: ten, N: 1}))
		r := must[[]Result](t)(c.AllowAll(ctx, Demand{Key: "all", Limit: ten, N: 1}, demand))
		if r[0].Allowed || r[0].Remaining != -1 || r[1].Allowed || r[1].RetryAfter <= 0 {
			t.Errorf("a denial that is known: %+v", r)
		}
		if n := f.count("takeall"); n != 2 {
			t.Errorf("%d calls, want 2: the third is answered from memory", n)
		}
		if r := must[Result](t)(c.Allow(ctx, "user", hour)); r.Allowed || f.count("take") != 0 {
			t.Errorf("Allow of what AllowAll found denied: %+v, %d calls", r, f.count("take"))
		}
		if err := c.Reset(ctx, "user", hour); err != nil {
			t.Fatal(err)
		}
		if r := must[[]Result](t)(c.AllowAll(ctx, demand)); !r[0].Allowed {
			t.Errorf("after Reset: %+v", r)
		}
	})
}

// What is remembered of one demand is told with what is remembered of the others.
func TestAllowAllTellsOfAllThatIsDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeMulti()
		c, ctx := newTestClient(t, f), t.Context()
		second, hour := Demand{Key: "user", Limit: PerSecond(1), N: 1}, Demand{Key: "all", Limit: PerHour(1), N: 1}
		must[[]Result](t)(c.AllowAll(ctx, second, hour))
		first := must[[]Result](t)(c.AllowAll(ctx, second, hour))
		again := must[[]Result](t)(c.AllowAll(ctx, second, hour))
		if n := f.count("takeall"); n != 2 {
			t.Errorf("%d calls, want 2: the third is answered from memory", n)
		}
		for i := range first {
			if again[i].RetryAfter != first[i].RetryAfter || first[i].RetryAfter <= 0 {
				t.Errorf("demand %d: %v from memory, %v from the store", i, again[i].RetryAfter, first[i].RetryAfter)
			}
		}
	})
}

// deniesAll denies every demand, each with a RetryAfter.
type deniesAll struct{ fakeMulti }

func (f deniesAll) TakeAll(_ context.Context, demands []driver.Demand) (out []driver.Taken, err error) {
	for range demands {
		out = append(out, driver.Taken{Asks: []driver.Granted{{RetryAfter: time.Minute}}, Remaining: 100})
	}
	return out, nil
}

// A demand for nothing is not in the way, whatever is left of its limit.
func TestAllowAllOfNothingIsNotInTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := deniesAll{newFakeMulti()}
		c, ctx := newTestClient(t, f), t.Context()
		nothing := Demand{Key: "used up", Limit: PerHour(1)}
		for range 2 { // from the store, and from memory
			r := must[[]Result](t)(c.AllowAll(ctx, nothing, Demand{Key: "k", Limit: ten, N: 1}))
			if r[0].Allowed || r[0].RetryAfter != 0 || r[1].RetryAfter <= 0 {
				t.Errorf("%+v: want only the second to be in the way", r)
			}
		}
	})
}

// What was taken before a denial, or an error, is given back, under a context that has
// ended too.
func TestBestEffortGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLimits()
		c, ctx := newTestClient(t, f, WithBestEffort()), t.Context()
		tight, wide := Demand{Key: "tight", Limit: PerMinute(5), N: 1}, Demand{Key: "wide", Limit: PerMinute(50), N: 1}
		ctx, cancel := context.WithCancel(ctx)
		f.setIntercept(func(op, key string) outcome {
			if op == "take" && key == "wide" {
				cancel()
				return outcome{before: errWire}
			}
			return outcome{}
		})
		_, err := c.AllowAll(ctx, wide, tight)
		wantErr(t, err, context.Canceled)
		synctest.Wait() // what became of the one for wide is not known: it is given back after the call
		f.setIntercept(nil)
		if f.calls[0] != "take tight" {
			t.Errorf("calls %q: want the tighter limit first", f.calls)
		}
		if n := left(t, c, "tight", tight.Limit); n != 5 {
			t.Errorf("%d left of 5 after a failed AllowAll", n)
		}
	})
}

// AllowAll ends with its context, though the store hangs: what was taken is given back after it.
func TestBestEffortEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLimits()
		c := newTestClient(t, f, WithBestEffort())
		tight, wide := Demand{Key: "tight", Limit: PerMinute(5), N: 1}, Demand{Key: "wide", Limit: PerMinute(50), N: 1}
		f.setIntercept(func(op, key string) outcome { return outcome{hang: op == "refund" || key == "wide"} })
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err := c.AllowAll(ctx, wide, tight)
		wantErr(t, err, ErrUnavailable, context.DeadlineExceeded)
		if d := time.Since(start); d > 300*time.Millisecond {
			t.Errorf("it took %v: want 200ms", d)
		}
		f.setIntercept(nil)
		time.Sleep(time.Second)
		if n := left(t, c, "tight", tight.Limit); n != 5 {
			t.Errorf("%d left of 5 after a failed AllowAll", n)
		}
	})
}

// Users over a limit of their own, in token buckets, which give nothing back, leave alone the
// limit that they share with others.
func TestBestEffortLooksBeforeItTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLimits()
		c, ctx := newTestClient(t, f, WithBestEffort()), t.Context()
		own, all := Limit{Rate: 1000, Per: time.Hour, Burst: 1000}, Limit{Rate: 1, Per: time.Hour, Burst: 50}
		ask := func(user string) bool {
			r := must[[]Result](t)(c.AllowAll(ctx, Demand{Key: user, Limit: own, N: 1}, Demand{Key: "all", Limit: all, N: 1}))
			if !r[0].Allowed && r[0].RetryAfter+r[1].RetryAfter == 0 {
				t.Errorf("denied without a RetryAfter: %+v", r)
			}
			return r[0].Allowed
		}
		for i := range 60 {
			user := fmt.Sprint("greedy ", i)
			must[Result](t)(c.AllowN(ctx, user, own, 1000))
			if ask(user) {
				t.Errorf("%s was admitted over its own limit", user)
			}
		}
		admitted := 0
		for ask("good") {
			admitted++
		}
		if admitted != 50 {
			t.Errorf("%d of a good user's were admitted, want all 50", admitted)
		}
	})
}

// Two limits of one account are a mistake.
func TestAllowAllRefusesTwoLimitsOfOneAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := newTestClient(t, newFakeMulti()), t.Context()
		a, b := Demand{Key: "k", Limit: Limit{Rate: 10, Per: time.Second, Burst: 5}, N: 1}, Demand{Key: "k", Limit: Limit{Rate: 600, Per: time.Minute, Burst: 9}, N: 1}
		_, err := c.AllowAll(ctx, a, b)
		wantErr(t, err, ErrInvalid)
		b.Limit.Rate = 601
		if r := must[[]Result](t)(c.AllowAll(ctx, a, b)); !r[0].Allowed {
			t.Errorf("two rates: %+v", r)
		}
	})
}

func TestAllowAllRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeMulti()
		c, plain, ctx := newTestClient(t, f), newTestClient(t, newFakeLimits()), t.Context()
		good := Demand{Key: "k", Limit: ten, N: 1}
		for name, test := range map[string]struct {
			c       *Client
			demands []Demand
			want    error
		}{
			"negative":         {c, []Demand{good, {Key: "k", Limit: ten, N: -1}}, ErrInvalid},
			"bad limit":        {c, []Demand{good, {Key: "k", N: 1}}, ErrInvalid},
			"bad key":          {c, []Demand{good, {Limit: ten, N: 1}}, ErrInvalid},
			"too many":         {c, make([]Demand, MaxDemands+1), ErrInvalid},
			"above the burst":  {c, []Demand{{Key: "k", Limit: ten, N: 11}}, ErrExceedsBurst},
			"above it in sum":  {c, []Demand{{Key: "k", Limit: ten, N: 6}, {Key: "k", Limit: ten, N: 5}}, ErrExceedsBurst},
			"not at once here": {plain, []Demand{good}, ErrUnsupported},
		} {
			_, err := test.c.AllowAll(ctx, test.demands...)
			wantErr(t, err, test.want)
			var full *Error
			if !errors.As(err, &full) || full.Op != "allowall" {
				t.Errorf("%s: %v: want an Error of allowall", name, err)
			}
		}
		if n := f.count("takeall"); n != 0 {
			t.Errorf("%d calls for what is refused", n)
		}
		if r := must[[]Result](t)(c.AllowAll(ctx)); len(r) != 0 {
			t.Errorf("no demands: %+v", r)
		}
		f.setIntercept(func(op, key string) outcome { return outcome{before: errWire} })
		_, err := c.AllowAll(ctx, good)
		wantErr(t, err, ErrUnavailable, ErrUnknownOutcome, errWire)
		open := newTestClient(t, f, WithFailurePolicy(FailOpen))
		r := must[[]Result](t)(open.AllowAll(ctx, good, Demand{Key: "other", Limit: ten, N: 3}))
		if !r[0].Allowed || !r[1].Allowed || r[1].Granted != 3 || r[1].Degraded == nil {
			t.Errorf("failing open: %+v", r)
		}
	})
}

// Many callers have their answers within a round trip or two, for nobody waits for another's call.
func TestAllowAllOfManyCallers(t *testing.T) {
	const goroutines, roundTrip = 5000, time.Millisecond
	for name, denied := range map[string]int{"granted": 0, "a tenth denied": goroutines / 10} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeMulti()
				c := newTestClient(t, f)
				f.setIntercept(func(string, string) outcome { time.Sleep(roundTrip); return outcome{} })
				wide, tight := Demand{Key: "all", Limit: PerHour(goroutines), N: 1}, PerHour(1)
				start := time.Now()
				var wg sync.WaitGroup
				for i := range goroutines {
					demands := []Demand{wide, {Key: fmt.Sprint("user", i%20), Limit: wide.Limit, N: 1}}
					if i < denied {
						d := Demand{Key: fmt.Sprint("denied", i), Limit: tight, N: 1}
						f.state(d.Key, tight).Take(tight, start.UnixMicro(), driver.Ask{Min: 1, N: 1})
						demands = append(demands, d)
					}
					wg.Go(func() {
						r, err := c.AllowAll(t.Context(), demands...)
						if err != nil || r[0].Allowed != (i >= denied) {
							t.Errorf("goroutine %d: %+v, %v", i, r, err)
						}
					})
				}
				wg.Wait()
				if took := time.Since(start); took > 2*roundTrip {
					t.Errorf("took %v at a round trip of %v", took, roundTrip)
				}
				if n := f.count("takeall"); n != goroutines {
					t.Errorf("%d calls for %d goroutines", n, goroutines)
				}
				if n := left(t, c, "all", wide.Limit); n != denied {
					t.Errorf("%d left, want %d", n, denied)
				}
			})
		})
	}
}

// What an observer takes for one demand is not counted as time of the next one.
func TestAllowAllWithASlowObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var took []time.Duration
		c := newTestClient(t, newFakeMulti(), WithObserver(observe.Observer{Allowed: func(_ context.Context, e observe.Decision) {
			took = append(took, e.Took)
			time.Sleep(time.Second)
		}}))
		must[[]Result](t)(c.AllowAll(t.Context(), Demand{Key: "a", Limit: PerMinute(1), N: 1}, Demand{Key: "b", Limit: PerMinute(1), N: 1}))
		if len(took) != 2 || took[0] != took[1] {
			t.Errorf("it took %v, want the same for both", took)
		}
	})
}
