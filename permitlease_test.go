package coord

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/observe"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/internal/permit"
)

// ledger counts what becomes of leases.
type ledger struct {
	mu                             sync.Mutex
	leases, spent, returned, waste int
	allowed, leased                int // decisions
}

func (l *ledger) observer() Option {
	return WithObserver(observe.Observer{
		LeaseEnded: func(_ context.Context, e observe.LeaseEnded) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.leases, l.spent, l.returned, l.waste = l.leases+1, l.spent+e.Spent, l.returned+e.Returned, l.waste+e.Wasted
		},
		Allowed: func(_ context.Context, e observe.Decision) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.allowed++
			if e.Leased {
				l.leased++
			}
		},
	})
}

// busy asks for one permit every so often, n times, and says how many were granted.
func busy(t *testing.T, c *Client, limit Limit, every time.Duration, n int) (granted int) {
	t.Helper()
	for range n {
		granted += must[Result](t)(c.Allow(t.Context(), "k", limit)).Granted
		time.Sleep(every)
	}
	return granted
}

// leasing are limits that are far from reached in the tests.
var leasing = map[string]Limit{
	"sliding-window": PerMinute(600_000),
	"fixed-window":   {Rate: 600_000, Per: time.Minute, Algorithm: FixedWindow},
	"token-bucket":   {Rate: 600_000, Per: time.Minute, Burst: 600_000},
}

// A busy key costs the store few calls, and what the store has debited is what was spent,
// was lost, or was given back.
func TestLeaseSparesTheStore(t *testing.T) {
	for name, limit := range leasing {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, l := newFakeLimits(), &ledger{}
				c := newTestClient(t, f, WithPermitLease(PermitLease{}), l.observer())
				const asks = 2000
				if n := busy(t, c, limit, time.Millisecond, asks); n != asks {
					t.Errorf("%d granted of %d", n, asks)
				}
				calls := f.count("take")
				if calls > asks/25 {
					t.Errorf("%d calls for %d asks", calls, asks)
				}
				if l.leased < asks-asks/25 {
					t.Errorf("%d of %d asks were told to be of a lease", l.leased, asks)
				}
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
				t.Logf("%d calls, %d leases, %d spent, %d returned, %d wasted", calls, l.leases, l.spent, l.returned, l.waste)
				if limit.Algorithm == TokenBucket || limit.Burst > 0 {
					return // it refills
				}
				store := newTestClient(t, f)
				if n := 600_000 - left(t, store, "k", limit); n != asks+l.waste {
					t.Errorf("%d debited, %d spent, %d wasted", n, asks, l.waste)
				}
			})
		})
	}
}

// Callers do not wait for the next lease while there is something of the one before.
func TestLeaseIsRenewedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLimits()
		c := newTestClient(t, f, WithPermitLease(PermitLease{For: 50 * time.Millisecond}))
		f.setIntercept(func(op, key string) outcome { time.Sleep(4 * time.Millisecond); return outcome{} })
		limit := leasing["token-bucket"]
		busy(t, c, limit, time.Millisecond, 300)
		slow := 0
		for range 1000 {
			sent := time.Now()
			must[Result](t)(c.Allow(t.Context(), "k", limit))
			if time.Since(sent) > 0 {
				slow++
			}
			time.Sleep(time.Millisecond)
		}
		if slow > 2 {
			t.Errorf("%d asks of 1000 waited for the store", slow)
		}
		synctest.Wait()
	})
}

// hoard makes c take a lease of limit under "k", and gives it.
func hoard(t *testing.T, c *Client, limit Limit) permit.Block {
	t.Helper()
	for range 1000 {
		must[Result](t)(c.Allow(t.Context(), "k", limit))
		synctest.Wait()
		if l := current(t, c, limit); l != (permit.Block{}) && l.Left() > 20 {
			return l
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("no lease")
	return permit.Block{}
}

func current(t *testing.T, c *Client, limit Limit) permit.Block {
	t.Helper()
	return c.permits.Current("k", must[Limit](t)(limit.Normal()))
}

// Leased permits are dead after their time, on whichever clock it comes first.
func TestLeaseExpires(t *testing.T) {
	for name, limit := range leasing {
		for _, by := range []string{"mono", "wall"} {
			t.Run(name+" "+by, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f, ahead := newFakeLimits(), clock.Instant{}
					c := newTestClient(t, f, WithPermitLease(PermitLease{}))
					c.clock.Read = func() clock.Instant {
						now := c.clock.At(time.Now())
						return clock.Instant{Mono: now.Mono + ahead.Mono, Wall: now.Wall + ahead.Wall}
					}
					l := hoard(t, c, limit)
					life := l.Ends().Until(c.clock.Now())
					if life > 100*time.Millisecond {
						t.Errorf("a lease for %v", life)
					}
					calls := f.count("take")
					must[Result](t)(c.Allow(t.Context(), "k", limit))
					if got := f.count("take"); got != calls {
						t.Errorf("%d calls while it lasts", got-calls)
					}
					if by == "mono" {
						ahead.Mono = life
					} else {
						ahead.Wall = int64(life)
					}
					must[Result](t)(c.Allow(t.Context(), "k", limit))
					synctest.Wait()
					if got := f.count("take"); got == calls || current(t, c, limit) == l {
						t.Error("a permit was spent after its time")
					}
				})
			})
		}
	}
}

// What is left when nobody asks any more, or the client closes, is given back once.
func TestLeaseIsGivenBackOnce(t *testing.T) {
	limit := leasing["fixed-window"]
	for name, end := range map[string]func(*testing.T, *Client){
		"idle":  func(t *testing.T, c *Client) { time.Sleep(time.Minute / 4) },
		"close": func(t *testing.T, c *Client) { must[any](t)(nil, c.Close()) },
		"other": func(t *testing.T, c *Client) {
			must[any](t)(nil, c.LeasePermits(PermitLease{Max: 1}, limit))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute))) // a window begins
				f, l := newFakeLimits(), &ledger{}
				c := newTestClient(t, f, WithPermitLease(PermitLease{}), l.observer())
				hoard(t, c, limit)
				end(t, c)
				synctest.Wait()
				if n := f.count("refund"); n != 1 {
					t.Errorf("%d refunds", n)
				}
				must[any](t)(nil, c.Close())
				if n := f.count("refund"); n != 1 {
					t.Errorf("%d refunds at last", n)
				}
				if l.returned == 0 || l.waste != 0 {
					t.Errorf("%d returned, %d wasted", l.returned, l.waste)
				}
			})
		})
	}
}

// A block that is being fetched when no permits are to be taken in advance any more is given back.
func TestLeaseOnItsWayIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := newFakeLimits(), &ledger{}
		c := newTestClient(t, f, WithPermitLease(PermitLease{}), l.observer())
		gate, taken := make(chan struct{}), 0
		f.intercept = func(op, _ string) (o outcome) {
			if op == "take" {
				if taken++; taken == 2 { // the first is the caller's
					o.late = gate
				}
			}
			return o
		}
		limit := leasing["fixed-window"]
		for range 1000 {
			if taken = 0; must[Result](t)(c.Allow(t.Context(), "k", limit)).Allowed {
				synctest.Wait()
			}
			if taken > 1 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		must[any](t)(nil, c.LeasePermits(PermitLease{Max: 1}, limit))
		close(gate)
		synctest.Wait()
		if f.count("refund") != 1 || l.returned == 0 || l.waste != 0 {
			t.Errorf("%d refunds, %d returned, %d wasted", f.count("refund"), l.returned, l.waste)
		}
	})
}

// Permits whose time is over, whose reply was lost, and those of a token bucket, are
// not given back.
func TestLeaseIsNotGivenBack(t *testing.T) {
	t.Run("expired", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f, l := newFakeLimits(), &ledger{}
			c := newTestClient(t, f, WithPermitLease(PermitLease{}), l.observer())
			skip := time.Duration(0)
			c.clock.Read = func() clock.Instant { return c.clock.At(time.Now().Add(skip)) }
			hoard(t, c, leasing["fixed-window"])
			skip = time.Second
			must[any](t)(nil, c.Close())
			if f.count("refund") != 0 || l.waste == 0 {
				t.Errorf("%d refunds, %d wasted", f.count("refund"), l.waste)
			}
		})
	})
	t.Run("lost reply", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f, l := newFakeLimits(), &ledger{}
			c := newTestClient(t, f, WithPermitLease(PermitLease{}), l.observer())
			limit := leasing["fixed-window"]
			hoard(t, c, limit)
			f.setIntercept(func(op, key string) outcome {
				if op == "take" {
					return outcome{after: errWire}
				}
				return outcome{}
			})
			for range 500 { // spends what there is, and loses the replies of what comes next
				_, _ = c.Allow(t.Context(), "k", limit)
				synctest.Wait()
			}
			must[any](t)(nil, c.Close())
			if n := f.count("refund"); n != 0 {
				t.Errorf("%d refunds", n)
			}
		})
	})
	t.Run("token bucket", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeLimits()
			c := newTestClient(t, f, WithPermitLease(PermitLease{}))
			hoard(t, c, leasing["token-bucket"])
			must[any](t)(nil, c.Close())
			if n := f.count("refund"); n != 0 {
				t.Errorf("%d refunds", n)
			}
		})
	})
}

// A reset forgets what was debited, and so what was leased of it, also while it is on its way.
func TestResetDropsLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLimits()
		limit := leasing["fixed-window"]
		c := newTestClient(t, f, WithPermitLease(PermitLease{}))
		hoard(t, c, limit)
		must[any](t)(nil, c.Reset(t.Context(), "k", PerMinute(5))) // another account
		if (current(t, c, limit) == permit.Block{}) {
			t.Error("the reset of another account dropped the lease")
		}
		must[any](t)(nil, c.Reset(t.Context(), "k", Limit{Rate: 7, Per: time.Minute, Algorithm: FixedWindow}))
		if (current(t, c, limit) != permit.Block{}) {
			t.Error("the lease outlived the reset")
		}
		// One that is on its way, before the store resets, is dropped when it lands.
		hoard(t, c, limit)
		gate := make(chan struct{})
		f.setIntercept(func(op, key string) outcome {
			if op == "take" {
				<-gate
			}
			return outcome{}
		})
		for l := current(t, c, limit); l.Left() > 0; { // the next is fetched meanwhile
			must[Result](t)(c.Allow(t.Context(), "k", limit))
		}
		synctest.Wait()
		must[any](t)(nil, c.Reset(t.Context(), "k", limit))
		close(gate)
		synctest.Wait()
		if l := current(t, c, limit); l != (permit.Block{}) {
			t.Errorf("a lease of %d from before the reset", l.Size())
		}
	})
}

// Those who come while a lease is on its way are served from it.
func TestLeaseServesTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBatches()
		limit := leasing["fixed-window"]
		c := newTestClient(t, f, WithPermitLease(PermitLease{}))
		busy(t, c, limit, time.Millisecond, 300)
		gate := make(chan struct{})
		f.setIntercept(func(op, key string) outcome { <-gate; return outcome{} })
		for l := current(t, c, limit); l.Left() > 0; { // the next is fetched meanwhile
			must[Result](t)(c.Allow(t.Context(), "k", limit))
			synctest.Wait()
		}
		calls := f.count("take")
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { must[Result](t)(c.Allow(t.Context(), "k", limit)) })
			synctest.Wait()
		}
		close(gate)
		wg.Wait()
		if n := f.count("take") - calls; n != 0 {
			t.Errorf("%d calls for 8 requests, beside the one for the lease", n)
		}
	})
}

// One whose context ends while it fetches for all takes nothing from the others.
func TestCancelledLesseeHarmsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLimits()
		limit := leasing["token-bucket"]
		c := newTestClient(t, f, WithPermitLease(PermitLease{}))
		hoard(t, c, limit)
		time.Sleep(150 * time.Millisecond) // it is over, the rate is remembered
		f.setIntercept(func(op, key string) outcome { time.Sleep(20 * time.Millisecond); return outcome{} })
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if i%2 == 0 {
					ctx, cancel = context.WithTimeout(ctx, 10*time.Millisecond)
					defer cancel()
				}
				_, err := c.Allow(ctx, "k", limit)
				if i%2 == 1 && err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		time.Sleep(50 * time.Millisecond)
		f.setIntercept(nil)
		time.Sleep(150 * time.Millisecond) // what was taken meanwhile is over, too
		hoard(t, c, limit)
	})
}

func TestPanicWhileLeasing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, log := newFakeLimits(), &logBuffer{}
		limit := leasing["token-bucket"]
		c := newTestClient(t, f, WithPermitLease(PermitLease{}), WithLogger(slog.New(slog.NewTextHandler(log, nil))))
		hoard(t, c, limit)
		f.setIntercept(func(op, key string) outcome { panic("out of cheese") })
		for l := current(t, c, limit); l.Left() > 1; { // fetches the next meanwhile
			must[Result](t)(c.Allow(t.Context(), "k", limit))
		}
		synctest.Wait()
		f.setIntercept(nil)
		if !strings.Contains(log.String(), "out of cheese") {
			t.Errorf("log: %s", log.String())
		}
		busy(t, c, limit, time.Millisecond, 200)
		if (current(t, c, limit) == permit.Block{}) {
			t.Error("no lease after the panic")
		}
	})
}

// Cut off from the store, a client spends what it has until it is over.
func TestLeaseOutlivesTheStore(t *testing.T) {
	for _, policy := range []FailurePolicy{FailClosed, FailOpen} {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeLimits()
			limit := leasing["token-bucket"]
			c := newTestClient(t, f, WithPermitLease(PermitLease{}), WithFailurePolicy(policy))
			l := hoard(t, c, limit)
			f.setIntercept(func(op, key string) outcome { return outcome{before: errWire} })
			for l.Left() > 0 {
				if r := must[Result](t)(c.Allow(t.Context(), "k", limit)); !r.Allowed || r.Degraded != nil {
					t.Fatalf("%+v", r)
				}
				synctest.Wait()
			}
			r, err := c.Allow(t.Context(), "k", limit)
			if policy == FailClosed {
				wantErr(t, err, ErrUnavailable)
			} else if err != nil || r.Degraded == nil {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// What a request sees that a lease cannot, or need not, answer.
func TestLeaseAndOtherAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLimits()
		limit := Limit{Rate: 1000, Per: time.Hour, Algorithm: FixedWindow}
		c, other := newTestClient(t, f, WithPermitLease(PermitLease{Lessees: 1})), newTestClient(t, f)
		l := hoard(t, c, limit)
		has, store := l.Left(), left(t, other, "k", limit)
		if r := must[Result](t)(c.Peek(t.Context(), "k", limit)); r.Remaining != has+store {
			t.Errorf("peek: %d remaining: want %d leased and %d at the store", r.Remaining, has, store)
		}
		r := must[Result](t)(c.Allow(t.Context(), "k", limit))
		if r.Remaining != has-1+store || r.ResetAfter <= 0 || r.ResetAfter > time.Hour {
			t.Errorf("of the lease: %+v, want %d remaining", r, has-1+store)
		}
		// More than the lease has is the store's, and leaves the lease.
		if r := must[Result](t)(c.AllowN(t.Context(), "k", limit, store)); !r.Allowed {
			t.Errorf("%d of the store: %+v", store, r)
		}
		synctest.Wait()
		if n := left(t, other, "k", limit); n != 0 {
			t.Fatalf("%d left at the store", n)
		}
		had := current(t, c, limit).Left()
		if r := must[Result](t)(c.AllowN(t.Context(), "k", limit, had+1)); r.Allowed {
			t.Errorf("%d of %d: %+v", had+1, had, r)
		}
		if n := current(t, c, limit).Left(); n != had {
			t.Errorf("a denied ask took %d of the lease", had-n)
		}
		if r := must[Result](t)(c.Peek(t.Context(), "k", limit)); !r.Allowed || r.RetryAfter != 0 || r.Remaining != had {
			t.Errorf("peek with %d leased and none at the store: %+v", had, r)
		}
		if r := must[Result](t)(c.AllowAtMost(t.Context(), "k", limit, had+5)); r.Granted != had || !r.Allowed || r.RetryAfter != 0 {
			t.Errorf("at most %d of %d: %+v", had+5, had, r)
		}
		if r := must[Result](t)(c.AllowAtMost(t.Context(), "k", limit, 5)); r.Allowed || r.RetryAfter <= 0 {
			t.Errorf("at most 5 of none: %+v", r)
		}
	})
}

// Waits are served of a lease, and nobody who waits is passed by.
func TestWaitOfALease(t *testing.T) {
	for name, limit := range leasing {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeLimits()
				c := newTestClient(t, f, WithPermitLease(PermitLease{}))
				hoard(t, c, limit)
				calls := f.count("take")
				must[any](t)(nil, c.Wait(t.Context(), "k", limit))
				if n := f.count("take") - calls; n != 0 {
					t.Errorf("%d calls", n)
				}
			})
		})
	}
	t.Run("behind a reservation", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeLimits()
			limit := leasing["token-bucket"]
			c, other := newTestClient(t, f, WithPermitLease(PermitLease{})), newTestClient(t, f)
			hoard(t, c, limit)
			must[*Reservation](t)(other.Reserve(t.Context(), "k", limit, 600_000)) // nothing is left
			var wg sync.WaitGroup
			var first time.Time
			wg.Go(func() {
				must[any](t)(nil, c.WaitN(t.Context(), "k", limit, 5000)) // more than the lease has
				first = time.Now()
			})
			synctest.Wait()
			must[any](t)(nil, c.Wait(t.Context(), "k", limit))
			second := time.Now()
			wg.Wait()
			if second.Before(first) {
				t.Errorf("a later wait was served %v before one that sleeps", first.Sub(second))
			}
		})
	})
}

func TestLeaseOptions(t *testing.T) {
	f := newFakeLimits()
	for _, bad := range []PermitLease{{Max: -1}, {Max: driver.MaxRate + 1}, {For: -1}, {For: 999 * time.Microsecond}, {For: time.Minute}, {Lessees: -1}, {Lessees: 1 << 30}} {
		_, err := New(f, WithPermitLease(bad))
		wantErr(t, err, ErrInvalid)
	}
	_, err := New(f, WithPermitLease(PermitLease{}, Limit{}))
	wantErr(t, err, ErrInvalid)
	c := newTestClient(t, f, WithPermitLease(PermitLease{Max: 7}), WithPermitLease(PermitLease{Max: 1}, ten))
	for limit, want := range map[Limit]int{ten: 1, PerHour(3): 7} {
		normal := must[Limit](t)(limit.Normal())
		if n := c.permits.RuleOf(normal).Max; n != want {
			t.Errorf("%v: at most %d, want %d", limit, n, want)
		}
	}
	wantErr(t, c.LeasePermits(PermitLease{Max: -1}), ErrInvalid)
	must[any](t)(nil, c.LeasePermits(PermitLease{Max: 9}, ten))
	normal := must[Limit](t)(ten.Normal())
	if n := c.permits.RuleOf(normal).Max; n != 9 {
		t.Errorf("at most %d after a change to 9", n)
	}
	must[any](t)(nil, c.Close())
	wantErr(t, c.LeasePermits(PermitLease{}), ErrClosed)
	if rule := newTestClient(t, newFakeLimits()).permits.RuleOf(normal); rule != (permit.Rule{}) {
		t.Errorf("%+v without a rule", rule)
	}
}

// Limits that are leased no more are not remembered, unless that says something.
func TestUnleasedLimitsAreForgotten(t *testing.T) {
	c := newTestClient(t, newFakeLimits())
	for i := range 100 {
		limit := PerHour(1000 + i)
		must[any](t)(nil, c.LeasePermits(PermitLease{}, limit))
		must[any](t)(nil, c.LeasePermits(PermitLease{Max: 1}, limit))
	}
	if n := c.permits.Stats().Rules; n != 0 {
		t.Errorf("%d limits are remembered: want none", n)
	}
	must[any](t)(nil, c.LeasePermits(PermitLease{}))
	must[any](t)(nil, c.LeasePermits(PermitLease{Max: 1}, PerHour(7)))
	normal := must[Limit](t)(PerHour(7).Normal())
	if l := c.permits.RuleOf(normal); l.Max != 1 {
		t.Errorf("a lease of %d of a limit that is not to be leased", l.Max)
	}
}

// LeasePermits with invalid arguments changes nothing, whoever asks meanwhile, and blocks nobody.
func TestLeasePermitsRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, opts := range map[string][]Option{"without leases": nil, "with leases": {WithPermitLease(PermitLease{Max: 8}, ten)}} {
			c := newTestClient(t, newFakeLimits(), opts...)
			before := c.permits.Stats().Rules
			var wg sync.WaitGroup
			wg.Go(func() {
				for range 20 {
					must[Result](t)(c.Allow(t.Context(), "k", ten))
				}
			})
			for what, err := range map[string]error{
				"a negative Max":       c.LeasePermits(PermitLease{Max: -1}),
				"the same, of a limit": c.LeasePermits(PermitLease{Max: -1}, ten),
				"a limit of nothing":   c.LeasePermits(PermitLease{}, Limit{}),
				"one of two limits":    c.LeasePermits(PermitLease{Max: 1}, ten, Limit{}),
				"For of a century":     c.LeasePermits(PermitLease{For: 100 * 365 * 24 * time.Hour}, PerHour(1)),
			} {
				if !errors.Is(err, ErrInvalid) {
					t.Errorf("%s, %s: %v, want %v", name, what, err, ErrInvalid)
				}
			}
			wg.Wait()
			if c.permits.Stats().Rules != before {
				t.Errorf("%s: the policy has changed", name)
			}
			unlock(t, must[*Lock](t)(c.Lock(t.Context(), "k")))
		}
	})
}
