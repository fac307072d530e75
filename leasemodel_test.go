package coord

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/internal/permit"
)

// admission is permits that were had between the two instants.
type admission struct {
	sent, got time.Time
	n         int
}

// worst is the most permits that were certainly had within some period of length per.
func worst(all []admission, per time.Duration) (most int) {
	slices.SortFunc(all, func(a, b admission) int { return a.sent.Compare(b.sent) })
	var longest time.Duration // that an answer took
	for _, a := range all {
		longest = max(longest, a.got.Sub(a.sent))
	}
	sent, last := 0, 0 // permits that were asked for in the period, and the index behind the last of them
	for i, first := range all {
		end := first.sent.Add(per)
		for ; last < len(all) && all[last].sent.Before(end); last++ {
			sent += all[last].n
		}
		late := 0 // of them, those that may have been had after the period
		for j := last - 1; j >= i && !all[j].sent.Add(longest).Before(end); j-- {
			if !all[j].got.Before(end) {
				late += all[j].n
			}
		}
		most = max(most, sent-late)
		sent -= first.n
	}
	return most
}

// checkAdmitted holds what was admitted under leases of life against what limit allows.
func checkAdmitted(t *testing.T, limit Limit, life time.Duration, all []admission) {
	t.Helper()
	limit = must[Limit](t)(limit.Normal())
	switch limit.Algorithm {
	case SlidingWindow:
		if n := worst(all, limit.Per); n > limit.Rate {
			t.Errorf("%d permits within %v: want at most %d", n, limit.Per, limit.Rate)
		}
	case FixedWindow:
		per := limit.Per.Nanoseconds()
		sums := map[int64]int{}
		for _, a := range all {
			if w := a.sent.UnixNano() / per; w == a.got.UnixNano()/per {
				sums[w] += a.n
			}
		}
		for w, n := range sums {
			if n > limit.Rate {
				t.Errorf("%d permits in window %d: want at most %d", n, w, limit.Rate)
			}
		}
	case TokenBucket:
		for _, w := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond, limit.Per / 2, limit.Per, 3 * limit.Per} {
			bound := limit.Burst + int(int64(limit.Rate)*int64(w+life)/int64(limit.Per))
			if n := worst(all, w); n > bound {
				t.Errorf("%d permits within %v: want at most %d", n, w, bound)
			}
		}
	}
}

// leaseModel is clients that request one limit in all ways, at random times and over a
// network of random latency, and sometimes go.
type leaseModel struct {
	limit   Limit
	life    time.Duration
	clients int
	opts    []Option

	mu  sync.Mutex
	all []admission
}

func (m *leaseModel) run(t *testing.T, seed uint64) {
	f := newFakeLimits()
	random := rand.New(rand.NewPCG(seed, 1))
	var mu sync.Mutex
	f.setIntercept(func(op, key string) outcome {
		mu.Lock()
		wait, fate := time.Duration(random.IntN(2000))*time.Microsecond, random.IntN(200)
		if random.IntN(50) == 0 {
			wait *= 20
		}
		mu.Unlock()
		time.Sleep(wait)
		switch fate {
		case 0:
			return outcome{before: errWire}
		case 1:
			return outcome{after: errWire}
		}
		return outcome{}
	})
	var wg sync.WaitGroup
	for i := range m.clients {
		c := newTestClient(t, f, m.opts...)
		for g := range 1 + i%4 {
			wg.Go(func() { m.ask(t, c, rand.New(rand.NewPCG(seed, uint64(100*i+g+2)))) })
		}
	}
	wg.Wait()
}

func (m *leaseModel) ask(t *testing.T, c *Client, random *rand.Rand) {
	pace := time.Duration(1+random.IntN(1000)) * time.Microsecond
	for end := time.Now().Add(4 * m.limit.Per); time.Now().Before(end); {
		time.Sleep(time.Duration(random.Int64N(int64(2 * pace))))
		if random.IntN(200) == 0 {
			time.Sleep(time.Duration(random.Int64N(int64(m.limit.Per))))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+random.IntN(100))*time.Millisecond)
		sent := time.Now()
		r, err := m.one(ctx, c, random)
		got := time.Now()
		cancel()
		if err == nil && r.Granted > 0 {
			m.mu.Lock()
			m.all = append(m.all, admission{sent, got, r.Granted})
			m.mu.Unlock()
		}
	}
}

func (m *leaseModel) one(ctx context.Context, c *Client, random *rand.Rand) (Result, error) {
	switch random.IntN(20) {
	case 0:
		return c.AllowN(ctx, "k", m.limit, 1+random.IntN(5))
	case 1:
		return c.AllowAtMost(ctx, "k", m.limit, 1+random.IntN(9))
	case 2:
		return c.Peek(ctx, "k", m.limit)
	case 3:
		if m.limit.Algorithm == TokenBucket { // a wait has its permits later than it asked
			return Result{}, nil
		}
		err := c.Wait(ctx, "k", m.limit)
		return Result{Granted: 1}, err
	}
	return c.Allow(ctx, "k", m.limit)
}

// However clients lease, ask, lose replies and go, the bound holds.
func TestLeasedAskIsBounded(t *testing.T) {
	t.Parallel()
	const seeds = 8
	for name, limit := range map[string]Limit{
		"sliding-window": Per(400, time.Second),
		"wide sliding":   Per(3000, 3*time.Second),
		"fixed-window":   {Rate: 400, Per: time.Second, Algorithm: FixedWindow},
		"token-bucket":   {Rate: 400, Per: time.Second, Burst: 50, Algorithm: TokenBucket},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range seeds {
				seed := uint64(i + 1)
				synctest.Test(t, func(t *testing.T) {
					l := &ledger{}
					m := &leaseModel{limit: limit, life: 100 * time.Millisecond, clients: 1 + int(seed%5)}
					m.opts = []Option{WithPermitLease(PermitLease{Lessees: 1 + int(seed%3)}), l.observer()}
					m.run(t, seed)
					checkAdmitted(t, limit, m.life, m.all)
					if t.Failed() {
						t.Log("seed", seed)
					}
					if i == 0 {
						t.Log(fmt.Sprint(len(m.all), " admissions, ", l.leased, " leased, ", l.leases, " leases, ", l.waste, " wasted, ", l.returned, " returned"))
					}
				})
			}
		})
	}
}

// The worst that a lessee can do: it has a large lease, waits, and then spends what it can,
// while another client takes all that the store has, for longer than a period.
func TestHoardedLeaseKeepsTheBound(t *testing.T) {
	for name, limit := range map[string]Limit{
		"sliding-window": Per(4000, 10*time.Second),
		"fixed-window":   {Rate: 4000, Per: 10 * time.Second, Algorithm: FixedWindow},
		"token-bucket":   {Rate: 4000, Per: 10 * time.Second, Burst: 4000},
	} {
		for _, life := range []time.Duration{100 * time.Millisecond, 10 * time.Second} {
			if limit.Burst > 0 && life > time.Second {
				continue // its bound is so far then that nothing can be seen
			}
			for _, wait := range []time.Duration{90 * time.Millisecond, 200 * time.Millisecond, time.Second, 9 * time.Second} {
				t.Run(fmt.Sprint(name, " ", life, " ", wait), func(t *testing.T) {
					for _, more := range []int{0, 30, 60} { // to be elsewhere in a sub-window
						synctest.Test(t, func(t *testing.T) {
							time.Sleep(limit.Per - time.Duration(time.Now().UnixNano())%limit.Per + limit.Per/2)
							f := newFakeLimits()
							lessee := newTestClient(t, f, WithPermitLease(PermitLease{For: life, Lessees: 1}))
							greedy := newTestClient(t, f)
							hoard(t, lessee, limit)
							busy(t, lessee, limit, time.Millisecond, 300+more)
							time.Sleep(wait)
							checkAdmitted(t, limit, life, crush(t, lessee, greedy, limit))
						})
					}
				})
			}
		}
	}
}

// crush spends what a has leased, and all that b is granted within more than a period.
func crush(t *testing.T, a, b *Client, limit Limit) (all []admission) {
	ask := func(c *Client, n int) int {
		now := time.Now()
		r := must[Result](t)(c.AllowAtMost(t.Context(), "k", limit, n))
		all = append(all, admission{now, time.Now(), r.Granted})
		return r.Granted
	}
	if l := current(t, a, limit); l != (permit.Block{}) {
		for range l.Left() {
			ask(a, 1)
		}
	}
	for range 1200 {
		ask(b, limit.Rate)
		time.Sleep(limit.Per / 1000)
	}
	return all
}
