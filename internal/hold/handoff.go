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
func (m *Manager) handTo(ctx context.Context, h *hold, t *tenure, now clock.Instant) bool {
	if !h.by.spec.handsOff() {
		return false
	}
	m.mu.Lock()
	a := m.successor(h, now)
	if a == nil {
		m.mu.Unlock()
		return false
	}
	watchers, ok := m.handOff(h, t, a, now)
	next := a.passed
	if ok {
		m.vacate(m.slots[a.spec.Key], a)
	}
	m.mu.Unlock()
	if !ok {
		return false
	}
	cancelAll(watchers, ErrReleased)
	if t.endBy != next.endBy {
		m.sched.update(h)
	}
	h.tellHandedOff(ctx, t, now.Mono)
	if !m.receives(a, next) {
		h.taken(next, Handed, false)
		// What comes of it is not t's, which ended well: what the store does not confirm is left to the janitor.
		_ = (&Tenure{next, h, m}).Release(ctx)
	}
	return true
}

// receives lets a have the tenure next, unless it has given up meanwhile.
func (m *Manager) receives(a *waiter, next *tenure) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a.passed != next {
		return false
	}
	a.handed.Store(true)
	a.ticket.signal()
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
func (m *Manager) successor(h *hold, now clock.Instant) *waiter {
	if m.attempts == 0 || m.stopped || !h.inSlot {
		return nil
	}
	s := m.slots[h.by.spec.Key]
	if s == nil || s.hold != h || s.queue.first == nil || s.queue.apart > 0 {
		return nil
	}
	k := s.queue.first
	for k != nil && !k.of.takes() {
		k = k.behind
	}
	if k == nil {
		return nil
	}
	a := k.of
	switch {
	case !a.spec.handsOff() || a.spec.Lease != h.by.spec.Lease || a.spec.Holder != h.by.spec.Holder:
		return nil
	case now.Mono >= h.grantedAt+handOffWindow || h.handOffs >= maxHandOffs:
		s.queue.yields = true
		return nil
	}
	return a
}

// handOff ends t and makes a's tenure the next, in one step, unless the hold is lost or
// its lease is too old. It gives the contexts that end with t. Manager.mu is held.
func (m *Manager) handOff(h *hold, t *tenure, a *waiter, now clock.Instant) (watchers []*Watcher, ok bool) {
	token, err := MakeToken(h.stored, m.floor, h.handOffs+1)
	if err != nil {
		return nil, false
	}
	next := a.begin(token, now)
	next.expect()
	h.mu.Lock()
	ok = h.tenure == t && t.err == nil && h.deadline.Load().Until(now) >= h.span()*2/3
	if ok {
		watchers = h.finish(t, ErrReleased)
		h.tenure = next
	}
	h.mu.Unlock()
	if ok {
		h.handOffs++
		a.passed, a.from = next, h
	} else {
		h.taken(next, Handed, false)
		a.discard(next)
	}
	return watchers, ok
}

// takeOver makes the tenure that a was handed its own. It reports false if the
// hold was lost on the way: then a has to begin again, at the front of the queue.
func (a *Attempt) takeOver() bool {
	t, h := a.passed, a.from
	a.waited = true
	if !t.over.Load() && !h.lapsed(t, a.m.clock.Mono()) {
		h.taken(t, Handed, true)
		return true
	}
	h.taken(t, Handed, false)
	a.m.lose(h, t, errs.ErrLost)
	a.handed.Store(false)
	a.passed, a.from, a.ticket.toFront = nil, nil, true
	return false
}
