package coord_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
)

// 64 goroutines want one key at once: as siblings under a hold of it, as strangers, which queue in their client, and with a mutex.
// p50 is how long half of them wait at most.
func BenchmarkFanOut(b *testing.B) {
	c, err := coord.New(memory.New())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	var mu sync.Mutex
	do := func(ctx context.Context, fn func(context.Context) error) error { return coord.Do(ctx, c, "k", fn) }
	for _, way := range []struct {
		name  string
		outer func(ctx context.Context, fn func(context.Context) error) error
		enter func(ctx context.Context, fn func(context.Context) error) error
	}{
		{"siblings", do, do},
		{"strangers", func(ctx context.Context, fn func(context.Context) error) error { return fn(ctx) }, do},
		{"mutex", do, func(ctx context.Context, fn func(context.Context) error) error {
			mu.Lock()
			defer mu.Unlock()
			return fn(ctx)
		}},
	} {
		b.Run(way.name, func(b *testing.B) {
			var waits [64]time.Duration
			var all []time.Duration
			err := way.outer(b.Context(), func(ctx context.Context) error {
				for b.Loop() {
					var wg sync.WaitGroup
					start := time.Now()
					for i := range waits {
						wg.Go(func() {
							if err := way.enter(ctx, func(context.Context) error { waits[i] = time.Since(start); return nil }); err != nil {
								b.Error(err)
							}
						})
					}
					wg.Wait()
					all = append(all, waits[:]...)
				}
				return nil
			})
			if err != nil {
				b.Error(err)
			}
			slices.Sort(all)
			b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
		})
	}
}
