package coord

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkLeased is one hot limit on a store that costs nothing, so what is measured is what a
// permit of a lease costs: one goroutine, and 64.
func BenchmarkLeased(b *testing.B) {
	limit := PerHour(1 << 39)
	for name, goroutines := range map[string]int{"1": 1, "64": 64} {
		b.Run(name, func(b *testing.B) {
			c := newTestClient(b, newFakeLimits(), WithPermitLease(PermitLease{Max: 10_000}))
			ctx := context.Background()
			b.ReportAllocs()
			b.ResetTimer()
			inParallel(b, goroutines, func() error { _, err := c.Allow(ctx, "hot", limit); return err })
		})
	}
}

// BenchmarkAllDenied is one hot limit that is used up: every request is answered from memory.
func BenchmarkAllDenied(b *testing.B) {
	limit := PerHour(1)
	for name, goroutines := range map[string]int{"1": 1, "64": 64} {
		b.Run(name, func(b *testing.B) {
			c := newTestClient(b, newFakeLimits())
			ctx := context.Background()
			_, _ = c.AllowN(ctx, "hot", limit, 1)
			b.ReportAllocs()
			b.ResetTimer()
			inParallel(b, goroutines, func() error { _, err := c.Allow(ctx, "hot", limit); return err })
		})
	}
}

// inParallel runs fn b.N times over so many goroutines.
func inParallel(b *testing.B, goroutines int, fn func() error) {
	var wg sync.WaitGroup
	var done atomic.Int64
	const batch = 64
	for range goroutines {
		wg.Go(func() {
			for {
				from := done.Add(batch) - batch
				if from >= int64(b.N) {
					return
				}
				for range min(batch, int64(b.N)-from) {
					if err := fn(); err != nil {
						b.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkManyKeys is asks of 10,000 limits, none of which is asked often enough to be leased, at a round
// trip of 1 ms: leases must not slow them down.
func BenchmarkManyKeys(b *testing.B) {
	keys := make([]string, 10_000)
	for i := range keys {
		keys[i] = fmt.Sprint("user/", i)
	}
	for name, opts := range map[string][]Option{"plain": nil, "leased": {WithPermitLease(PermitLease{})}} {
		b.Run(name, func(b *testing.B) {
			c := newTestClient(b, &farStore{newFakeLimits(), time.Millisecond}, opts...)
			ctx := context.Background()
			var next atomic.Int64
			b.ReportAllocs()
			b.ResetTimer()
			inParallel(b, 500, func() error {
				_, err := c.Allow(ctx, keys[next.Add(7)%int64(len(keys))], PerHour(1<<39))
				return err
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
		})
	}
}
