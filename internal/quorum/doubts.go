package quorum

import (
	"sync"
	"time"
)

// doubts are holds that a member may yet end: a release was sent to it, and what became of that is not known. The release may
// arrive after the member has granted to the same id again. So what the member grants to that id does not count until the
// member has answered for lateFor: then the release has arrived, or will not.
type doubts struct {
	mu sync.Mutex
	by map[holdKey]doubt
	at int // how many there may be before old ones are dropped
}

// doubt is when a release was sent, and since when, and until when, the member has answered about the hold, without a
// gap of more than gapFor.
type doubt struct{ sent, since, last time.Time }

const (
	// lateFor is longer than TCP sends a segment again on a connection that was closed, which takes two minutes on Linux.
	lateFor = 10 * time.Minute
	// gapFor is after how long without an answer the member may have hung, and have read nothing that was sent to it.
	gapFor = time.Minute
	// fewDoubts is how many are kept whatever their age.
	fewDoubts = 1024
	// oldDoubt is the age of one that may be forgotten: whoever waits asks far more often.
	oldDoubt = time.Hour
)

func (d *doubts) add(h holdKey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.by == nil {
		d.by = make(map[holdKey]doubt)
	}
	now := time.Now()
	if d.by[h] = (doubt{sent: now}); len(d.by) <= max(d.at, fewDoubts) {
		return
	}
	for h, one := range d.by {
		if now.Sub(one.sent) > oldDoubt && now.Sub(one.last) > oldDoubt {
			delete(d.by, h)
		}
	}
	d.at = 2 * len(d.by)
}

// noted is has, where the member has not answered.
func (d *doubts) noted(h holdKey) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, in := d.by[h]
	return in
}

// has reports whether there is a doubt about h. The member has just answered about it.
func (d *doubts) has(h holdKey) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	one, in := d.by[h]
	if !in {
		return false
	}
	now := time.Now()
	if now.Sub(one.last) > gapFor {
		one.since = now
	}
	if one.last = now; now.Sub(one.since) >= lateFor {
		delete(d.by, h)
		return false
	}
	d.by[h] = one
	return true
}
