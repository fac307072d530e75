package coord

import (
	"context"
	"time"

	"github.com/coordgo/coord/internal/clock"
)

// A hold that is unlocked while other goroutines of its client wait for the key need
// not go back to the store: it is handed to the first of them, with the next token
// and without a round trip. N goroutines of one process on one key then cost the
// store next to nothing. This is lock cohorting (Dice, Marathe and Shavit 2012).
//
// The store sees one hold all the while, and waiters of other processes see a long
// one: so its turn is bounded. Within it a fair waiter of another client may be
// overtaken, for this client does not know of it. One of this client is known, and
// nobody is handed a hold ahead of it.

// turn is how long after the store's grant a hold is still handed over. Then it goes
// back, and other processes have their turn.
const turn = 50 * time.Millisecond

// handTo hands the hold from t, which is being unlocked, to the next local waiter. It
// reports false if there is none that may have it; then nothing has changed. now is
// when t was found to hold.
func (h *hold) handTo(ctx context.Context, t *tenure, now clock.Instant) bool {
	c := h.c
	if !h.cfg.lends() {
		return false
	}
	c.mu.Lock()
	a := h.successor(now)
	if a == nil {
		c.mu.Unlock()
		return false
	}
	watchers, ok := h.handOff(t, a, now)
	if ok {
		c.vacate(a)
	}
	c.mu.Unlock()
	if !ok {
		return false
	}
	cancelAll(watchers, errReleased)
	if t.endBy != a.passed.endBy {
		c.sched.update(h)
	}
	t.seen.handedOver(ctx, t, now.Mono)
	a.handed.Store(true)
	a.signal()
	return true
}

// lends reports whether a hold that was asked for like this is handed over at all. A fair
// one is not: who comes next is for the store to say. A lease that nobody renews, or that
// is to outlive its holder, is wanted whole.
func (cfg *lockConfig) lends() bool {
	return !cfg.fair && !cfg.noRenew && cfg.minHold == 0
}

// successor is the waiter that has the hold next, nil if it goes back to the store.
// Client.mu is held.
func (h *hold) successor(now clock.Instant) *attempt {
	s := h.slot
	if s == nil || s.hold != h || s.queue.first == nil {
		return nil
	}
	if h.c.state.Load() != stateOpen || s.fairs > 0 {
		return nil
	}
	a := s.queue.first
	for a != nil && !a.takes() {
		a = a.behind
	}
	switch {
	case a == nil || !a.cfg.lends() || a.cfg.lease != h.cfg.lease:
		return nil
	case now.Mono >= h.turn || h.handOvers >= maxHandOvers:
		s.yields = true
		return nil
	}
	return a
}

// takes reports whether a goroutine waits with a that takes what it is handed. Tries were
// refused when the hold came, and one that is leaving has no use for it. Client.mu
// is held.
func (a *attempt) takes() bool { return a.waiting && !a.try }

// handOff ends t and makes a's tenure the next, in one step, unless the hold is lost or
// its lease is too old. It gives the contexts that end with t. Client.mu is held.
func (h *hold) handOff(t *tenure, a *attempt, now clock.Instant) (watchers []*watcher, ok bool) {
	token, err := makeToken(h.stored, h.c.floor, h.handOvers+1)
	if err != nil {
		return nil, false
	}
	next := &tenure{seen: a.watch}
	next.begin(h, &a.cfg, token, a.owner, now)
	a.watch.expect(next)
	h.mu.Lock()
	ok = h.tenure == t && t.err == nil && h.deadline.Load().Until(now) >= h.span()*2/3
	if ok {
		watchers = t.finish(errReleased)
		h.tenure = next
	}
	h.mu.Unlock()
	if ok {
		h.handOvers++
		a.passed = next
	} else {
		a.watch.taken(next, WayHanded, false)
	}
	return watchers, ok
}

// takeOver makes the tenure that a was handed its caller's. It reports false if the
// hold was lost on the way: then a has to begin anew, and is the first in line.
func (c *Client) takeOver(a *attempt) bool {
	t := a.passed
	a.queued = true
	if !t.over.Load() && !t.lapsed(c.clock.Mono()) {
		a.watch.taken(t, WayHanded, true)
		return true
	}
	a.watch.taken(t, WayHanded, false)
	t.h.lose(t, ErrLost)
	a.handed.Store(false)
	a.passed, a.first = nil, true
	return false
}
