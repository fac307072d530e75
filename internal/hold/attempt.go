package hold

import (
	"context"
	"fmt"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/internal/errs"
	"github.com/coordgo/coord/internal/trace"
	"github.com/coordgo/coord/observe"
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
	ofHeads    bool // the holder of the key waits too: it is the head of those that want to share it
	// outlasts is how long a store may fail before a wait does. 0: Lease.
	outlasts time.Duration
	Share    driver.Share // zero: an exclusive hold
	Holder   string       // the name that the store shows
	Owner    fmt.Stringer // who asks, for logs; not nil
	// PassOn is of a Place: it gives a signal, which may have met what is left of the place at the store, to another
	// waiter. nil: it is no place.
	PassOn func(context.Context) error
}

// Attempt is one acquisition on its way. It is zero before Run, and run once.
type Attempt struct {
	acquisition
	m         *Manager
	trace     *trace.Lock         // nil: nobody listens
	waits     func(heldBy string) // told that the key cannot be had now, and which hold of this client is in the way; may be nil
	try       bool                // it fails rather than wait
	alone     bool                // it asks by itself, and does not queue
	refused   bool                // the store has refused it at least once
	waited    bool                // it has waited in the queue
	isHead    bool                // it asks as the head of the queue for a shared key
	placeLeft <-chan struct{}     // closed once it has given back the place of the head
	outage    outage              // in which it waits
	own       Tenure              // what it is granted: most often that is one

	// Guarded by Manager.mu.
	phase         phase
	counted       bool          // as one that waits
	yields        bool          // it lets other clients go first
	ahead, behind *Attempt      // in the queue
	wake          chan struct{} // signalled when it is not queued any more; nil if it never was
	tenure        *Tenure       // what it was handed or granted
	refusal       error         // why it was turned away
	lost          error         // why the store ended what the call under way is granted
}

// Run brings a to a tenure of what s asks of m, or fails, and then has the janitor remove what its calls may have left at the
// store. A try fails with ErrLocked rather than wait. trace may be nil.
func (a *Attempt) Run(ctx context.Context, m *Manager, s Spec, try bool, trace *trace.Lock) (*Tenure, error) {
	a.begin(m, s)
	if a.try = try; trace != nil {
		a.trace, a.waits = trace, trace.Waits
	}
	return a.run(ctx)
}

func (a *Attempt) begin(m *Manager, s Spec) {
	a.m, a.spec = m, s
	if s.outlasts == 0 {
		a.spec.outlasts = s.Lease
	}
	a.alone = s.Fair || m.queues != nil
}

func (a *Attempt) run(ctx context.Context) (t *Tenure, err error) {
	defer func() {
		if t == nil {
			a.abandon(err == nil)
		}
	}()
	return a.acquire(ctx)
}

func (a *Attempt) acquire(ctx context.Context) (*Tenure, error) {
	queued, err := a.join()
	if err != nil {
		return nil, err
	}
	if queued {
		if t, err := a.await(ctx); t != nil || err != nil {
			return t, err
		}
	}
	g, err := a.contend(ctx)
	if err != nil {
		return nil, err
	}
	return a.settle(g)
}

// join gives a its place: it asks at once, or queues.
func (a *Attempt) join() (isQueued bool, err error) {
	m := a.m
	m.mu.Lock()
	if m.stopped {
		m.mu.Unlock()
		return false, driver.ErrClosed
	}
	k := m.keyOf(a.spec.Key)
	leads := !a.alone && k.hold == nil && k.leader == nil
	if !leads && (k.refuses(a) || k.full(a)) {
		defer m.mu.Unlock()
		return false, m.locked(k)
	}
	m.attempts++
	switch {
	case leads:
		k.lead(a)
	case a.alone:
		k.alone++
		a.phase = asking
	default:
		isQueued, a.wake = true, make(chan struct{}, 1)
		k.push(a, false)
	}
	held := k.heldBy()
	m.mu.Unlock()
	if isQueued {
		a.tellWaits(held)
	}
	return isQueued, nil
}

func (a *Attempt) signal() {
	select {
	case a.wake <- struct{}{}:
	default: // it has a signal that it has not read yet, or never queued
	}
}

// await waits until a is to ask the store, or is handed a hold. A hold does not get lost if the wait ends in the same moment.
func (a *Attempt) await(ctx context.Context) (*Tenure, error) {
	m := a.m
	tooLong := time.NewTimer(LongWait)
	defer tooLong.Stop()
	for {
		ended := false
		select {
		case <-a.wake:
		case <-tooLong.C:
			a.warnLongWait()
		case <-ctx.Done():
			ended = true
		case <-m.life.Done():
			ended = true
		}
		m.mu.Lock()
		t, lapsed := a.take()
		if ended && a.phase != outside { // in one step: what it could be handed would be nobody's
			a.refusal = a.failure(ctx)
			m.leave(a)
		}
		is, refusal := a.phase, a.refusal
		m.mu.Unlock()
		m.afterLoss(lapsed, m.cleanUp)
		switch {
		case t != nil:
			t.tellAcquired(observe.WayHanded)
			return t, nil
		case is == outside:
			return nil, refusal
		case is == asking:
			a.waited = true
			return nil, nil
		}
	}
}

// take makes the tenure that a was handed, if there is one, a's own. One that has lapsed before, because the process was frozen,
// ends, and a is in the queue again. Manager.mu is held.
func (a *Attempt) take() (t *Tenure, lapsed ended) {
	if a.phase != given {
		return nil, ended{}
	}
	t, a.waited = a.tenure, true
	if cause := t.h.overdue(t, a.m.clock.Now()); cause != nil {
		return nil, t.h.end(t, cause, lossOf(cause))
	}
	t.taker = nil
	a.m.leave(a)
	t.expect()
	return t, ended{}
}

// LongWait is how long a goroutine waits for a key that its own client holds before that is logged: it may wait for
// itself.
const LongWait = time.Second

// warnLongWait logs, once for each holder, that a goroutine waits long for a key that its own client holds. Most often it
// has not passed on the ctx under which the key is held. One owner that waits for another does not wait for itself.
func (a *Attempt) warnLongWait() {
	m := a.m
	m.mu.Lock()
	var t *Tenure
	if k := m.keys[a.spec.Key]; k != nil && k.hold != nil && !k.hold.tenure.warned && !anotherOwner(a.spec.Owner, k.hold.tenure.by.spec.Owner) {
		t = k.hold.tenure
		t.warned = true
	}
	m.mu.Unlock()
	if t != nil {
		m.log.Warn("coord: waiting for a lock that this client holds; if the waiter works under that lock, it waits for itself: pass on the ctx of Do or of Lock.Context",
			"key", a.spec.Name, "id", t.by.id, "waiter", a.spec.Owner.String(), "holder", t.by.spec.Owner.String(), "waited", LongWait)
	}
}

// NoOwner is what an owner that is none says.
const NoOwner = "none"

func anotherOwner(a, b fmt.Stringer) bool {
	x, y := a.String(), b.String()
	return x != y && x != NoOwner && y != NoOwner
}

// abandon gives up a's place, and what it has, and has the janitor remove what its calls may have left at the store. In this order:
// CleanUp waits for attempts, and then for the janitor. unwinds says that an observer has ended the goroutine, perhaps in a call.
func (a *Attempt) abandon(unwinds bool) {
	if unwinds && a.id != "" {
		a.mayHave(a.m.clock.Now())
	}
	if t := a.leftBehind(); t != nil {
		a.m.janitor.put(t)
	}
	a.m.mu.Lock()
	t := a.tenure
	if t != nil {
		t.taker = nil
	}
	a.m.leave(a)
	a.m.mu.Unlock()
	if t != nil {
		_ = t.Release(context.Background()) // what the store does not confirm is left to the janitor
	}
}

// settle makes a grant the hold of a's key.
func (a *Attempt) settle(g granted) (*Tenure, error) {
	m := a.m
	now := m.clock.Now()
	h, token, err := a.newHold(g, now)
	if err != nil {
		a.mayHave(now)
		return nil, err
	}
	m.mu.Lock()
	if m.stopped {
		m.mu.Unlock()
		a.mayHave(m.clock.Now())
		return nil, driver.ErrClosed
	}
	t, k := h.begin(a, token, now), m.keys[a.spec.Key]
	if m.queues == nil { // a shared hold is in nobody's way here
		k.hold, k.refusal = h, refusal{}
	}
	a.tenure, m.holds[a.id] = t, h
	t.expect()
	m.leave(a)
	m.turnAway(k)
	lost := a.lost
	m.mu.Unlock()
	m.sched.add(h)
	a.warnOfBound(g)
	t.tellAcquired(a.way())
	if lost != nil { // the call may have been granted the key twice: what it has now is given back
		m.lose(h, nil, lost)
	}
	return t, nil
}

// newHold makes a hold of a grant, and its token. A grant whose lease has run out on the way is refused.
func (a *Attempt) newHold(g granted, now clock.Instant) (*hold, driver.Token, error) {
	m := a.m
	deadline := g.deadline(m.clock)
	token, err := MakeToken(g.Token, m.floor, 0)
	if err == nil && deadline.Reached(now) {
		err = errs.Chain(driver.ErrUnavailable, &lateGrant{took: now.Mono - g.since(m.clock).Mono, lease: g.TTL})
	}
	if err != nil {
		return nil, 0, err
	}
	h := &hold{
		m: m, by: &a.acquisition,
		stored: g.Token, slot: g.Slot, placeLeft: a.placeLeft, share: a.spec.Share, ttl: g.TTL, grantedAt: now.Mono,
		renewAt: g.since(m.clock).Add(g.TTL / 3), alarm: alarm{heapIndex: -1},
	}
	h.deadline.Store(deadline)
	return h, token, nil
}

// lateGrant is a grant whose lease had run out when it came.
type lateGrant struct{ took, lease time.Duration }

func (g *lateGrant) Error() string {
	return fmt.Sprintf("the grant took %v, too long for a lease of %v", g.took, g.lease)
}

// way is how an attempt that was granted came to it.
func (a *Attempt) way() observe.Way {
	switch {
	case a.refused && a.m.store.Queuer != nil: // who was refused is in its queue
		return observe.WayQueued
	case a.refused:
		return observe.WayPolled
	case a.waited:
		return observe.WayLocal
	}
	return observe.WayFree
}

// waitFailure is the error of a wait that ended with its ctx or its client.
func (a *Attempt) waitFailure(ctx context.Context) error {
	a.m.mu.Lock()
	defer a.m.mu.Unlock()
	return a.failure(ctx)
}

// failure is waitFailure where Manager.mu is held.
func (a *Attempt) failure(ctx context.Context) error {
	if ctx.Err() == nil {
		return driver.ErrClosed
	}
	return errs.Chain(a.m.locked(a.m.keys[a.spec.Key]), errs.ContextError(ctx))
}
