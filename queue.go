package coord

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/internal/errs"
)

// Goroutines of one client that want one key queue here, first in first out,
// and only the first contends at the store: a store sees one waiter per client and
// key, however many goroutines wait. It hands a hold on from one of them to the next
// (handover.go). Fair waiters are the exception: each queues
// at the store itself, for only the store knows the order over all clients.

// slot is one key's local queue. Its fields are guarded by Client.mu. It exists
// while it is of use.
type slot struct {
	hold    *hold    // the hold that this client has, nil if none
	leader  *attempt // who contends at the store, nil if none
	refused bool     // the leader knows that the key is locked elsewhere
	queue   line     // who waits for the leader's place
	recalls bool     // one that is to be turned away may be ahead of one that was
	warned  *tenure  // the one about whose long wait a warning was logged

	fairs  int  // fair attempts of this client
	yields bool // the turn was used up, and the next leader lets others go first
	// When the store last said that another client holds, on the monotonic clock.
	rivals time.Duration
}

// attempt is one acquisition on its way: its id, its place in line and what
// it may have left at the store.
type attempt struct {
	name  string // the key as given
	key   string // the key with prefix
	cfg   lockConfig
	owner *owner

	id     string
	sends  int           // calls that may have taken the lock without our knowing
	ghost  clock.Instant // until when such a call may still have effect
	waits  bool          // the store has refused it at least once
	queued bool          // it has waited in the local line
	lined  bool          // granted by the store's own line
	first  bool          // it has stood in line before
	watch  *lockWatch    // of the call that drives it; nil unless observed

	// Guarded by Client.mu.
	slot          *slot
	lines         *line // the one it is in
	ahead, behind *attempt
	leading       bool
	try           bool    // leaves rather than wait
	waiting       bool    // a goroutine is in awaitTurn
	out           bool    // turned away by the slot
	told          bool    // knows that the key cannot be had now
	yields        bool    // lets other clients go first
	passed        *tenure // what it is handed
	lost          error   // why the store ended what the call under way is granted

	handed atomic.Bool   // passed is its own now
	turn   chan struct{} // signalled on a change of leading, out or handed

	joint joint // other goroutines of the same owner on the same attempt
}

// run brings a to a tenure, or fails. After a failure the attempt keeps its place in
// line until abandon, so that another goroutine of its owner can go on with it.
func (c *Client) run(ctx context.Context, a *attempt, try bool, w *lockWatch) (*tenure, error) {
	a.watch = w
	if t, err := c.enter(ctx, a, try); t != nil || err != nil {
		return t, err
	}
	returned := false
	defer errs.IfPanics(&returned, func() { a.mayHave(c.clock.Now()) })
	g, err := c.contend(ctx, a, try)
	returned = true
	if err != nil {
		return nil, err
	}
	return c.settle(a, g)
}

// enter takes a place in line and waits until it is the first, or is handed what
// this client holds.
func (c *Client) enter(ctx context.Context, a *attempt, try bool) (*tenure, error) {
	for {
		waits, err := c.place(a, try)
		if !waits || err != nil {
			return nil, err
		}
		handed, err := c.awaitTurn(ctx, a)
		if !handed {
			return nil, err
		}
		if c.takeOver(a) {
			return a.passed, nil
		}
	}
}

// place takes a place in line, unless it has one, and reports whether others are before it.
func (c *Client) place(a *attempt, try bool) (waits bool, err error) {
	c.mu.Lock()
	if c.state.Load() != stateOpen {
		c.mu.Unlock()
		return false, ErrClosed
	}
	a.drivenBy(try)
	a.out, a.told = false, false
	if a.slot == nil {
		a.slot = c.slotFor(a.key)
		c.attempts++
		a.slot.join(a)
	} else {
		a.slot.recalls = true
	}
	if a.slot.full(a) {
		err = a.slot.locked()
		c.mu.Unlock()
		return false, err
	}
	if a.leading || a.cfg.fair {
		c.mu.Unlock()
		return false, nil
	}
	a.waiting = true
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
	return true, nil
}

// awaitTurn waits for the leader's place, or to be handed a hold.
func (c *Client) awaitTurn(ctx context.Context, a *attempt) (handed bool, err error) {
	tooLong := time.NewTimer(a.cfg.lease)
	defer tooLong.Stop()
	for {
		select {
		case <-a.turn:
			if a.handed.Load() {
				return true, nil
			}
			c.mu.Lock()
			leading, out := a.leading, a.out
			c.mu.Unlock()
			switch {
			case leading:
				a.queued = true
				return false, nil
			case out:
				return c.giveUp(a, ErrLocked)
			}
		case <-tooLong.C:
			c.warnLongWait(a)
		case <-ctx.Done():
			return c.giveUp(a, c.waitFailureOf(ctx, a))
		case <-c.life.Done():
			return c.giveUp(a, ErrClosed)
		}
	}
}

// giveUp ends a's wait with err, unless it is being handed a hold in the same moment:
// then that is its own, and does not get lost.
func (c *Client) giveUp(a *attempt, err error) (handed bool, _ error) {
	c.mu.Lock()
	a.waiting = false
	handed = a.passed != nil
	c.mu.Unlock()
	if !handed {
		return false, err
	}
	for !a.handed.Load() {
		<-a.turn
	}
	return true, nil
}

// warnLongWait tells, once for each hold, of a goroutine that has waited longer
// than its TTL for a key that its own client holds. Most often its ctx has lost
// the owner that holds the key, and it waits for itself.
func (c *Client) warnLongWait(a *attempt) {
	c.mu.Lock()
	var t *tenure
	if s := a.slot; s != nil && s.hold != nil {
		t = s.hold.current()
	}
	news := t != nil && a.slot.warned != t
	if news {
		a.slot.warned = t
	}
	c.mu.Unlock()
	if news {
		c.log.Warn("coord: waiting longer than the TTL for a lock that this process holds; if the waiter was started under the lock, its ctx has lost the owner",
			"key", a.name, "waiter", a.owner.String(), "holder", t.owner.String(), "ttl", a.cfg.lease)
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
		s.fairs++
	case s.hold == nil && s.leader == nil:
		s.leader, s.refused, a.leading = a, false, true
	case a.first:
		s.queue.pushFront(a)
		s.recalls = true
	default:
		s.queue.push(a)
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
	if a == s.queue.last { // as most are: a crowd of tries is not looked through by each of them
		return s.queue.patient > 0
	}
	for q := s.queue.first; q != nil && q != a; q = q.behind {
		if !q.try {
			return true
		}
	}
	return false
}

// turnAway tells those in line that the key cannot be had now, which ends the
// tries among them. It begins with the last and ends at one that was told before, so that a long
// queue is not walked at each grant. Client.mu is held.
func (s *slot) turnAway() {
	for a := s.queue.last; a != nil && (s.recalls || !a.told); a = a.ahead {
		a.told = true
		a.joint.noteRefusal()
		if a.try {
			a.out = true
			a.signal()
		}
	}
	s.recalls = false
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
	a := s.queue.first
	if a == nil {
		if s.fairs == 0 && c.slots[key] == s {
			delete(c.slots, key)
		}
		return
	}
	s.queue.remove(a)
	s.leader, s.refused, a.leading = a, false, true
	a.yields, s.yields = s.yields, false
	a.signal()
}

// abandon gives up a's place, and has the janitor remove what its calls may have
// left at the store.
func (c *Client) abandon(a *attempt) {
	// In this order: Close waits for attempts, and then for the janitor.
	if a.sends > 0 {
		c.janitor.put(&chore{key: a.key, id: a.id, until: a.ghost.Mono, unknown: a.sends})
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
	delete(c.asking, a.id)
	c.attempts--
	c.wakeStoppers()
	switch {
	case a.cfg.fair:
		s.fairs--
	case a.leading:
		a.leading = false
		s.leader = nil
	default:
		s.queue.remove(a)
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
			s.refused, s.rivals = true, c.clock.Mono()
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
func (c *Client) settle(a *attempt, g granted) (*tenure, error) {
	h, err := c.newHold(a, g)
	if err != nil {
		return nil, err
	}
	t := &h.first
	t.seen = a.watch
	a.watch.expect(t)
	c.mu.Lock()
	if c.state.Load() != stateOpen {
		c.mu.Unlock()
		a.watch.taken(t, a.way(), false)
		a.mayHave(c.clock.Now())
		return nil, ErrClosed
	}
	s := a.slot
	s.hold = h
	h.slot = s
	c.holds[h.id] = h
	c.vacate(a)
	s.turnAway()
	lost := a.lost
	c.mu.Unlock()
	c.sched.add(h)
	a.watch.taken(t, a.way(), true)
	if lost != nil { // the call may have been granted the key twice: what it has now is given back
		h.lose(nil, lost)
	}
	return t, nil
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
	return errs.Chain(ErrLocked, errs.OfContext(ctx))
}

// waitFailureOf is waitFailure of an attempt, which says so if its own client holds the key.
func (c *Client) waitFailureOf(ctx context.Context, a *attempt) error {
	if ctx.Err() == nil {
		return ErrClosed
	}
	locked := ErrLocked
	c.mu.Lock()
	if a.slot != nil {
		locked = a.slot.locked()
	}
	c.mu.Unlock()
	return errs.Chain(locked, errs.OfContext(ctx))
}

// errHeldHere is ErrLocked where the key is held by the client that asks: often by the caller
// itself, whose ctx has lost the owner.
var errHeldHere = errs.Kind("held by this client; to re-enter, lock under the ctx that took it; otherwise unlock it first", ErrLocked)

// locked says who is in the way. Client.mu is held.
func (s *slot) locked() error {
	if s.hold != nil {
		return errHeldHere
	}
	return ErrLocked
}
