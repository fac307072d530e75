package hold

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
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
	Holder  string       // the name that the store shows
	Owner   fmt.Stringer // who asks, for logs; not nil
	// Refused is called once the key is known to be taken, perhaps more than once, under mutexes of the Manager:
	// it must not block, nor call the Manager. nil: nobody asks.
	Refused func()
}

// Attempt is one acquisition on its way: its id, its place in the queue and what it may have left at the
// store. An attempt that failed keeps its place until Abandon, and may be run again, by one goroutine at a time.
type Attempt struct {
	m    *Manager
	spec Spec

	id           string
	unknown      int           // calls that may have taken the lock without our knowing
	unknownUntil clock.Instant // until when such a call may still have effect
	refused      bool          // the store has refused it at least once
	waited       bool          // it has waited in the local queue
	storeQueued  bool          // granted by the store's own queue
	wasHanded    bool          // what it was handed was lost on the way, and it goes to the front of the queue
	ownUsed      bool          // own is, or was, a tenure; written by a leader, or under Manager.mu by who hands off
	handed       atomic.Bool   // passed is its own now
	events       *events       // of the goroutine that runs it; nil if that wants none

	// Guarded by Manager.mu.
	slot          *slot
	ahead, behind *Attempt
	inQueue       bool
	leading       bool
	try           bool    // leaves rather than wait
	waiting       bool    // a goroutine is in awaitTurn
	out           bool    // turned away by the slot
	told          bool    // knows that the key cannot be had now
	yields        bool    // lets other clients go first
	passed        *Tenure // what it is handed
	lost          error   // why the store ended what the call under way is granted

	wake chan struct{} // signalled on a change of leading, out or handed
	own  Tenure        // what it is granted: most often that is one tenure
}

// Begin makes a, which is zero, an attempt for what s asks.
func (m *Manager) Begin(a *Attempt, s Spec) { a.m, a.spec = m, s }

// Run brings a to a tenure, or fails. A try fails with ErrLocked rather than wait. trace may be nil. After a
// failure the attempt keeps its place until Abandon, so that another goroutine can go on with it.
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
			return a.passed, nil
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
	a.setTry(try)
	a.out, a.told = false, false
	if a.slot == nil {
		a.slot = m.slotFor(a.spec.Key)
		m.attempts++
		a.slot.join(a)
	} else {
		a.slot.recheck = true
	}
	if a.slot.full(a) {
		err = a.slot.locked()
		m.mu.Unlock()
		return false, err
	}
	if a.leading || a.spec.Fair {
		m.mu.Unlock()
		return false, nil
	}
	a.waiting = true
	if a.wake == nil {
		a.wake = make(chan struct{}, 1)
	}
	if a.slot.hold != nil || a.slot.refused {
		a.noteRefused()
	}
	held := a.slot.heldBy()
	m.mu.Unlock()
	if !try {
		a.events.waits(held)
	}
	return true, nil
}

// awaitTurn waits for the leader's place, or to be handed a hold.
func (a *Attempt) awaitTurn(ctx context.Context) (handed bool, err error) {
	tooLong := time.NewTimer(a.spec.Lease)
	defer tooLong.Stop()
	for {
		select {
		case <-a.wake:
			if a.handed.Load() {
				return true, nil
			}
			a.m.mu.Lock()
			leading, out := a.leading, a.out
			a.m.mu.Unlock()
			switch {
			case leading:
				a.waited = true
				return false, nil
			case out:
				return a.giveUp(driver.ErrLocked)
			}
		case <-tooLong.C:
			a.warnLongWait()
		case <-ctx.Done():
			return a.giveUp(a.waitFailureHere(ctx))
		case <-a.m.life.Done():
			return a.giveUp(driver.ErrClosed)
		}
	}
}

// giveUp ends a's wait with err, unless it is being handed a hold in the same moment:
// then that is its own, and does not get lost.
func (a *Attempt) giveUp(err error) (handed bool, _ error) {
	a.m.mu.Lock()
	a.waiting = false
	handed = a.passed != nil
	a.m.mu.Unlock()
	if !handed {
		return false, err
	}
	for !a.handed.Load() {
		<-a.wake
	}
	return true, nil
}

func (a *Attempt) signal() {
	if a.wake != nil {
		select {
		case a.wake <- struct{}{}:
		default: // it has a signal that it has not read yet
		}
	}
}

// noteRefused tells who asked that the key is taken. Manager.mu may be held.
func (a *Attempt) noteRefused() {
	if a.spec.Refused != nil {
		a.spec.Refused()
	}
}

// warnLongWait logs, once for each hold, that a goroutine has waited longer than its TTL for a key that its own
// client holds. Most often its ctx has lost the owner that holds the key, and it waits for itself.
func (a *Attempt) warnLongWait() {
	m := a.m
	m.mu.Lock()
	var t *Tenure
	if s := a.slot; s != nil && s.hold != nil {
		t = s.hold.current()
	}
	isNew := t != nil && a.slot.warned != t
	if isNew {
		a.slot.warned = t
	}
	m.mu.Unlock()
	if isNew {
		m.log.Warn("coord: waiting longer than the TTL for a lock that this process holds; if the waiter was started under the lock, its ctx has lost the owner",
			"key", a.spec.Name, "waiter", a.spec.Owner.String(), "holder", t.by.spec.Owner.String(), "ttl", a.spec.Lease)
	}
}

// Abandon gives up a's place, and has the janitor remove what its calls may have
// left at the store. It follows a Run that failed.
func (a *Attempt) Abandon() {
	// In this order: CleanUp waits for attempts, and then for the janitor.
	if a.unknown > 0 {
		a.m.janitor.put(&task{key: a.spec.Key, id: a.id, until: a.unknownUntil.Mono, unknown: a.unknown})
	}
	if a.slot != nil {
		a.m.mu.Lock()
		a.vacate()
		a.m.mu.Unlock()
	}
}

// vacate takes a out of its slot. Manager.mu is held.
func (a *Attempt) vacate() {
	m, s := a.m, a.slot
	a.slot = nil
	delete(m.asking, a.id)
	m.attempts--
	m.noteIdle()
	switch {
	case a.spec.Fair:
		s.fair--
	case a.leading:
		a.leading = false
		s.leader = nil
	default:
		s.queue.remove(a)
	}
	m.next(a.spec.Key, s)
}

// refusedByStore notes that the store has told a the key is locked.
func (a *Attempt) refusedByStore() {
	if a.refused {
		return
	}
	m := a.m
	a.refused = true
	a.noteRefused()
	m.mu.Lock()
	held := ""
	if s := a.slot; s != nil {
		held = s.heldBy()
		if s.leader == a {
			s.refused, s.refusedAt = true, m.clock.Mono()
			s.turnAway()
		}
	}
	m.mu.Unlock()
	if !a.try {
		a.events.waits(held)
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
	a.events.expect(t)
	m.mu.Lock()
	if m.stopped {
		m.mu.Unlock()
		a.events.taken(t, a.way(), false)
		a.mayHave(m.clock.Now())
		return nil, driver.ErrClosed
	}
	s := a.slot
	s.hold = h
	h.slot = s
	m.holds[h.by.id] = h
	a.vacate()
	s.turnAway()
	lost := a.lost
	m.mu.Unlock()
	m.sched.add(h)
	a.events.taken(t, a.way(), true)
	if lost != nil { // the call may have been granted the key twice: what it has now is given back
		h.lose(nil, lost)
	}
	return t, nil
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

// newTenure gives a tenure that nobody knows yet, without an allocation the first time.
func (a *Attempt) newTenure() *Tenure {
	if a.ownUsed {
		return new(Tenure)
	}
	a.ownUsed = true
	return &a.own
}

// discard takes back a tenure that nobody knows yet: it must not keep its hold in memory.
func (a *Attempt) discard(t *Tenure) {
	t.h = nil
	a.ownUsed = t != &a.own
}

// waitFailure is the error of a wait that ended with its ctx or its client.
func (m *Manager) waitFailure(ctx context.Context) error {
	if ctx.Err() == nil {
		return driver.ErrClosed
	}
	return errs.Chain(driver.ErrLocked, errs.OfContext(ctx))
}

// waitFailureHere is waitFailure that says so if a's own client holds the key.
func (a *Attempt) waitFailureHere(ctx context.Context) error {
	if ctx.Err() == nil {
		return driver.ErrClosed
	}
	locked := error(driver.ErrLocked)
	a.m.mu.Lock()
	if a.slot != nil {
		locked = a.slot.locked()
	}
	a.m.mu.Unlock()
	return errs.Chain(locked, errs.OfContext(ctx))
}

// errHeldHere is ErrLocked where the key is held by the client that asks: often by the caller
// itself, whose ctx has lost the owner.
var errHeldHere = errs.Kind("held by this client; to re-enter, lock under the ctx that took it; otherwise unlock it first", driver.ErrLocked)
