package coord

import (
	"context"
	"slices"
	"time"
)

// Goroutines of one client that want one key queue here, first in first out,
// and only the first contends at the store: a store sees one waiter per client and
// key, however many goroutines wait. Fair waiters are the exception: each queues
// at the store itself, for only the store knows the order over all clients.

// slot is one key's local queue. Its fields are guarded by Client.mu. It exists
// while it is of use.
type slot struct {
	hold    *hold      // the hold that this client has, nil if none
	leader  *attempt   // who contends at the store, nil if none
	refused bool       // the leader knows that the key is locked elsewhere
	queue   []*attempt // who waits for the leader's place
	// fairAhead: the store has told of a fair request in line behind this client's hold.
	fairAhead bool
	warned    *hold // the hold about whose long wait a warning was logged
}

// attempt is one acquisition on its way: its id, its place in line and what
// it may have left at the store.
type attempt struct {
	name  string // the key as given
	key   string // the key with prefix
	cfg   lockConfig
	owner *owner

	id      string
	sends   int     // calls that may have taken the lock without our knowing
	ghost   instant // until when such a call may still have effect
	waits   bool    // the store has refused it at least once
	queued  bool    // it has waited in the local line
	slot    *slot
	leading bool          // guarded by Client.mu
	try     bool          // leaves rather than wait; guarded by Client.mu
	turn    chan struct{} // signalled on a change of leading or out
	out     bool          // turned away by the slot; guarded by Client.mu
	lined   bool          // granted by the store's own line
	watch   *lockWatch    // of the call that drives it; nil unless observed

	joint joint // other goroutines of the same owner on the same attempt
}

// run brings a to a hold, or fails. After a failure the attempt keeps its place in
// line until abandon, so that another goroutine of its owner can go on with it.
func (c *Client) run(ctx context.Context, a *attempt, try bool, w *lockWatch) (*hold, error) {
	a.watch = w
	if err := c.enter(ctx, a, try); err != nil {
		return nil, err
	}
	g, err := c.contend(ctx, a, try)
	if err != nil {
		return nil, err
	}
	return c.settle(a, g)
}

// enter takes a place in line and waits until it is the first.
func (c *Client) enter(ctx context.Context, a *attempt, try bool) error {
	c.mu.Lock()
	if c.state.Load() != stateOpen {
		c.mu.Unlock()
		return ErrClosed
	}
	a.try, a.out = try, false
	if a.slot == nil {
		a.slot = c.slotFor(a.key)
		c.attempts++
		a.slot.join(a)
	}
	if a.slot.full(a) {
		c.mu.Unlock()
		return ErrLocked
	}
	if a.leading || a.cfg.fair {
		c.mu.Unlock()
		return nil
	}
	if a.turn == nil {
		a.turn = make(chan struct{}, 1)
	}
	if a.slot.hold != nil || a.slot.refused {
		a.joint.noteRefusal()
	}
	held := a.slot.heldBy()
	c.mu.Unlock()
	if !try {
		a.watch.wait(held)
	}
	return c.awaitTurn(ctx, a)
}

// awaitTurn waits for the leader's place.
func (c *Client) awaitTurn(ctx context.Context, a *attempt) error {
	tooLong := time.NewTimer(a.cfg.lease)
	defer tooLong.Stop()
	for {
		select {
		case <-a.turn:
			c.mu.Lock()
			leading, out := a.leading, a.out
			c.mu.Unlock()
			switch {
			case leading:
				a.queued = true
				return nil
			case out:
				return ErrLocked
			}
		case <-tooLong.C:
			c.warnLongWait(a)
		case <-ctx.Done():
			return c.waitFailure(ctx)
		case <-c.life.Done():
			return ErrClosed
		}
	}
}

// warnLongWait tells, once for each hold, of a goroutine that has waited longer
// than its TTL for a key that its own client holds. Most often its ctx has lost
// the owner that holds the key, and it waits for itself.
func (c *Client) warnLongWait(a *attempt) {
	c.mu.Lock()
	h := a.slot.hold
	news := h != nil && a.slot.warned != h
	if news {
		a.slot.warned = h
	}
	c.mu.Unlock()
	if news {
		c.log.Warn("coord: waiting longer than the TTL for a lock that this process holds; if the waiter was started under the lock, its ctx has lost the owner",
			"key", a.name, "waiter", a.owner.String(), "holder", h.tenure.owner.String(), "ttl", a.cfg.lease)
	}
}

// slotFor finds or makes the slot of key. Client.mu is held.
func (c *Client) slotFor(key string) *slot {
	s := c.slots[key]
	if s == nil {
		s = &slot{}
		c.slots[key] = s
	}
	return s
}

// join puts a at the end of the line. Client.mu is held.
func (s *slot) join(a *attempt) {
	switch {
	case a.cfg.fair: // it has no place here, it queues at the store
	case s.hold == nil && s.leader == nil:
		s.leader, s.refused, a.leading = a, false, true
	default:
		s.queue = append(s.queue, a)
	}
}

// full reports whether a try is refused without asking the store: the client holds
// the key itself, or waits for it. Client.mu is held.
func (s *slot) full(a *attempt) bool {
	if !a.try || a.leading {
		return false
	}
	if s.hold != nil || s.refused {
		return true
	}
	for _, q := range s.queue {
		if q == a {
			break
		}
		if !q.try {
			return true
		}
	}
	return false
}

// turnAway tells those in line that the key cannot be had now, which ends the
// tries among them. Client.mu is held.
func (s *slot) turnAway() {
	for _, a := range s.queue {
		a.joint.noteRefusal()
		if a.try {
			a.out = true
			a.signal()
		}
	}
}

func (a *attempt) signal() {
	if a.turn != nil {
		select {
		case a.turn <- struct{}{}:
		default: // it has a signal that it has not read yet
		}
	}
}

// next promotes the first in line when nobody holds or contends. Client.mu is held.
func (c *Client) next(key string, s *slot) {
	if s.hold != nil || s.leader != nil {
		return
	}
	if len(s.queue) == 0 {
		if c.slots[key] == s {
			delete(c.slots, key)
		}
		return
	}
	a := s.queue[0]
	s.queue = slices.Delete(s.queue, 0, 1)
	s.leader, s.refused, a.leading = a, false, true
	a.signal()
}

// abandon gives up a's place, and has the janitor remove what its calls may have
// left at the store.
func (c *Client) abandon(a *attempt) {
	// In this order: Close waits for attempts, and then for the janitor.
	if a.sends > 0 {
		c.janitor.put(&chore{key: a.key, id: a.id, until: a.ghost.mono, unknown: a.sends})
	}
	if a.slot != nil {
		c.mu.Lock()
		c.vacate(a)
		c.mu.Unlock()
	}
}

// vacate takes a out of its slot. Client.mu is held.
func (c *Client) vacate(a *attempt) {
	s := a.slot
	a.slot = nil
	c.attempts--
	c.wakeStoppers()
	if a.leading {
		a.leading = false
		s.leader = nil
	} else {
		s.queue = slices.DeleteFunc(s.queue, func(q *attempt) bool { return q == a })
	}
	c.next(a.key, s)
}

// refusedOnce notes that the store has told a the key is locked.
func (c *Client) refusedOnce(a *attempt) {
	if a.waits {
		return
	}
	a.waits = true
	a.joint.noteRefusal()
	c.mu.Lock()
	held := ""
	if s := a.slot; s != nil {
		held = s.heldBy()
		if s.leader == a {
			s.refused = true
			s.turnAway()
		}
	}
	c.mu.Unlock()
	if !a.try {
		a.watch.wait(held)
	}
}

// heldBy is the id of the hold that this client has, "" without one. Client.mu is held.
func (s *slot) heldBy() string {
	if s.hold == nil {
		return ""
	}
	return s.hold.id
}

// settle makes a granted attempt the hold of its slot.
func (c *Client) settle(a *attempt, g granted) (*hold, error) {
	h, err := c.newHold(a, g)
	if err != nil {
		return nil, err
	}
	if w := a.watch; w != nil {
		// Until its Acquired is told, no other event of the hold is.
		w.mu.Lock()
		defer w.mu.Unlock()
		h.tenure.seen = w
	}
	c.mu.Lock()
	if c.state.Load() != stateOpen {
		c.mu.Unlock()
		a.mayHave(c.clock.now())
		return nil, ErrClosed
	}
	s := c.slotFor(a.key) // a fair attempt's slot may have gone meanwhile
	s.hold = h
	h.slot = s
	c.holds[h.id] = h
	c.vacate(a)
	s.turnAway()
	c.mu.Unlock()
	c.sched.add(h)
	if a.watch != nil {
		a.watch.acquired(h, a.way())
	}
	return h, nil
}

// leaveSlot opens the slot of a hold that is over to the next in line.
func (h *hold) leaveSlot() {
	c := h.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.slot == nil {
		return
	}
	s := h.slot
	h.slot = nil
	delete(c.holds, h.id)
	c.wakeStoppers()
	if s.hold == h {
		s.hold = nil
	}
	c.next(h.key, s)
}

// waitFailure is the error of a wait that ended with its ctx or its client.
func (c *Client) waitFailure(ctx context.Context) error {
	if ctx.Err() == nil {
		return ErrClosed
	}
	return chainOf(ErrLocked, ctxError(ctx))
}
