package conformance

import (
	"runtime"
	"slices"
	"sync"
	"time"
)

// pulse beats every few milliseconds and remembers when it was late: for so
// long this process was not scheduled, and no deadline of the contract could be kept.
//
// It beats in several goroutines, for they and their timers belong to one of the threads that run
// Go: on a machine under load one thread may stand still, and all that waits for it, while another runs.
type pulse struct {
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
	beat = 2 * time.Millisecond
	// stall is from when on the detector has fired: a process that was not scheduled for so long may have missed
	// any of the moments that cases aim at, which are milliseconds.
	stall = 5 * time.Millisecond
	// arrhythmia is from when on a late beat is worth remembering.
	arrhythmia = time.Millisecond
	// beatersPerThread are enough for each thread to have one, most of the time.
	beatersPerThread = 3
)

func startPulse() *pulse {
	p := &pulse{quit: make(chan struct{})}
	now := time.Now()
	for range beatersPerThread * runtime.GOMAXPROCS(0) {
		p.last = append(p.last, now)
	}
	for i := range p.last {
		p.ended.Go(func() { p.run(i) })
	}
	return p
}

func (p *pulse) run(i int) {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		select {
		case <-p.quit:
			return
		case <-ticker.C:
		}
		p.mu.Lock()
		now := time.Now()
		if late := now.Sub(p.last[i]) - beat; late > arrhythmia {
			p.gaps = append(p.gaps, gap{now, late})
		}
		p.last[i] = now
		p.mu.Unlock()
	}
}

// longest is the longest gap since then, those under way included.
func (p *pulse) longest(since time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	worst := time.Duration(0)
	for _, last := range p.last {
		worst = max(worst, time.Since(last)-beat)
	}
	for _, g := range slices.Backward(p.gaps) { // in the order of their ends
		if !g.end.After(since) {
			break
		}
		worst = max(worst, g.late)
	}
	return worst
}

// total is for how long since then the beats of one goroutine were late, all told and on average: about
// as long as each turn of a call that takes several was held up.
func (p *pulse) total(since time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	sum := time.Duration(0)
	for _, last := range p.last {
		sum += max(time.Since(last)-beat, 0)
	}
	for _, g := range slices.Backward(p.gaps) { // in the order of their ends
		if !g.end.After(since) {
			break
		}
		sum += g.late
	}
	return sum / time.Duration(len(p.last))
}

func (p *pulse) stop() {
	close(p.quit)
	p.ended.Wait()
}
