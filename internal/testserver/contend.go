package testserver

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
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
func (c Contended) Jain() float64 {
	var sum, squares float64
	for _, each := range c.Each {
		sum += float64(each)
		squares += float64(each) * float64(each)
	}
	return sum * sum / (float64(len(c.Each)) * squares)
}

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
