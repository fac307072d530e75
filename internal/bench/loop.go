package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Load is how an operation is repeated.
type Load struct {
	Workers int           // goroutines
	For     time.Duration // how long they go on
	// Batch is how many operations are timed together, where one takes less than reading the
	// clock; 0 is 1. Latencies are then means of a batch.
	Batch int
	// Endless gives operations a context that cannot be cancelled, for which some libraries
	// do less: the time still ends the load, and so does ctx.
	Endless bool
	// Patience is how long after For an operation that has not returned counts as hung; 0
	// is ten seconds.
	Patience time.Duration
}

// Sample is what a load came to.
type Sample struct {
	Ops       int // that ended within Took
	Took      time.Duration
	Latency   Hist
	PerWorker []int
	Allocs    float64 // to an operation, of the whole process
}

// PerSecond is the rate of operations.
func (s *Sample) PerSecond() float64 { return float64(s.Ops) / s.Took.Seconds() }

// Mean is the time of one worker for one operation.
func (s *Sample) Mean() time.Duration {
	if s.Ops == 0 {
		return 0
	}
	return time.Duration(float64(s.Took) * float64(len(s.PerWorker)) / float64(s.Ops))
}

// ErrHung is the error of operations that did not return. Their goroutines are left behind.
var ErrHung = errors.New("hung")

// Run repeats op on all workers, once at least, until the time is over or one fails. An operation that
// is under way in the end is waited for, and not counted, unless no other has ended: then the
// sample is of these, and of the time that they took. If ctx ends first, the sample is of what was
// done until then.
func Run(ctx context.Context, load Load, op func(ctx context.Context, worker int) error) (*Sample, error) {
	if load.Batch == 0 {
		load.Batch = 1
	}
	if load.Patience == 0 {
		load.Patience = 10 * time.Second
	}
	workers := make([]looper, load.Workers)
	given := ctx
	if load.Endless {
		given = context.WithoutCancel(ctx)
	}
	var wg sync.WaitGroup
	var failed atomic.Bool
	var left atomic.Int64
	left.Store(int64(load.Workers))
	before := mallocs()
	start := time.Now()
	end := start.Add(load.For)
	for i := range workers {
		wg.Go(func() {
			defer left.Add(-1)
			workers[i].run(ctx, end, load.Batch, &failed, func() error { return op(given, i) })
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	timer := time.NewTimer(load.For + load.Patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		return nil, fmt.Errorf("%w: %d of %d goroutines did not return within %v", ErrHung, left.Load(), load.Workers, load.For+load.Patience)
	}
	return collect(workers, load.For, time.Since(start), mallocs()-before)
}

// looper is one goroutine of a load.
type looper struct {
	latency Hist
	ops     int
	late    int           // ended after the time
	lateIn  time.Duration // each
	err     error
}

func (l *looper) run(ctx context.Context, end time.Time, batch int, failed *atomic.Bool, op func() error) {
	for first := true; ctx.Err() == nil && !failed.Load(); first = false {
		began := time.Now()
		if !first && !began.Before(end) {
			return
		}
		for range batch {
			if l.err = op(); l.err != nil {
				failed.Store(true)
				return
			}
		}
		ended := time.Now()
		each := ended.Sub(began) / time.Duration(batch)
		if ended.After(end) {
			l.late, l.lateIn = batch, each
			return
		}
		l.ops += batch
		l.latency.Add(each)
	}
}

func collect(workers []looper, given, took time.Duration, allocs uint64) (*Sample, error) {
	ops, late := 0, 0
	for i := range workers {
		if err := workers[i].err; err != nil {
			return nil, err
		}
		ops += workers[i].ops
		late += workers[i].late
	}
	s := &Sample{Took: min(took, given), PerWorker: make([]int, len(workers))}
	if ops == 0 {
		s.Took = took
	}
	for i := range workers {
		w := &workers[i]
		if ops == 0 && w.late > 0 {
			w.ops = w.late
			w.latency.Add(w.lateIn)
		}
		s.PerWorker[i] = w.ops
		s.Ops += w.ops
		s.Latency.Merge(&w.latency)
	}
	if all := ops + late; all > 0 {
		s.Allocs = float64(allocs) / float64(all)
	}
	return s, nil
}

// mallocs is how many objects the process has allocated.
func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}
