package hold

import (
	"context"
	"time"

	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/internal/errs"
)

// A hold that is released while other goroutines of its client wait for the key need
// not go back to the store: it is handed to the first of them, with the next token
// and without a round trip. N goroutines of one process on one key then cost the
// store next to nothing. This is lock cohorting (Dice, Marathe and Shavit 2012).
//
// The store sees one hold all the while, and waiters of other processes see a long
// one: so it is bounded by the hand-off window. Within it a fair waiter of another client may be
// overtaken, for this client does not know of it. One of this client is known, and
// nobody is handed a hold ahead of it.

// handOffWindow is how long after the store's grant a hold is still handed off. Then it goes
// back, and other processes have a chance.
const handOffWindow = 50 * time.Millisecond

// handTo hands the hold from t, which is being released, to the next local waiter. It
// reports false if there is none that may have it; then nothing has changed. now is
// when t was found to hold.
func (h *hold) handTo(ctx context.Context, t *Tenure, now clock.Instant) bool {
	m := h.m
	if !h.spec.handsOff() {
		return false
	}
	m.mu.Lock()
	a := h.successor(now)
	if a == nil {
		m.mu.Unlock()
		return false
	}
	watchers, ok := h.handOff(t, a, now)
	if ok {
		a.vacate()
	}
	m.mu.Unlock()
	if !ok {
		return false
	}
	cancelAll(watchers, ErrReleased)
	if t.endBy != a.passed.endBy {
		m.sched.update(h)
	}
	t.tellHandedOff(ctx, now.Mono)
	a.handed.Store(true)
	a.signal()
	return true
}

// handsOff reports whether a hold that was asked for like this is handed off at all. A fair
// one is not: who comes next is for the store to say. A lease that nobody renews, or that
// is to outlive its holder, is wanted whole.
func (s *Spec) handsOff() bool {
	return !s.Fair && !s.NoRenew && s.MinHold == 0
}

// successor is the waiter that has the hold next, nil if it goes back to the store.
// Manager.mu is held.
func (h *hold) successor(now clock.Instant) *Attempt {
	s := h.slot
	if s == nil || s.hold != h || s.queue.first == nil {
		return nil
	}
	if h.m.stopped || s.fair > 0 {
		return nil
	}
	a := s.queue.first
	for a != nil && !a.takes() {
		a = a.behind
	}
	switch {
	case a == nil || !a.spec.handsOff() || a.spec.Lease != h.spec.Lease || a.spec.Holder != h.spec.Holder:
		return nil
	case now.Mono >= h.grantedAt+handOffWindow || h.handOffs >= maxHandOffs:
		s.yields = true
		return nil
	}
	return a
}

// takes reports whether a goroutine waits with a that takes what it is handed. Tries were
// refused when the hold came, and one that is leaving has no use for it. Manager.mu
// is held.
func (a *Attempt) takes() bool { return a.waiting && !a.try }

// handOff ends t and makes a's tenure the next, in one step, unless the hold is lost or
// its lease is too old. It gives the contexts that end with t. Manager.mu is held.
func (h *hold) handOff(t *Tenure, a *Attempt, now clock.Instant) (watchers []*Watcher, ok bool) {
	token, err := MakeToken(h.stored, h.m.floor, h.handOffs+1)
	if err != nil {
		return nil, false
	}
	next := a.begin(h, token, now)
	a.events.expect(next)
	h.mu.Lock()
	ok = h.tenure == t && t.err == nil && h.deadline.Load().Until(now) >= h.span()*2/3
	if ok {
		watchers = t.finish(ErrReleased)
		h.tenure = next
	}
	h.mu.Unlock()
	if ok {
		h.handOffs++
		a.passed = next
	} else {
		a.events.taken(next, Handed, false)
		a.discard(next)
	}
	return watchers, ok
}

// takeOver makes the tenure that a was handed its own. It reports false if the
// hold was lost on the way: then a has to begin anew, at the front of the queue.
func (a *Attempt) takeOver() bool {
	t := a.passed
	a.waited = true
	if !t.over.Load() && !t.lapsed(a.m.clock.Mono()) {
		a.events.taken(t, Handed, true)
		return true
	}
	a.events.taken(t, Handed, false)
	t.h.lose(t, errs.ErrLost)
	a.handed.Store(false)
	a.passed, a.wasHanded = nil, true
	return false
}
