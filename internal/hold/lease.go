package hold

import (
	"errors"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/internal/errs"
	"github.com/coordgo/coord/observe"
)

// hold is what this client has at the store: a lease on a key under an id. Its tenure is who has it inside the client.
// Manager.mu guards what follows deadline.
type hold struct {
	m  *Manager
	by *acquisition // the one that was granted it

	stored    int64           // the store's fencing value
	slot      int             // its number among those who share the key
	placeLeft <-chan struct{} // closed once the place at the head of the queue was given back; nil if there was none
	grantedAt time.Duration   // when the grant had arrived, on the monotonic clock: not before the store made it

	deadline  clock.Atomic // until when the lease is certain; only moves on
	state     state
	lost      bool // released: there is nothing to hand over any more
	handOvers int
	ttl       time.Duration
	share     driver.Share // it only shrinks
	renewAt   clock.Instant
	renewing  bool
	tenure    *Tenure // the one that has it, or the last that had

	alarm // when the scheduler looks again
}

// state is what a hold is in.
type state uint8

const (
	held     state = iota // its tenure has it
	released              // its tenure was released, which is being told; the next attempt may have the hold then
	over                  // it is on its way back to the store, or lost
)

// ErrReleased ends a tenure that was unlocked.
var ErrReleased = errs.Kind("unlocked", driver.ErrNotHeld)

// errClosed ends the holds of a Manager that gives them back.
var errClosed = errs.Kind("lock given back by Close", errors.Join(driver.ErrClosed, errs.ErrLost))

// margin is what is taken off a lease for clocks that drift apart.
func margin(ttl time.Duration) time.Duration {
	return max(ttl/100, 5*time.Millisecond)
}

// begin begins a tenure of a's. Manager.mu is held.
func (h *hold) begin(a *Attempt, token driver.Token, now clock.Instant) *Tenure {
	t := &a.own
	if t.h != nil { // it was handed one that was lost before it was seen
		t = &Tenure{}
	}
	t.h, t.by, t.trace, t.token, t.granted = h, &a.acquisition, a.trace, token, now
	if d := a.spec.MaxHold; d > 0 {
		t.endBy = now.Add(d)
	}
	h.tenure, h.state = t, held
	return t
}

// overdue says why t cannot be held at now.
func (h *hold) overdue(t *Tenure, now clock.Instant) error {
	switch {
	case t.endBy != clock.Instant{} && t.endBy.Reached(now):
		return errs.ErrMaxHold
	case h.deadline.Load().Reached(now):
		return errs.ErrLost
	}
	return nil
}

// ended is a tenure that has just ended. The contexts that end with it are cancelled without Manager.mu. It is zero if there
// was none to end.
type ended struct {
	t        *Tenure
	watchers []*Watcher
}

func (e ended) cancel() {
	for _, w := range e.watchers {
		w.Cancel(e.t.err)
	}
}

// end ends the hold, and the tenure that has it, with err, and a reason if that is a loss. If t is given and does not have the
// hold any more, its end is no end of the hold. An attempt that was handed the tenure, and has not seen it, queues again, at the
// front. Manager.mu is held.
func (h *hold) end(t *Tenure, err error, loss observe.Loss) ended {
	last := h.tenure
	switch {
	case h.state == released && t == nil: // whoever released it finds out
		h.lost = true
		return ended{}
	case h.state != held || t != nil && t != last:
		return ended{}
	}
	h.state = over
	if a := last.taker; a != nil {
		last.taker, a.tenure = nil, nil
		h.m.keyOf(a.spec.Key).push(a, true)
	}
	return h.finish(err, loss)
}

// finish ends the tenure that has the hold, and closes Done. Manager.mu is held.
func (h *hold) finish(err error, loss observe.Loss) ended {
	t := h.tenure
	t.err, t.loss, t.lastEnd, t.lastTTL = err, loss, h.deadline.Load().Earlier(t.endBy), h.ttl
	t.over.Store(true)
	if t.done != nil {
		close(t.done)
	}
	e := ended{t, t.watchers}
	t.watchers = nil
	return e
}

// lose ends a hold that t has lost. If t has handed the hold off meanwhile, the clocks were looked at then, and nothing is lost.
// A nil t is whichever has it. What may still be at the store is withdrawn after Done has closed, when cleanUp says.
func (m *Manager) lose(h *hold, t *Tenure, cause error) {
	m.mu.Lock()
	e := h.end(t, cause, lossOf(cause))
	m.mu.Unlock()
	m.afterLoss(e, m.cleanUp)
}

// gone ends a hold that the store has said it does not have, whoever has it here.
func (m *Manager) gone(h *hold, cause error) {
	m.mu.Lock()
	e := h.end(nil, cause, observe.LossRevoked)
	m.mu.Unlock()
	m.afterLoss(e, m.cleanUpUnknown)
}

// afterLoss is what follows once Done of a lost tenure has closed, if one was.
func (m *Manager) afterLoss(e ended, cleanUp func(*hold)) {
	if e.t == nil {
		return
	}
	e.cancel()
	m.tidyUp(e.t, cleanUp)
}

func (m *Manager) tidyUp(t *Tenure, cleanUp func(*hold)) {
	defer m.leaveKey(t.h) // also if an observer ends the goroutine
	defer cleanUp(t.h)
	defer m.sched.remove(t.h)
	t.TellLoss()
}

// isolate runs fn, which may call an observer of t, for a goroutine that serves other holds too. An observer that is slow, or
// ends its goroutine, costs its own hold alone.
func (m *Manager) isolate(t *Tenure, fn func()) {
	if t.trace == nil {
		fn()
		return
	}
	m.bg.Go(fn)
}

func holdKey(h *hold) string { return h.by.spec.Key }
