package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Limiter is a rate limiter of any library.
type Limiter interface {
	// Allow takes one permit of the key, if there is one.
	Allow(ctx context.Context, key string) (bool, error)
}

// Rate is a limit: so many in a period.
type Rate struct {
	N   int
	Per time.Duration
}

// LimitLoad is a use of limits.
type LimitLoad struct {
	Load
	Key  string // of it, or before its number
	Keys int
	// First is the number of the first worker, where there are processes with more of them: each
	// worker draws other keys.
	First int
}

// LimitSample is what a use of limits came to. An operation is one decision.
type LimitSample struct {
	*Sample
	Allowed, Denied int
}

// Limits measures l. Each decision is on a key that is drawn anew.
func Limits(ctx context.Context, l Limiter, load LimitLoad) (*LimitSample, error) {
	keys := make([]string, load.Keys)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s-%d", load.Key, i)
	}
	type tally struct {
		draw            *rand.PCG
		allowed, denied int
		_               [40]byte // a cache line to each
	}
	tallies := make([]tally, load.Workers)
	for i := range tallies {
		tallies[i].draw = rand.NewPCG(1, uint64(load.First+i))
	}
	sample, err := Run(ctx, load.Load, func(ctx context.Context, worker int) error {
		t, key := &tallies[worker], keys[0]
		if len(keys) > 1 {
			key = keys[t.draw.Uint64()%uint64(len(keys))]
		}
		ok, err := l.Allow(ctx, key)
		switch {
		case err != nil:
			return err
		case ok:
			t.allowed++
		default:
			t.denied++
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s := &LimitSample{Sample: sample}
	for _, t := range tallies {
		s.Allowed += t.allowed
		s.Denied += t.denied
	}
	return s, nil
}

// Permit is one that was had: when it was asked for, and when the answer was there, in
// nanoseconds of the machine's clock. It was given at some time between the two.
type Permit struct{ Sent, Got int64 }

// Saturate asks for permits with so many goroutines until the time is over. Whoever is denied
// rests a millisecond.
func Saturate(ctx context.Context, l Limiter, key string, workers int, until time.Time) ([]Permit, error) {
	var mu sync.Mutex
	var all []Permit
	var failed error
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			var had []Permit
			var err error
			for time.Now().Before(until) && err == nil {
				var ok bool
				sent := wall()
				if ok, err = l.Allow(ctx, key); ok {
					had = append(had, Permit{sent, wall()})
				} else {
					time.Sleep(time.Millisecond)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, had...)
			if err != nil {
				failed = err
			}
		})
	}
	wg.Wait()
	return all, failed
}

// Windows tells how many permits were given in the first window after from, and in the worst window
// of all. Only permits that were certainly given inside a window count, from asking to
// answer, so that a slow answer is not held against a limiter.
func Windows(permits []Permit, from int64, window time.Duration) (first, worst int) {
	slices.SortFunc(permits, func(a, b Permit) int {
		if a.Sent != b.Sent {
			return int(min(max(a.Sent-b.Sent, -1), 1))
		}
		return 0
	})
	got := make([]int64, len(permits))
	for i, p := range permits {
		got[i] = p.Got
	}
	slices.Sort(got)
	// Of those that were answered by the end of a window, the ones that were asked for
	// before it began are not certainly inside.
	within := func(start int64, before int) int {
		answered, _ := slices.BinarySearch(got, start+int64(window)+1)
		return answered - before
	}
	for i, p := range permits {
		worst = max(worst, within(p.Sent, i))
	}
	before, _ := slices.BinarySearchFunc(permits, from, func(p Permit, at int64) int {
		return int(min(max(p.Sent-at, -1), 1))
	})
	return max(within(from, before), 0), worst
}
