package hold

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/internal/errs"
)

// Trace is told what becomes of one attempt and of the tenure that it is granted. Events of one tenure come
// in order, one at a time: Acquired first, Lost or Released last.
type Trace interface {
	// Waits: the key cannot be had now. heldBy is the id of this client's hold on it, "" without one.
	// It may be called more than once.
	Waits(heldBy string)
	Acquired(t *Tenure, way Way)
	Renewed(t *Tenure, ttl, took time.Duration)
	RenewFailed(t *Tenure, took, left time.Duration, err error)
	Lost(t *Tenure, held time.Duration, why Loss, err error)
	// Released: t was unlocked under ctx.
	Released(ctx context.Context, t *Tenure, r Release)
}

// Release says how a tenure was unlocked.
type Release struct {
	Held      time.Duration
	Took      time.Duration // at the store
	HandedOff bool          // to another goroutine of this client
	Err       error         // the store did not confirm it
}

// Way is how a lock was had.
type Way uint8

const (
	Free   Way = iota // nobody was in the way
	Local             // behind others of this client, and then at once
	Handed            // from another goroutine of this client, without asking the store
	Polled            // by asking the store again
	Queued            // in the store's own queue
)

// Loss is why a hold was lost.
type Loss uint8

const (
	NotLost Loss = iota
	Expired      // the lease was not renewed in time
	MaxHeld      // the hold reached its MaxHold
	Revoked      // the store said that the hold is gone
	Closed       // the Manager gave it back
)

// lossOf is why a hold was lost that the client itself gave up.
func lossOf(cause error) Loss {
	switch {
	case errors.Is(cause, errs.ErrMaxHold):
		return MaxHeld
	case cause == errs.ErrLost:
		return Expired
	}
	return Revoked
}

// events keeps what a Trace is told of a tenure in order. It is nil where nobody listens.
type events struct {
	trace Trace
	// mu is held while the events of the tenure are told. Whoever gives the tenure to the attempt locks it, before
	// anyone else could know the tenure. The attempt's own goroutine unlocks it after Acquired; if the attempt does
	// not have the tenure after all, whoever finds that out.
	mu     sync.Mutex
	tenure *Tenure // whose events may be told: nil before and after
}

// expect announces t, whose goroutine has yet to wake up. Until taken, no event of t is told.
func (e *events) expect(t *Tenure) {
	if e != nil {
		e.mu.Lock()
		e.tenure = t
	}
}

// taken tells, after expect, that the attempt has t, or with false that it has not.
func (e *events) taken(t *Tenure, way Way, has bool) {
	if e == nil {
		return
	}
	defer e.mu.Unlock()
	if has {
		e.trace.Acquired(t, way)
	} else {
		e.tenure = nil
	}
}

func (e *events) waits(heldBy string) {
	if e != nil {
		e.trace.Waits(heldBy)
	}
}

// inOrder runs fn, unless the last event of t was told.
func (e *events) inOrder(t *Tenure, fn func()) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.tenure == t {
		fn()
	}
}

// last runs fn, which tells the last event of t.
func (e *events) last(t *Tenure, fn func()) {
	e.inOrder(t, func() {
		e.tenure = nil
		fn()
	})
}

func (e *events) renewed(t *Tenure, g granted, err error, now clock.Instant) {
	e.inOrder(t, func() {
		took := now.Mono - g.sent.Mono
		if err == nil {
			e.trace.Renewed(t, g.TTL, took)
		} else {
			e.trace.RenewFailed(t, took, max(t.deadline().Until(now), 0), err)
		}
	})
}

// InOrder runs fn as an event of t, unless the last event of t was told. Without a Trace fn does not run.
func (t *Tenure) InOrder(fn func()) { t.events.inOrder(t, fn) }

// TellLoss tells the Trace of a loss, if there was one that was not told. Whoever comes first tells: who found
// the loss, or an Unlock of what was lost, so that a call that fails for a loss does not return before.
func (t *Tenure) TellLoss() {
	if t.events == nil {
		return
	}
	t.h.mu.Lock()
	loss, err := t.loss, t.err
	t.h.mu.Unlock()
	if loss != NotLost {
		t.tellLost(loss, err)
	}
}

// tellLost tells of a loss. The tenure has ended.
func (t *Tenure) tellLost(why Loss, err error) {
	held := t.h.m.clock.Mono() - t.granted.Mono
	t.events.last(t, func() { t.events.trace.Lost(t, held, why, err) })
}

// tellReleased tells of an Unlock, at ended, and what the store made of it. That the store does not know
// the hold any more is a loss.
func (t *Tenure) tellReleased(ctx context.Context, ended time.Duration, err error) {
	if errors.Is(err, errs.ErrLost) {
		t.tellLost(Revoked, err)
		return
	}
	r := Release{Held: ended - t.granted.Mono, Took: t.h.m.clock.Mono() - ended, Err: err}
	t.events.last(t, func() { t.events.trace.Released(ctx, t, r) })
}

// tellHandedOff tells of an Unlock, at ended, after which the hold is another's.
func (t *Tenure) tellHandedOff(ctx context.Context, ended time.Duration) {
	r := Release{Held: ended - t.granted.Mono, HandedOff: true}
	t.events.last(t, func() { t.events.trace.Released(ctx, t, r) })
}
