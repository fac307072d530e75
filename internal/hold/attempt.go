package hold

import (
	"context"
	"fmt"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/errs"
)

// Spec is what is asked for.
type Spec struct {
	Name    string        // the key as the application gave it, for logs
	Key     string        // with its prefix, as the store has it
	Lease   time.Duration // what is asked of the store: it covers MinHold
	MaxHold time.Duration // 0: none
	MinHold time.Duration // 0: none
	NoRenew bool
	Fair    bool
	// MaxWaiting: the attempt is refused where so many others of this client wait for the key. 0: however many.
	MaxWaiting int
	ofHeads    bool // who has the key waits too: it is the head of those who want to share it
	// outlasts is how long a store may fail before a wait does. 0: Lease.
	outlasts time.Duration
	Share    driver.Share // zero: an exclusive hold
	Holder   string       // the name that the store shows
	Owner    fmt.Stringer // who asks, for logs; not nil
	// PassOn is of a Place: it gives a signal, which may have met what is left of the place at the store, to another
	// waiter. nil: it is no place.
	PassOn func(context.Context) error
}

// Attempt is one acquisition on its way. It is run once, and one that failed keeps its place in the queue until Abandon.
type Attempt struct {
	waiter
	m           *Manager
	refused     bool            // the store has refused it at least once
	waited      bool            // it has waited in the local queue
	isHead      bool            // it asks as the head of the queue for a shared key
	placeLeft   <-chan struct{} // closed once it has given back the place of the head
	outage      outage          // in which it waits
	storeQueued bool            // granted by the store's own queue
	granted     Tenure          // what Run gives
}

// Begin makes a, which is zero, an attempt of m for what s asks.
func (a *Attempt) Begin(m *Manager, s Spec) {
	a.m, a.spec = m, s
	if s.outlasts == 0 {
		a.spec.outlasts = s.Lease
	}
	a.ticket.of, a.ticket.apart = &a.waiter, s.Fair || m.queues != nil
}

// Run brings a to a tenure, or fails. A try fails with ErrLocked rather than wait. trace may be nil. Abandon
// follows a failure.
func (a *Attempt) Run(ctx context.Context, try bool, trace Trace) (*Tenure, error) {
	var e *events
	if trace != nil {
		e = &events{trace: trace}
	}
	a.events = e
	if t, err := a.enter(ctx, try); t != nil || err != nil {
		return t, err
	}
	returned := false
	defer errs.IfPanics(&returned, func() { a.mayHave(a.m.clock.Now()) })
	g, err := a.contend(ctx, try)
	returned = true
	if err != nil {
		return nil, err
	}
	return a.settle(g)
}

// enter takes a place in the queue and waits until it is the first, or is handed what
// this client holds.
func (a *Attempt) enter(ctx context.Context, try bool) (*Tenure, error) {
	for {
		waits, err := a.place(try)
		if !waits || err != nil {
			return nil, err
		}
		handed, err := a.awaitTurn(ctx)
		if !handed {
			return nil, err
		}
		if a.takeOver() {
			return a.give(a.from, a.passed), nil
		}
	}
}

// place takes a place in the queue, unless it has one, and reports whether others are before it.
func (a *Attempt) place(try bool) (waits bool, err error) {
	m := a.m
	m.mu.Lock()
	if m.stopped {
		m.mu.Unlock()
		return false, driver.ErrClosed
	}
	k, s := &a.ticket, m.slotFor(a.spec.Key)
	k.out, k.told = false, false
	if !a.placed {
		m.attempts++
		a.placed, k.try = true, try
		s.queue.join(k, s.hold != nil)
	} else {
		s.queue.recheck = true
	}
	if s.queue.full(k, s.hold != nil) || a.tooManyWait(s) {
		err = m.locked(s)
		m.mu.Unlock()
		return false, err
	}
	if k.leading || k.apart {
		m.mu.Unlock()
		return false, nil
	}
	a.waiting = true
	s.queue.wait(k)
	if k.wake == nil {
		k.wake = make(chan struct{}, 1)
	}
	held := s.heldBy()
	m.mu.Unlock()
	if !try {
		a.events.waits(held)
	}
	return true, nil
}

// tooManyWait reports whether as many wait for the key as a, which would be one more, allows. Manager.mu is held.
func (a *Attempt) tooManyWait(s *slot) bool {
	if a.spec.MaxWaiting == 0 || a.ticket.leading || a.ticket.try || a.ticket.waits || a.m.queues != nil {
		return false
	}
	waiting := s.queue.waiting
	if a.spec.ofHeads && s.hold != nil {
		waiting++
	}
	return waiting >= a.spec.MaxWaiting
}

// awaitTurn waits for the leader's place, or to be handed a hold.
func (a *Attempt) awaitTurn(ctx context.Context) (handed bool, err error) {
	tooLong := time.NewTimer(LongWait)
	defer tooLong.Stop()
	for {
		select {
		case <-a.ticket.wake:
			if a.handed.Load() {
				return true, nil
			}
			a.m.mu.Lock()
			leading, out := a.ticket.leading, a.ticket.out
			a.m.mu.Unlock()
			switch {
			case leading:
				a.waited = true
				return false, nil
			case out:
				return a.giveUp(a.locked())
			}
		case <-tooLong.C:
			a.warnLongWait()
		case <-ctx.Done():
			return a.giveUp(a.waitFailure(ctx))
		case <-a.m.life.Done():
			return a.giveUp(driver.ErrClosed)
		}
	}
}

// giveUp ends a's wait with err, unless it was handed a hold in the same moment: then that is its own, and does not get
// lost. One that a is only about to be handed goes on to the next: who gives it is telling observers, however long they
// take.
func (a *Attempt) giveUp(err error) (handed bool, _ error) {
	a.m.mu.Lock()
	defer a.m.mu.Unlock()
	a.waiting = false
	if a.handed.Load() {
		return true, nil
	}
	a.passed, a.from = nil, nil
	return false, err
}

// LongWait is how long a goroutine waits for a key that its own client holds before that is logged: it may wait for
// itself.
const LongWait = time.Second

// warnLongWait logs, once for each hold, that a goroutine waits long for a key that its own client holds. Most often it
// has not passed on the ctx under which the key is held.
func (a *Attempt) warnLongWait() {
	m := a.m
	m.mu.Lock()
	var t *tenure
	s := m.slots[a.spec.Key]
	if a.placed && s.hold != nil {
		t = s.hold.current()
	}
	isNew := t != nil && s.warned != t
	if isNew {
		s.warned = t
	}
	m.mu.Unlock()
	if isNew {
		m.log.Warn("coord: waiting for a lock that this client holds; if the waiter works under that lock, it waits for itself: pass on the ctx of Do or of Lock.Context",
			"key", a.spec.Name, "id", t.by.id, "waiter", a.spec.Owner.String(), "holder", t.by.spec.Owner.String(), "waited", LongWait)
	}
}

// Abandon gives up a's place, and has the janitor remove what its calls may have
// left at the store. It follows a Run that failed.
func (a *Attempt) Abandon() {
	// In this order: CleanUp waits for attempts, and then for the janitor.
	if t := a.leftBehind(); t != nil {
		a.m.janitor.put(t)
	}
	if a.placed {
		a.m.mu.Lock()
		a.m.vacate(a.m.slots[a.spec.Key], &a.waiter)
		a.m.mu.Unlock()
	}
}

// settle makes a granted attempt the hold of its slot.
func (a *Attempt) settle(g granted) (*Tenure, error) {
	m := a.m
	h, err := a.newHold(g)
	if err != nil {
		return nil, err
	}
	t := h.tenure
	t.expect()
	m.mu.Lock()
	if m.stopped {
		m.mu.Unlock()
		h.taken(t, a.way(), false)
		a.mayHave(m.clock.Now())
		return nil, driver.ErrClosed
	}
	s := m.slots[a.spec.Key]
	if h.inSlot = true; m.queues == nil { // a shared hold is in nobody's way here
		s.hold, s.refusal = h, refusal{}
	}
	m.holds[h.by.id] = h
	m.vacate(s, &a.waiter)
	s.queue.turnAway()
	lost := a.lost
	m.mu.Unlock()
	m.sched.add(h)
	a.warnOfBound(g)
	h.taken(t, a.way(), true)
	if lost != nil { // the call may have been granted the key twice: what it has now is given back
		m.lose(h, nil, lost)
	}
	return a.give(h, t), nil
}

// newHold makes a hold of a grant, with its first tenure. A grant whose lease has run out on the way is
// refused, and left to the janitor.
func (a *Attempt) newHold(g granted) (*hold, error) {
	m := a.m
	now := m.clock.Now()
	deadline := g.deadline(m.clock)
	token, err := MakeToken(g.Token, m.floor, 0)
	if err == nil && deadline.Reached(now) {
		err = errs.Chain(errs.ErrUnavailable, &lateGrant{took: now.Mono - g.since(m.clock).Mono, lease: g.TTL})
	}
	if err != nil {
		a.mayHave(now)
		return nil, err
	}
	h := &hold{
		by: &a.acquisition, clock: m.clock,
		stored: g.Token, slot: g.Slot, placeLeft: a.placeLeft, share: a.spec.Share, ttl: g.TTL, grantedAt: now.Mono,
		renewAt: g.since(m.clock).Add(g.TTL / 3), alarm: alarm{heapIndex: -1},
	}
	h.deadline.Store(deadline)
	h.tenure = a.begin(token, now)
	return h, nil
}

// lateGrant is a grant whose lease had run out when it came.
type lateGrant struct{ took, lease time.Duration }

func (g *lateGrant) Error() string {
	return fmt.Sprintf("the grant took %v, too long for a lease of %v", g.took, g.lease)
}

// give is t as Run gives it.
func (a *Attempt) give(h *hold, t *tenure) *Tenure {
	a.granted = Tenure{t, h, a.m}
	return &a.granted
}

// way is how an attempt that was granted came to it.
func (a *Attempt) way() Way {
	switch {
	case a.storeQueued:
		return Queued
	case a.refused:
		return Polled
	case a.waited:
		return Local
	}
	return Free
}

// waitFailure is the error of a wait that ended with its ctx or its client.
func (a *Attempt) waitFailure(ctx context.Context) error {
	if ctx.Err() == nil {
		return driver.ErrClosed
	}
	return errs.Chain(a.locked(), errs.ContextError(ctx))
}
