package coord

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// yield is what became of the requests of twelve clients.
type yield struct{ asked, granted, calls int }

// yieldOf lets twelve clients ask for one permit after the other, at random times and at demand times the
// rate of limit, for so long. The first period does not count.
func yieldOf(t *testing.T, limit Limit, demand float64, periods int, opts ...Option) (y yield) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(limit.Per - time.Duration(time.Now().UnixNano())%limit.Per)
		f := newFakeLimits()
		f.slowly(time.Millisecond)
		start := time.Now().Add(limit.Per)
		end := start.Add(time.Duration(periods) * limit.Per)
		var mu sync.Mutex
		var wg sync.WaitGroup
		const clients, callers = 12, 8
		for i := range clients {
			c := newTestClient(t, f, opts...)
			for j := range callers {
				random := rand.New(rand.NewPCG(uint64(i), uint64(j)))
				apart := float64(limit.Per) * clients * callers / (demand * float64(limit.Rate))
				wg.Go(func() {
					for at := time.Now(); ; {
						at = at.Add(time.Duration(random.ExpFloat64() * apart))
						time.Sleep(time.Until(at))
						sent := time.Now()
						if sent.After(end) {
							return
						}
						r := must[Result](t)(c.Allow(t.Context(), "k", limit))
						if sent.Before(start) {
							continue
						}
						mu.Lock()
						y.asked++
						y.granted += r.Granted
						mu.Unlock()
					}
				})
			}
		}
		time.Sleep(time.Until(start))
		before := f.count("take")
		wg.Wait()
		y.calls = f.count("take") - before
	})
	return y
}

// Taking permits in advance costs no yield: what the limit would have granted is granted. Its figures are
// in docs/limits.md.
func TestPrefetchedYield(t *testing.T) {
	t.Parallel()
	const periods = 3
	for _, limit := range []Limit{PerMinute(2000), PerSecond(10_000), {Rate: 10_000, Per: time.Second, Burst: 10_000}} {
		for _, demand := range []float64{0.5, 0.8, 1, 2} {
			plain := yieldOf(t, limit, demand, periods)
			ahead := yieldOf(t, limit, demand, periods, WithPermitLease(PermitLease{}))
			percent := func(y yield) float64 { return 100 * float64(y.granted) / float64(periods*limit.Rate) }
			t.Logf("| %v | %.0f %% | %.1f %% | %.1f %% | %.2f | %.2f |", limit, 100*demand, percent(plain), percent(ahead),
				float64(plain.calls)/float64(plain.granted), float64(ahead.calls)/float64(ahead.granted))
			if percent(ahead) < percent(plain)-4 {
				t.Errorf("%v at %v times its rate: %.1f %% granted, want %.1f %% as without leases", limit, demand, percent(ahead), percent(plain))
			}
		}
	}
}
