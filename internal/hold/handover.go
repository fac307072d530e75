package hold

import (
	"context"
	"time"

	"github.com/coordgo/coord/internal/clock"
)

// A hold that is released while other goroutines of its client wait for the key need
// not go back to the store: it is handed to the first of them, with the next token
// and without a round trip. N goroutines of one process on one key then cost the
// store next to nothing. This is lock cohorting (Dice, Marathe and Shavit 2012).
//
// The store sees one hold all the while, and waiters of other processes see a long
// one: so it is bounded by the hand-over window. Within it a fair waiter of another client may be
// overtaken, for this client does not know of it. One of this client is known, and
// nobody is handed a hold ahead of it.

// handOverWindow is how long after the store's grant a hold is still handed over. Then it goes
// back, and other processes have a chance.
const handOverWindow = 50 * time.Millisecond

// handsOff reports whether a hold that was asked for like this is handed over at all. A fair
// one is not: who comes next is for the store to say. A lease that nobody renews, or that
// is to outlive its holder, is wanted whole.
func (s *Spec) handsOff() bool {
	return !s.Fair && !s.NoRenew && s.MinHold == 0
}

// successor is the attempt that has the hold next, nil if it goes back to the store: the first in the queue that waits. now is
// when its tenure was released. Manager.mu is held.
func (m *Manager) successor(h *hold, now clock.Instant) *Attempt {
	if m.attempts == 0 || m.stopped || h.lost || !h.by.spec.handsOff() {
		return nil
	}
	k := m.keys[h.by.spec.Key]
	if k == nil || k.hold != h || k.patient == 0 || k.alone > 0 {
		return nil
	}
	a := k.first // no try: there is none in the queue of a key that is held
	switch {
	case !a.spec.handsOff() || a.spec.Lease != h.by.spec.Lease || a.spec.Holder != h.by.spec.Holder:
		return nil
	case now.Mono >= h.grantedAt+handOverWindow || h.handOvers >= maxHandOvers:
		k.yields = true
		return nil
	case h.deadline.Load().Until(now) < h.span()*2/3:
		return nil
	}
	return a
}

// handOver goes on with the hold of a tenure that was released at now. Its watchers and observers learn of the end before the
// next tenure begins, however long that takes.
func (m *Manager) handOver(ctx context.Context, e ended, now clock.Instant) {
	defer m.passOn(ctx, e.t, now)
	e.cancel()
	e.t.tellHandedOff(ctx, now.Mono)
}

// passOn gives the hold of t to its successor, which may be another one than when t was released: the first in the queue can
// leave at any time. If there is none any more, the hold goes back to the store.
func (m *Manager) passOn(ctx context.Context, t *Tenure, now clock.Instant) {
	h := t.h
	m.mu.Lock()
	if h.state != released { // GiveBack has it
		m.mu.Unlock()
		return
	}
	a := m.successor(h, now)
	if a == nil {
		h.state = over
		m.mu.Unlock()
		// What comes of it is not t's, which ended well: what the store does not confirm is left to the janitor.
		_ = m.giveBack(ctx, h, nil)
		return
	}
	m.give(h, a)
	isOther := h.tenure.endBy != t.endBy
	m.mu.Unlock()
	if isOther {
		m.sched.update(h)
	}
}

// give makes a the next to have the hold. Manager.mu is held.
func (m *Manager) give(h *hold, a *Attempt) {
	k := m.keys[a.spec.Key]
	k.take(a)
	k.waitsNot(a)
	h.handOvers++
	token, _ := MakeToken(h.stored, m.floor, h.handOvers) // in range, as the first one and maxHandOvers are
	a.phase, a.tenure = given, h.begin(a, token, m.clock.Now())
	a.tenure.taker = a
	a.signal()
}
