package quorum

import (
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
)

// doubts are holds that a member may yet end: a release waits for its turn, or is under way, or it is not known what became
// of it. It may arrive after the member has granted to the same id again. So what the member grants to that id does not
// count until the member has answered for lateFor: then the release has arrived, or will not.
type doubts struct {
	mu sync.Mutex
	by map[holdKey]doubt
	at int // how many there may be before old ones are dropped
}

type doubt struct {
	underWay int  // releases, with those that wait for their turn
	unknown  bool // what became of one
	sent     time.Time
	// The member has answered about the hold since one time, until another, without a gap of more than gapFor.
	since, last time.Time
}

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

// begin notes that a release of h is to be sent.
func (d *doubts) begin(h holdKey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.by == nil {
		d.by = make(map[holdKey]doubt)
	}
	one := d.by[h]
	one.underWay++
	one.sent = time.Now()
	if d.by[h] = one; len(d.by) <= max(d.at, fewDoubts) {
		return
	}
	for h, other := range d.by {
		if one.sent.Sub(other.sent) > oldDoubt && one.sent.Sub(other.last) > oldDoubt {
			delete(d.by, h)
		}
	}
	d.at = 2 * len(d.by)
}

// end notes that the release of h has returned.
func (d *doubts) end(h holdKey, unknown bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	one := d.by[h]
	one.underWay--
	if unknown {
		one.unknown, one.last = true, time.Time{}
	}
	if d.by[h] = one; one.underWay == 0 && !one.unknown {
		delete(d.by, h)
	}
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
	if one.last = now; one.underWay == 0 && now.Sub(one.since) >= lateFor {
		delete(d.by, h)
		return false
	}
	d.by[h] = one
	return true
}

// among gives the indexes of the holds about which there is a doubt. A release that is under way is none if the owner makes
// it: Unlock has made mine forget the hold.
func (d *doubts) among(list []driver.Hold, mine *holds) (which []int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.by) == 0 {
		return nil
	}
	for i, h := range list {
		k := holdKey{h.Key, h.ID}
		one, in := d.by[k]
		if in && !one.unknown {
			_, in, _ = mine.get(k)
		}
		if in {
			which = append(which, i)
		}
	}
	return which
}
