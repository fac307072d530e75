package testserver

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordgo/coord/internal/bench"
)

// Contended is what came of goroutines that took one lock in turn.
type Contended struct {
	Took time.Duration
	Each []int // acquisitions of each goroutine
}

// Total counts all acquisitions.
func (c Contended) Total() int {
	n := 0
	for _, each := range c.Each {
		n += each
	}
	return n
}

// Rate is acquisitions a second.
func (c Contended) Rate() float64 { return float64(c.Total()) / c.Took.Seconds() }

// Jain is the fairness index of Jain: 1 if all had the same, 1/n if one of n had all.
func (c Contended) Jain() float64 { return bench.Jain(c.Each) }

// Contend has n goroutines call hold again and again until d is over.
func Contend(tb testing.TB, n int, d time.Duration, hold func() error) Contended {
	tb.Helper()
	c := Contended{Each: make([]int, n)}
	var over atomic.Bool
	var wg sync.WaitGroup
	start := time.Now()
	for i := range n {
		wg.Go(func() {
			for !over.Load() {
				if err := hold(); err != nil {
					tb.Error(err)
					return
				}
				c.Each[i]++
			}
		})
	}
	time.Sleep(d)
	over.Store(true)
	wg.Wait()
	c.Took = time.Since(start)
	return c
}

// CompareContended reports, round by round, the rate at which n goroutines take one lock, as a
// multiple of the rate of one goroutine that does the bare requests in a loop; and the least Jain
// index of a round.
func CompareContended(b *testing.B, n int, d time.Duration, bare, ours func() error) {
	b.Helper()
	var ratios, rates []float64
	jain := 1.0
	for b.Loop() {
		serial := Contend(b, 1, d, bare)
		round := Contend(b, n, d, ours)
		ratios, rates = append(ratios, round.Rate()/serial.Rate()), append(rates, round.Rate())
		jain = min(jain, round.Jain())
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(Median(ratios), "×bare")
	b.ReportMetric(Median(rates), "locks/s")
	b.ReportMetric(jain, "jain")
}

// Hammer reports how many permits a second so many goroutines are given who ask at once, after warm
// asks of one of them.
func Hammer(b *testing.B, goroutines, warm int, allow func()) {
	b.Helper()
	for range warm {
		allow()
	}
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	var taken atomic.Int64
	for range goroutines {
		wg.Go(func() {
			for taken.Add(1) <= int64(b.N) {
				allow()
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "permits/s")
}

// WaitAmid reports how long a waiter waits for a lock that n goroutines hold in turn. busy holds it
// once; take takes it for the waiter, and gives what unlocks it.
func WaitAmid(b *testing.B, n int, busy func(context.Context), take func(context.Context) (unlock func(context.Context) error, err error)) {
	b.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for ctx.Err() == nil {
				busy(ctx)
			}
		})
	}
	var waits []float64
	for b.Loop() {
		start := time.Now()
		unlock, err := take(ctx)
		if err != nil {
			b.Fatal(err)
		}
		waits = append(waits, float64(time.Since(start).Microseconds())/1000)
		if err := unlock(ctx); err != nil {
			b.Error(err)
		}
		time.Sleep(rand.N(20 * time.Millisecond)) // they begin again
	}
	stop()
	wg.Wait()
	slices.Sort(waits)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(waits[len(waits)/2], "ms-p50")
	b.ReportMetric(waits[len(waits)*9/10], "ms-p90")
}
