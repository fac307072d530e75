package sim

import (
	"errors"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

// holdings are what the application of each client believes to hold. Whoever is told of a grant believes it until it gives
// it up, or Done of its lock has closed.
type holdings struct {
	held   map[string][]*holding           // by key, as the store has it
	tokens map[string]map[int]coord.Token  // the greatest that were told, by key and slot
	told   map[string]map[coord.Token]bool // by key: no two holds have the same
}

type holding struct {
	who    string
	l      *link
	key    string
	lock   *coord.Lock
	share  driver.Share
	excuse bool // it may be lost where there are no faults
}

func newHoldings() holdings {
	return holdings{map[string][]*holding{}, map[string]map[int]coord.Token{}, map[string]map[coord.Token]bool{}}
}

// believes reports whether the holder has not been told that it holds no more.
func (h *holding) believes() bool { return !isClosed(h.lock.Done()) && h.lock.Err() == nil }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// stored is the token as the store has it.
func (h *holding) stored() int64 { return int64(h.lock.Token()) >> 10 }

// holds notes that the application has a lock, and judges that.
func (w *world) holds(k *worker, key string, lock *coord.Lock, share driver.Share, excuse bool) *holding {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := &holding{k.name, k.l, key, lock, share, excuse}
	if k.l.isDead() {
		return h
	}
	w.grants++
	w.note("%s has %q, slot %d", k.name, key, lock.Slot())
	for _, o := range w.held[key] {
		if !fits(h, o) && h.believes() && o.believes() {
			w.violate("overlap", "%s has %q by token %d while %s has it by %d", h.who, key, lock.Token(), o.who, o.lock.Token())
		}
	}
	w.judgeBound(key, h)
	w.judgeToken(h)
	w.held[key] = append(w.held[key], h)
	return h
}

// fits reports whether two may hold one key at the same time, as far as these two go.
func fits(a, b *holding) bool {
	if a.share.Mode == driver.Exclusive {
		return false
	}
	return a.share.Fits(b.share) && a.lock.Slot() != b.lock.Slot()
}

// judgeBound adds up the permits of a semaphore.
func (w *world) judgeBound(key string, h *holding) {
	if h.share.Mode != driver.Permits || !h.believes() {
		return
	}
	sum := h.share.Weight
	for _, o := range w.held[key] {
		if o.believes() {
			sum += o.share.Weight
		}
	}
	if sum > h.share.Of {
		w.violate("overlap", "%s makes it %d permits of %q, of %d", h.who, sum, key, h.share.Of)
	}
}

// judgeToken wants a token that no other hold had, greater than those before: of the key, or of its slot if it is shared.
func (w *world) judgeToken(h *holding) {
	token, slot := h.lock.Token(), h.lock.Slot()
	if w.tokens[h.key] == nil {
		w.tokens[h.key], w.told[h.key] = map[int]coord.Token{}, map[coord.Token]bool{}
	}
	if last := w.tokens[h.key][slot]; token <= last && h.believes() {
		w.violate("token", "%s has %q by token %d, after %d", h.who, h.key, token, last)
	}
	if w.told[h.key][token] {
		w.violate("token", "%s has %q by token %d, as another hold has", h.who, h.key, token)
	}
	w.tokens[h.key][slot] = max(token, w.tokens[h.key][slot])
	w.told[h.key][token] = true
}

// judgeHandOver wants a hold handed over for 50 ms after the store's grant, and not longer (clause L8).
func (w *world) judgeHandOver(h *holding) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if int64(h.lock.Token())&1023 == 0 || !w.plan.calm() {
		return
	}
	for _, q := range w.byID {
		if q.key == h.key && q.token == h.stored() && time.Since(q.granted) > 60*time.Millisecond {
			w.violate("order", "%s is handed %q, which was granted %v ago", h.who, h.key, time.Since(q.granted))
		}
	}
}

// judgeDeadlines wants whoever holds told at the deadline of its lock, and within a second if its wall clock was
// stepped past that (clause L3). w.mu is held.
func (w *world) judgeDeadlines() {
	for _, key := range w.allKeys() {
		for _, h := range w.held[key] {
			if isClosed(h.lock.Done()) {
				continue
			}
			late := time.Since(h.lock.Deadline())
			if late > time.Millisecond && time.Since(h.l.stepped()) > time.Second+time.Millisecond {
				w.violate("untold", "%s has not been told that it lost %q, by %v", h.who, key, late)
			}
		}
	}
}

// gives notes that the application gives a lock up.
func (w *world) gives(h *holding) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h.l.isDead() {
		return
	}
	if err := h.lock.Err(); err != nil {
		if !isClosed(h.lock.Done()) {
			w.violate("untold", "%s lost %q, and Done is open", h.who, h.key)
		}
		if w.losses++; w.plan.calm() && !h.excuse && !w.excused(h.key) {
			w.violate("lost", "%s lost %q: %v", h.who, h.key, err)
		}
	}
	w.drop(h)
}

// drop forgets h. w.mu is held.
func (w *world) drop(h *holding) {
	list := w.held[h.key]
	for i, o := range list {
		if o == h {
			w.held[h.key] = append(list[:i:i], list[i+1:]...)
			return
		}
	}
}

// forgetHolds forgets what an application that has died believed. w.mu is held.
func (w *world) forgetHolds(l *link) {
	for key, list := range w.held {
		var rest []*holding
		for _, h := range list {
			if h.l != l {
				rest = append(rest, h)
			}
		}
		w.held[key] = rest
	}
}

// granted is what the store answers to an attempt. Whoever held before, and cannot hold beside it, has been told by now.
func (w *world) granted(l *link, key string, r driver.Request, g driver.Grant, err error) (driver.Grant, error) {
	if errors.Is(err, driver.ErrLocked) {
		w.refused(l, key, r)
	}
	if err != nil {
		return g, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noteGrant(l, key, r, g)
	if r.Share.Mode == driver.Exclusive && key != base(key) { // a place in the queue of those who share the key
		return g, nil
	}
	w.freeSince[key] = time.Time{}
	var sum int64
	for _, h := range w.held[key] {
		if h.stored() == g.Token || h.l.isDead() {
			continue
		}
		if isClosed(h.lock.Done()) {
			continue
		}
		sum += h.share.Weight
		if r.Share.Mode == driver.Exclusive || !r.Share.Fits(h.share) {
			w.violate("untold", "%s is granted %q by token %d while %s does not know that it lost %d", l.name, key, g.Token, h.who, h.stored())
		}
	}
	if r.Share.Mode == driver.Permits && sum+r.Share.Weight > r.Share.Of {
		w.violate("untold", "%s is granted permits of %q, %d in all, of %d", l.name, key, sum+r.Share.Weight, r.Share.Of)
	}
	return g, nil
}

// judgeLeft looks for what a living client has at the store, and has no use for. w.mu is held.
func (w *world) judgeLeft(of *link, when string) {
	now := time.Now()
	for _, key := range w.allKeys() {
		for _, h := range w.holdersOf(key) {
			q := w.byID[h.ID]
			if q != nil && !h.Released && !q.reported && now.Sub(q.leased) > q.ttl+time.Second {
				q.reported = true
				w.violate("lease", "%q is held by %s %v after its lease of %v was last prolonged", key, q.l.name, now.Sub(q.leased), q.ttl)
			}
			if h.Released || q == nil || of != nil && q.l != of || !w.live[q.l] || q.l.isDead() || q.reported {
				continue
			}
			idle := now.Sub(q.last)
			if q.onWay > 0 || idle < grace || w.inUse(key, h, q.l) {
				continue
			}
			q.reported = true
			w.violate("orphan", "%s: %q is left to %s, for %v by now; the lease lasts %v more", when, key, q.l.name, idle, h.TTL)
		}
	}
}

// grace is for how long a client that cleans up may do nothing: as long as its calls are under way, it does.
const grace = 7 * time.Second

// inUse reports whether the application of l has what h shows, or waits for the key, where the engine may have a place.
func (w *world) inUse(key string, h driver.Holder, l *link) bool {
	for _, o := range w.held[key] {
		if o.l == l && o.stored() == int64(h.Token) {
			return true
		}
	}
	for p := range w.pending {
		mayBe := p.key == key && (p.many || key != base(key)) || p.key+ofConditions == key
		if p.k.l == l && mayBe {
			return true
		}
	}
	return false
}
