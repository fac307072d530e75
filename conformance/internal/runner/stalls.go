package runner

import (
	"runtime"
	"slices"
	"sync"
	"time"
)

// StallDetector ticks every few milliseconds and remembers when a tick was late: for so long this process was not
// scheduled, and could keep no deadline of the contract. The zero value ticks not at all.
//
// It ticks in several goroutines. A goroutine and its timers belong to one of the threads that run Go, and on a machine
// under load one thread may stand still, with all that waits for it, while another runs.
type StallDetector struct {
	mu    sync.Mutex
	last  []time.Time // of each goroutine
	gaps  []gap
	quit  chan struct{}
	ended sync.WaitGroup
}

type gap struct {
	end  time.Time
	late time.Duration
}

const (
	tickEvery = 2 * time.Millisecond
	// Stall is the threshold of the detector: a process that was not scheduled for so long may have missed any of the
	// moments that cases aim at, which are milliseconds.
	Stall = 5 * time.Millisecond
	// Overload is the threshold above which a case that fails is run again: leases of the suite are a few hundred
	// milliseconds, of which a call passes through several processes and goroutines.
	Overload = 50 * time.Millisecond
	// worthNoting is the threshold above which a late tick is remembered.
	worthNoting = time.Millisecond
	// tickersPerThread are enough for each thread to have one, most of the time.
	tickersPerThread = 3
)

// DetectStalls starts a detector, which Stop ends.
func DetectStalls() *StallDetector {
	d := &StallDetector{quit: make(chan struct{})}
	now := time.Now()
	for range tickersPerThread * runtime.GOMAXPROCS(0) {
		d.last = append(d.last, now)
	}
	for i := range d.last {
		d.ended.Go(func() { d.run(i) })
	}
	return d
}

func (d *StallDetector) run(i int) {
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	for {
		select {
		case <-d.quit:
			return
		case <-ticker.C:
		}
		d.mu.Lock()
		now := time.Now()
		if late := now.Sub(d.last[i]) - tickEvery; late > worthNoting {
			d.note(now, late)
		}
		d.last[i] = now
		d.mu.Unlock()
	}
}

// Note adds a time for which this process was not scheduled.
func (d *StallDetector) Note(end time.Time, late time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.note(end, late)
}

func (d *StallDetector) note(end time.Time, late time.Duration) {
	d.gaps = append(d.gaps, gap{end, late})
}

// Longest is the longest gap since then, including those that have not ended.
func (d *StallDetector) Longest(since time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	worst := time.Duration(0)
	for _, last := range d.last {
		worst = max(worst, time.Since(last)-tickEvery)
	}
	for _, g := range slices.Backward(d.gaps) { // in the order of their ends
		if !g.end.After(since) {
			break
		}
		worst = max(worst, g.late)
	}
	return worst
}

// Total is by how much the ticks of a goroutine were late since then, in sum, on the average of the goroutines. A call
// that passes through several goroutines is held up by about that much in each.
func (d *StallDetector) Total(since time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	sum := time.Duration(0)
	for _, last := range d.last {
		sum += max(time.Since(last)-tickEvery, 0)
	}
	for _, g := range slices.Backward(d.gaps) { // in the order of their ends
		if !g.end.After(since) {
			break
		}
		sum += g.late
	}
	return sum / time.Duration(max(len(d.last), 1))
}

// Stop ends the detector.
func (d *StallDetector) Stop() {
	if d.quit != nil {
		close(d.quit)
	}
	d.ended.Wait()
}

// ClockMoved is by how much the wall clock went further than the monotonic clock since began.
func ClockMoved(began time.Time) time.Duration {
	now := time.Now()
	return now.Round(0).Sub(began.Round(0)) - now.Sub(began)
}
