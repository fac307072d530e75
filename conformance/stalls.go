package conformance

import (
	"runtime"
	"slices"
	"sync"
	"time"
)

// stallDetector ticks every few milliseconds and remembers when a tick was late: for so
// long this process was not scheduled, and no deadline of the contract could be kept.
//
// It ticks in several goroutines, for they and their timers belong to one of the threads that run
// Go: on a machine under load one thread may stand still, and all that waits for it, while another runs.
type stallDetector struct {
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
	// stall is from when on the detector has fired: a process that was not scheduled for so long may have missed
	// any of the moments that cases aim at, which are milliseconds.
	stall = 5 * time.Millisecond
	// worthNoting is from when on a late tick is worth remembering.
	worthNoting = time.Millisecond
	// tickersPerThread are enough for each thread to have one, most of the time.
	tickersPerThread = 3
)

func detectStalls() *stallDetector {
	d := &stallDetector{quit: make(chan struct{})}
	now := time.Now()
	for range tickersPerThread * runtime.GOMAXPROCS(0) {
		d.last = append(d.last, now)
	}
	for i := range d.last {
		d.ended.Go(func() { d.run(i) })
	}
	return d
}

func (d *stallDetector) run(i int) {
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
			d.gaps = append(d.gaps, gap{now, late})
		}
		d.last[i] = now
		d.mu.Unlock()
	}
}

// longest is the longest gap since then, those under way included.
func (d *stallDetector) longest(since time.Time) time.Duration {
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

// total is for how long since then the ticks of one goroutine were late, all told and on average: about
// as long as each turn of a call that takes several was held up.
func (d *stallDetector) total(since time.Time) time.Duration {
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
	return sum / time.Duration(len(d.last))
}

func (d *stallDetector) stop() {
	close(d.quit)
	d.ended.Wait()
}
