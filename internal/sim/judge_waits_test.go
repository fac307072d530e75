package sim

import (
	"context"
	"strings"
	"time"

	"github.com/coordgo/coord/driver"
)

// waits are those who wait for a key.
type waits struct {
	pending   map[*waiting]bool
	freeSince map[string]time.Time // of a key: nobody has it that a waiter has to wait for
	shareable map[string]time.Time // of a shared key: nobody writes
}

// waiting is one call for a lock, from before it is made until it has given the lock back.
type waiting struct {
	k     *worker
	key   string // as the store has it
	share driver.Share
	since time.Time
	has   bool // it waits no more, or not yet
	many  bool // for one of several: it may have this one by now
	told  bool
	// behind is for how long it could have had the key, and waited behind one who had died.
	behind time.Duration
}

func newWaits() waits {
	return waits{map[*waiting]bool{}, map[string]time.Time{}, map[string]time.Time{}}
}

// asks notes that a worker begins to wait for key.
func (w *world) asks(k *worker, key string, share driver.Share) *waiting {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := &waiting{k: k, key: key, share: share, since: time.Now()}
	w.pending[p] = true
	return p
}

// ends notes that it waits no more.
func (p *waiting) ends(w *world) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pending, p)
}

// ofMany notes that it is for one of several keys: it may have this one, and wait for others.
func (p *waiting) ofMany(w *world) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.has, p.many = true, true
}

// served notes that it has the lock: its use of the key goes on.
func (p *waiting) served(w *world) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.has = true
}

// tick is how often the world is looked at.
const tick = 50 * time.Millisecond

// watch looks at the world until ctx ends.
func (w *world) watch(ctx context.Context) {
	time.Sleep(time.Nanosecond) // what is at whole ticks is not at those of others
	for n := 1; ctx.Err() == nil; n++ {
		time.Sleep(tick)
		w.mu.Lock()
		w.judgeWaits()
		w.judgeSignals()
		w.judgeDeadlines()
		if n%10 == 0 {
			w.judgeLeft(nil, "in the middle")
		}
		w.mu.Unlock()
	}
}

// patience is for how long a key may be free while somebody waits for it. The pauses of a waiter that polls are short; with
// faults its calls fail, or are late.
func (w *world) patience() time.Duration {
	if w.plan.calm() {
		return time.Second
	}
	return 8 * time.Second
}

// judgeWaits looks for those who wait for what is free. w.mu is held.
func (w *world) judgeWaits() {
	now := time.Now()
	for _, key := range w.allKeys() {
		holders := w.holdersOf(key)
		writes, any := false, false
		for _, h := range holders {
			any = any || h.Mode != driver.Exclusive || key == base(key)
			writes = writes || h.Mode == driver.Write || w.writerWaits(key) && w.isOfTheDead(h.ID)
		}
		note(w.freeSince, key, any, now)
		note(w.shareable, key, writes, now)
	}
	for p := range w.pending {
		w.judgeFirst(p)
		free := w.freeSince[p.key]
		if p.share.Mode == driver.Read {
			free = w.shareable[p.key]
		}
		from := later(free, p.since, p.k.l.troubled(now))
		if p.has || p.told || free.IsZero() || p.k.l.isDead() {
			continue
		}
		patience := w.patience()
		// A writer before it waits for readers, some of whom hold for 4 s, and there may be another before it, the more so where
		// the places in the queue are a lottery. The longest in a thousand calm runs was 5.7 s, with and without a queue.
		if p.share.Mode != driver.Exclusive {
			patience += 6 * time.Second
		}
		if waited := now.Sub(from); waited > patience {
			p.told = true
			w.violate("forgotten", "%s waits for %q, which is free, for %v", p.k.name, p.key, waited)
		}
	}
}

// writerWaits reports whether somebody waits to write. Readers then wait behind it for the lease of a reader that has died.
// w.mu is held.
func (w *world) writerWaits(key string) bool {
	for p := range w.pending {
		if p.key == key && p.share.Mode == driver.Write {
			return true
		}
	}
	return false
}

// isOfTheDead reports whether a hold is of a client that has died. w.mu is held.
func (w *world) isOfTheDead(id string) bool {
	q := w.byID[id]
	return q != nil && !q.l.diedAt().IsZero()
}

// judgeFirst looks for those who wait for a shared key behind one who has died: he is passed within a second (clause SH4), and
// some time is for their own requests. w.mu is held.
func (w *world) judgeFirst(p *waiting) {
	if p.has || p.told || p.share.Mode == driver.Exclusive || p.k.l.isDead() {
		return
	}
	first, err := w.raw.Inspect(context.Background(), p.key)
	q := w.byID[first.ID]
	if err != nil || q == nil || q.l.diedAt().IsZero() {
		return
	}
	p.since = time.Now() // it is not forgotten
	if q.reported || time.Since(q.l.diedAt()) < time.Second {
		return
	}
	if free := w.freeSince[p.key]; free.IsZero() && (p.share.Mode != driver.Read || w.shareable[p.key].IsZero()) {
		return
	}
	if p.behind += tick; p.behind > 2*time.Second {
		q.reported = true
		w.violate("first", "%s waits for %q behind %s, which died %v ago", p.k.name, p.key, q.l.name, time.Since(q.l.diedAt()))
	}
}

// base is the key of the application.
func base(key string) string {
	name, _, _ := strings.Cut(key, "\x00")
	return name
}

func note(since map[string]time.Time, key string, taken bool, now time.Time) {
	switch {
	case taken:
		since[key] = time.Time{}
	case since[key].IsZero():
		since[key] = now
	}
}

func later(times ...time.Time) (last time.Time) {
	for _, t := range times {
		if t.After(last) {
			last = t
		}
	}
	return last
}

// troubled is until when the client was slow, as a whole.
func (l *link) troubled(now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lag > 0 {
		return now
	}
	return l.until
}
