package coord

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
)

// What the store has debited is what was spent and what was lost, however asks meet the end of
// a lease; only an ask that comes just then may count as spent and have got nothing of it.
func TestLeaseAccounts(t *testing.T) {
	limit := Limit{Rate: 1 << 30, Per: driver.MaxPer, Algorithm: FixedWindow} // no other window begins meanwhile
	f, l := newFakeLimits(), &ledger{}
	c := newTestClient(t, f, WithPermitLease(PermitLease{For: 2 * time.Millisecond}), l.observer())
	granted := make([]int, 4)
	var wg sync.WaitGroup
	for i := range granted {
		wg.Go(func() {
			for range 10_000 {
				granted[i] += must[Result](t)(c.AllowAtMost(t.Context(), "k", limit, 1+i)).Granted
			}
		})
	}
	wg.Wait()
	must[any](t)(nil, c.Close())
	least := l.waste
	for _, n := range granted {
		least += n
	}
	debited := limit.Rate - left(t, newTestClient(t, f), "k", limit)
	if most := least + l.leases*(1+2+3+4); debited < least || debited > most {
		t.Errorf("%d debited: want %d to %d, of which %d were lost in %d leases", debited, least, most, l.waste, l.leases)
	}
}

// stock puts a lease of n permits into the pot of limit, beside what is there.
func stock(t *testing.T, c *Client, limit Limit, n int) {
	t.Helper()
	p := potOf(t, c, limit)
	l := &lease{n: n, ends: c.clock.Now().Add(time.Minute), renew: never}
	l.left.Store(int64(n))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.put(l)
}

// exhausted is a limit under "k" of which the store has nothing left, and a client that may lease it.
func exhausted(t *testing.T) (*Client, *fakeLimits, Limit) {
	t.Helper()
	f := newFakeLimits()
	limit := Limit{Rate: 100, Per: time.Hour, Algorithm: FixedWindow}
	c := newTestClient(t, f, WithPermitLease(PermitLease{}))
	must[Result](t)(c.AllowN(t.Context(), "k", limit, 100))
	return c, f, limit
}

// An ask for too much that has not yet put back what it took is not the end of a lease.
func TestLeaseOutlivesAnAskForTooMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, limit := exhausted(t)
		stock(t, c, limit, 5)
		l := current(t, c, limit)
		l.left.Add(-7)
		_, _ = c.Allow(t.Context(), "k", limit)
		stock(t, c, limit, 3)
		l.left.Add(7)
		if r := must[Result](t)(c.AllowN(t.Context(), "k", limit, 5)); !r.Allowed {
			t.Errorf("%+v: want what is leased", r)
		}
	})
}

// What is there is in two leases.
func TestAllowAtMostOfTwoLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, limit := exhausted(t)
		stock(t, c, limit, 3)
		stock(t, c, limit, 5)
		granted := 0
		for range 2 {
			r := must[Result](t)(c.AllowAtMost(t.Context(), "k", limit, 8))
			if !r.Allowed {
				t.Errorf("%+v: want what is leased", r)
			}
			granted += r.Granted
		}
		if granted != 8 {
			t.Errorf("%d granted of 8", granted)
		}
	})
}

// A wait that the store denies does not sleep beside permits that were taken meanwhile.
func TestDeniedWaitLooksAtTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f, limit := exhausted(t)
		f.setIntercept(func(op, key string) outcome { stock(t, c, limit, 3); return outcome{} })
		began := time.Now()
		must[any](t)(nil, c.Wait(t.Context(), "k", limit))
		if d := time.Since(began); d != 0 {
			t.Errorf("it slept for %v", d)
		}
	})
}

// Close ends all leases, also of a policy that comes while it closes.
func TestNoLeasesAfterClose(t *testing.T) {
	for name, opts := range map[string][]Option{"first policy": nil, "changed policy": {WithPermitLease(PermitLease{})}} {
		t.Run(name, func(t *testing.T) {
			c := newTestClient(t, newFakeLimits(), opts...)
			must[any](t)(nil, c.Close())
			wantErr(t, c.changeLeases(PermitLease{Max: 7}, nil), ErrClosed)
			if b := c.leases.Load(); b != nil && !b.closed {
				t.Error("a closed client leases")
			}
		})
	}
}

// The life of a lease counts from when it was asked for, however long the answer took.
func TestLeaseLivesFromTheSend(t *testing.T) {
	for name, limit := range leasing {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const slow = 40 * time.Millisecond
				f := newFakeLimits()
				c := newTestClient(t, f, WithPermitLease(PermitLease{}))
				l := hoard(t, c, limit)
				f.setIntercept(func(op, key string) outcome { time.Sleep(slow); return outcome{} })
				for range l.left.Load() { // fetches the next one
					must[Result](t)(c.Allow(t.Context(), "k", limit))
				}
				time.Sleep(slow)
				synctest.Wait()
				must[Result](t)(c.Allow(t.Context(), "k", limit))
				next := current(t, c, limit)
				if next == nil || next == l {
					t.Fatal("no other lease")
				}
				if life := next.ends.Mono - next.told; life > 100*time.Millisecond-slow {
					t.Errorf("it lives for %v after an answer that took %v", life, slow)
				}
			})
		})
	}
}

// abrupt is a store whose Close loses the replies of what is under way.
type abrupt struct {
	*fakeLimits
	closed chan struct{}
}

func (a *abrupt) Close() error {
	close(a.closed)
	return a.fakeLimits.Close()
}

// Close waits for what is under way: what comes of a request for the next lease is given back, and permits that are given
// back are not told as lost.
func TestCloseAwaitsLeasesUnderWay(t *testing.T) {
	for op, begin := range map[string]func(t *testing.T, c *Client, limit Limit, l *lease){
		"take": func(t *testing.T, c *Client, limit Limit, l *lease) {
			for l.left.Load() > 0 { // asks for the next one
				must[Result](t)(c.Allow(t.Context(), "k", limit))
			}
		},
		"refund": func(_ *testing.T, _ *Client, _ Limit, l *lease) {
			time.Sleep(l.ends.Mono - l.told - 20*time.Millisecond)
		},
	} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limit, sum := leasing["sliding-window"], &ledger{}
				f := &abrupt{newFakeLimits(), make(chan struct{})}
				c := newTestClient(t, f, WithPermitLease(PermitLease{}), sum.observer())
				l := hoard(t, c, limit)
				began := make(chan struct{}, 1)
				f.setIntercept(func(now, key string) outcome {
					if now != op {
						return outcome{}
					}
					began <- struct{}{}
					select {
					case <-time.After(30 * time.Millisecond):
						return outcome{}
					case <-f.closed:
						return outcome{after: errWire}
					}
				})
				begin(t, c, limit, l)
				<-began
				must[any](t)(nil, c.Close())
				f.setIntercept(nil)
				f.fakeLimits.closed = false
				debited := limit.Rate - left(t, newTestClient(t, f.fakeLimits), "k", limit)
				if want := sum.allowed + sum.waste; debited != want {
					t.Errorf("%d debited: want %d, of which %d were lost", debited, want, sum.waste)
				}
			})
		})
	}
}
