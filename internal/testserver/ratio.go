package testserver

import (
	"slices"
	"testing"
	"time"
)

// Ratio reports how much longer ours takes than the bare requests that it comes down
// to. Both are timed in one run, in turn, fifty at a time, and the median of the
// rounds' ratios is reported, so that a machine whose speed drifts does not matter.
func Ratio(b *testing.B, bare, ours func() error) {
	b.Helper()
	const ops = 50
	round := func(fn func() error) float64 {
		start := time.Now()
		for range ops {
			if err := fn(); err != nil {
				b.Fatal(err)
			}
		}
		return float64(time.Since(start).Nanoseconds()) / ops
	}
	var ratios, bares, coords []float64
	for b.Loop() {
		x, y := round(bare), round(ours)
		ratios, bares, coords = append(ratios, y/x), append(bares, x), append(coords, y)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(Median(bares), "ns/bare")
	b.ReportMetric(Median(coords), "ns/coord")
	b.ReportMetric(Median(ratios), "×bare")
}

// Median of values, which it sorts.
func Median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
