package conformance

import (
	"sync"
	"time"
)

// pulse beats every few milliseconds and remembers when it was late: for so
// long this process was not scheduled, and no deadline of the contract could be kept.
type pulse struct {
	mu    sync.Mutex
	last  time.Time
	gaps  []gap
	quit  chan struct{}
	ended chan struct{}
}

type gap struct {
	end  time.Time
	late time.Duration
}

const (
	beat = 2 * time.Millisecond
	// arrhythmia is from when on a late beat is worth remembering.
	arrhythmia = time.Millisecond
)

func startPulse() *pulse {
	p := &pulse{last: time.Now(), quit: make(chan struct{}), ended: make(chan struct{})}
	go p.run()
	return p
}

func (p *pulse) run() {
	defer close(p.ended)
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		select {
		case <-p.quit:
			return
		case <-ticker.C:
		}
		now := time.Now()
		p.mu.Lock()
		if late := now.Sub(p.last) - beat; late > arrhythmia {
			p.gaps = append(p.gaps, gap{now, late})
		}
		p.last = now
		p.mu.Unlock()
	}
}

// longest is the longest gap since then, the one under way included.
func (p *pulse) longest(since time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	worst := max(time.Since(p.last)-beat, 0)
	for _, g := range p.gaps {
		if g.end.After(since) {
			worst = max(worst, g.late)
		}
	}
	return worst
}

func (p *pulse) stop() {
	close(p.quit)
	<-p.ended
}
