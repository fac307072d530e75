package coord

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/permit"
)

// What the store has debited is what was spent and what was lost, however asks meet the end of
// a lease; only a request that comes just then may count as spent and have got nothing of it.
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

// Close ends all leases, also of a policy that comes while it closes.
func TestNoLeasesAfterClose(t *testing.T) {
	for name, opts := range map[string][]Option{"first policy": nil, "changed policy": {WithPermitLease(PermitLease{})}} {
		t.Run(name, func(t *testing.T) {
			c := newTestClient(t, newFakeLimits(), opts...)
			must[any](t)(nil, c.Close())
			wantErr(t, c.permits.Prefetch(permit.Rule{Max: 7}, nil), ErrClosed)
			if n := c.permits.Stats().Prefetched; n != 0 {
				t.Errorf("a closed client prefetches for %d limits", n)
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
				for range l.Left() { // fetches the next one
					must[Result](t)(c.Allow(t.Context(), "k", limit))
				}
				time.Sleep(slow)
				synctest.Wait()
				must[Result](t)(c.Allow(t.Context(), "k", limit))
				next := current(t, c, limit)
				if (next == permit.Block{}) || next == l {
					t.Fatal("no other lease")
				}
				if life := next.Life(); life > 100*time.Millisecond-slow {
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
	for op, begin := range map[string]func(t *testing.T, c *Client, limit Limit, l permit.Block){
		"take": func(t *testing.T, c *Client, limit Limit, l permit.Block) {
			for l.Left() > 0 { // asks for the next one
				must[Result](t)(c.Allow(t.Context(), "k", limit))
			}
		},
		"refund": func(_ *testing.T, _ *Client, _ Limit, l permit.Block) {
			time.Sleep(l.Life() - 20*time.Millisecond)
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
