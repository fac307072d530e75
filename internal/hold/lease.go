package hold

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/internal/errs"
)

// hold is what this client has at the store: a lease on a key under an id. Its
// tenure is who has it inside the client.
type hold struct {
	m    *Manager
	by   *Attempt // the one that was granted it: its key, its id, its calls of unknown outcome
	spec *Spec    // of by

	stored    int64         // the store's fencing value
	grantedAt time.Duration // when the grant had arrived, on the monotonic clock: not before the store made it

	// guarded by Manager.mu
	slot     *slot
	handOffs int

	deadline clock.Atomic // until when the lease is certain; written under mu, only moves on
	over     atomic.Bool  // its last tenure has ended; written under mu

	mu       sync.Mutex // guards what follows, and every tenure
	ttl      time.Duration
	renewAt  clock.Instant
	renewing bool
	tenure   *Tenure // the one that has it, or the last that had

	// guarded by scheduler.mu
	next      time.Duration // when the scheduler looks again
	slack     time.Duration // how much earlier it may
	heapIndex int
}

// Tenure is one local holder's time with a hold. A hold that is handed off
// inside the client has one tenure after the other, each with the next token;
// an earlier one never speaks for a later. Its fields are guarded by
// hold.mu unless they never change. Its methods are safe for concurrent use.
type Tenure struct {
	h       *hold
	by      *Attempt // whose it is
	events  *events  // of by, when it was granted; nil unless somebody listens
	token   driver.Token
	granted clock.Instant // when the grant, or the hand-off, had arrived
	endBy   clock.Instant // MaxHold; zero: none

	over     atomic.Bool   // err is set, and what follows it
	err      error         // why it is over; nil while it is held
	loss     Loss          // likewise
	lastEnd  clock.Instant // the deadline that it had when it ended
	lastTTL  time.Duration
	done     chan struct{}
	watchers []*Watcher
}

// ErrReleased ends a tenure that was unlocked.
var ErrReleased = errs.Kind("unlocked", driver.ErrNotHeld)

// errClosed ends the holds of a Manager that gives them back.
var errClosed = errs.Kind("lock given back by Close", errors.Join(driver.ErrClosed, errs.ErrLost))

// margin is what is taken off a lease for clocks that drift apart.
func margin(ttl time.Duration) time.Duration {
	return max(ttl/100, 5*time.Millisecond)
}

// since is the instant from which g's lease certainly runs.
func (m *Manager) since(g granted) clock.Instant {
	if g.Since.IsZero() {
		return g.sent
	}
	return m.clock.At(g.Since)
}

// deadlineOf is until when a grant is certain.
func (m *Manager) deadlineOf(g granted) clock.Instant {
	return m.since(g).Add(g.TTL - margin(g.TTL))
}

// newHold makes a hold of a grant, with its first tenure. A grant whose lease has run out on the way is
// refused, and left to the janitor.
func (a *Attempt) newHold(g granted) (*hold, error) {
	m := a.m
	now := m.clock.Now()
	deadline := m.deadlineOf(g)
	token, err := MakeToken(g.Token, m.floor, 0)
	if err == nil && deadline.Reached(now) {
		err = errs.Chain(errs.ErrUnavailable, fmt.Errorf("the grant took %v, too long for a lease of %v", now.Mono-g.sent.Mono, g.TTL))
	}
	if err != nil {
		a.mayHave(now)
		return nil, err
	}
	h := &hold{
		m: m, by: a, spec: &a.spec,
		stored: g.Token, ttl: g.TTL, grantedAt: now.Mono,
		renewAt: m.since(g).Add(g.TTL / 3), heapIndex: -1,
	}
	h.deadline.Store(deadline)
	h.tenure = a.begin(h, token, now)
	return h, nil
}

// begin makes a tenure of h for a, from now on.
func (a *Attempt) begin(h *hold, token driver.Token, now clock.Instant) *Tenure {
	t := a.newTenure()
	t.h, t.by, t.events, t.token, t.granted = h, a, a.events, token, now
	if a.spec.MaxHold > 0 {
		t.endBy = now.Add(a.spec.MaxHold)
	}
	return t
}

func (h *hold) ttlNow() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ttl
}

// current is the tenure that has the hold, or the last that had.
func (h *hold) current() *Tenure {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tenure
}

// Name is the key as the application gave it.
func (t *Tenure) Name() string { return t.h.spec.Name }

// ID is the id under which the store has the hold.
func (t *Tenure) ID() string { return t.h.by.id }

// Token is the fencing token.
func (t *Tenure) Token() driver.Token { return t.token }

// TTL is the lease as the tenure knew it last: later renewals are another's.
func (t *Tenure) TTL() time.Duration {
	t.h.mu.Lock()
	defer t.h.mu.Unlock()
	if t.err != nil {
		return t.lastTTL
	}
	return t.h.ttl
}

// Deadline is until when the tenure is certain, or was when it ended.
func (t *Tenure) Deadline() time.Time { return t.h.m.clock.Time(t.deadline()) }

func (t *Tenure) deadline() clock.Instant {
	d := t.h.deadline.Load().Earlier(t.endBy)
	if t.over.Load() { // then d may be of a later tenure
		return t.lastEnd
	}
	return d
}

// closedChan is the Done of what ended before anyone asked.
var closedChan = func() chan struct{} {
	ch := make(chan struct{})
	close(ch)
	return ch
}()

// Done is closed when the tenure ends.
func (t *Tenure) Done() <-chan struct{} {
	t.h.mu.Lock()
	defer t.h.mu.Unlock()
	if t.done == nil {
		if t.err != nil {
			t.done = closedChan
		} else {
			t.done = make(chan struct{})
		}
	}
	return t.done
}

// Check is nil while the tenure holds. It looks at the clocks: what is past
// its deadline is lost now, whether or not the scheduler has run.
func (t *Tenure) Check() error {
	if t.over.Load() {
		return t.ended()
	}
	return t.checkAt(t.h.m.clock.Now())
}

func (t *Tenure) checkAt(now clock.Instant) error {
	if t.over.Load() {
		return t.ended()
	}
	if cause := t.overdue(now); cause != nil {
		t.h.lose(t, cause)
		return t.ended()
	}
	return nil
}

// Holds reports whether the tenure is held by the monotonic clock alone, which costs half: the scheduler watches the
// other one. If it is not held, Check says why, and tells the Trace.
func (t *Tenure) Holds() bool {
	return !t.over.Load() && !t.lapsed(t.h.m.clock.Mono())
}

// Ended is why the tenure is over, nil while nobody has noticed that it is.
func (t *Tenure) Ended() error {
	if t.over.Load() {
		return t.ended()
	}
	return nil
}

// overdue says why the tenure cannot be held at now.
func (t *Tenure) overdue(now clock.Instant) error {
	switch {
	case t.endBy != clock.Instant{} && t.endBy.Reached(now):
		return errs.ErrMaxHold
	case t.h.deadline.Load().Reached(now):
		return errs.ErrLost
	}
	return nil
}

// lapsed is overdue by the monotonic clock alone.
func (t *Tenure) lapsed(mono time.Duration) bool {
	return mono >= t.h.deadline.Mono() || t.endBy.Mono != 0 && mono >= t.endBy.Mono
}

func (t *Tenure) ended() error {
	t.h.mu.Lock()
	defer t.h.mu.Unlock()
	return t.err
}

// end ends the hold, and the tenure that has it, with err, and a reason if that is a loss:
// Done closes and contexts are cancelled before it returns. If t is given and does not have the
// hold any more, its end is no end of the hold. It gives the tenure that it ended,
// nil if there was none to end.
func (h *hold) end(t *Tenure, err error, loss Loss) *Tenure {
	h.mu.Lock()
	last := h.tenure
	if last.err != nil || t != nil && t != last {
		h.mu.Unlock()
		return nil
	}
	h.over.Store(true)
	watchers := last.finish(err)
	last.loss = loss
	h.mu.Unlock()
	cancelAll(watchers, err)
	return last
}

// finish ends the tenure and closes Done. It gives the contexts that the caller
// is to cancel after the mutex is free. hold.mu is held.
func (t *Tenure) finish(err error) []*Watcher {
	t.lastEnd, t.lastTTL = t.deadline(), t.h.ttl
	t.err = err
	t.over.Store(true)
	if t.done != nil {
		close(t.done)
	}
	watchers := t.watchers
	t.watchers = nil
	return watchers
}

// Watcher is a context that ends with a tenure.
type Watcher struct {
	Cancel context.CancelCauseFunc
	at     int // where it is in Tenure.watchers; guarded by hold.mu
}

func cancelAll(watchers []*Watcher, err error) {
	for _, w := range watchers {
		w.Cancel(err)
	}
}

// Watch cancels w's context when the tenure ends, or at once if it has.
func (t *Tenure) Watch(w *Watcher) {
	t.h.mu.Lock()
	err := t.err
	if err == nil {
		w.at = len(t.watchers)
		t.watchers = append(t.watchers, w)
	}
	t.h.mu.Unlock()
	if err != nil {
		w.Cancel(err)
	}
}

// Unwatch takes w out, in constant time however many there are.
func (t *Tenure) Unwatch(w *Watcher) {
	t.h.mu.Lock()
	defer t.h.mu.Unlock()
	if w.at >= len(t.watchers) || t.watchers[w.at] != w {
		return // it was taken out before, or the tenure has ended
	}
	end := len(t.watchers) - 1
	moved := t.watchers[end]
	t.watchers[w.at], moved.at = moved, w.at
	t.watchers[end] = nil
	t.watchers = t.watchers[:end]
}

// lose ends a hold that t has lost. What may still be at the store is withdrawn
// after Done has closed, so that the key is free as soon as it can be. If t has handed
// the hold off meanwhile, the clocks were looked at then, and nothing is lost. A nil t is
// whichever has it.
func (h *hold) lose(t *Tenure, cause error) {
	if t = h.end(t, cause, lossOf(cause)); t != nil {
		h.afterLoss(t)
	}
}

// afterLoss is what follows once Done of the lost tenure has closed.
func (h *hold) afterLoss(t *Tenure) {
	t.TellLoss()
	h.m.sched.remove(h)
	h.cleanUp()
	h.leaveSlot()
}

// gone ends a hold that the store has said it does not have, whoever has it here.
func (h *hold) gone(cause error) {
	t := h.end(nil, cause, Revoked)
	if t == nil {
		return
	}
	t.TellLoss()
	h.m.sched.remove(h)
	h.cleanUpUnknown()
	h.leaveSlot()
}

// leaveSlot opens the slot of a hold that is over to the next in the queue.
func (h *hold) leaveSlot() {
	m := h.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if h.slot == nil {
		return
	}
	s := h.slot
	h.slot = nil
	delete(m.holds, h.by.id)
	m.noteIdle()
	if s.hold == h {
		s.hold = nil
	}
	m.next(h.spec.Key, s)
}

func holdKey(h *hold) string { return h.spec.Key }
