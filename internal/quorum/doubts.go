package quorum

import (
	"sync"
	"time"
)

// doubts are holds that a member may yet end: a release was sent to it, and what became of that is not known. The release may
// arrive after the member has granted to the same id again. So what the member grants to that id does not count any more.
type doubts struct {
	mu sync.Mutex
	by map[holdKey]time.Time // when it was asked for last
	at int                   // how many there may be before old ones are dropped
}

const (
	// fewDoubts is how many are kept whatever their age.
	fewDoubts = 1024
	// oldDoubt is the age of one that may be forgotten: whoever waits asks far more often.
	oldDoubt = time.Hour
)

func (d *doubts) add(h holdKey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.by == nil {
		d.by = make(map[holdKey]time.Time)
	}
	now := time.Now()
	d.by[h] = now
	if len(d.by) <= max(d.at, fewDoubts) {
		return
	}
	for h, asked := range d.by {
		if now.Sub(asked) > oldDoubt {
			delete(d.by, h)
		}
	}
	d.at = 2 * len(d.by)
}

func (d *doubts) has(h holdKey) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, in := d.by[h]
	if in {
		d.by[h] = time.Now()
	}
	return in
}
