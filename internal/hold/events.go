package hold

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/internal/errs"
)

// Identity says which tenure an event is of.
type Identity struct {
	ID    string       // under which the store has the hold
	Token driver.Token // of the tenure
}

// Trace is told what becomes of one attempt and of the tenure that it is granted. Events of one tenure come
// in order, one at a time: Acquired first, Lost or Released last.
type Trace interface {
	// Waits: the key cannot be had now. heldBy is the id of this client's hold on it, "" without one.
	// It may be called more than once.
	Waits(heldBy string)
	Acquired(of Identity, way Way, ttl time.Duration)
	Renewed(of Identity, ttl, took time.Duration)
	RenewFailed(of Identity, took, left time.Duration, err error)
	Lost(of Identity, held time.Duration, why Loss, err error)
	// Released: the tenure was unlocked under ctx.
	Released(ctx context.Context, of Identity, r Release)
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

// events tells a Trace what becomes of one tenure: one event at a time, Acquired first, Lost or Released last.
type events struct {
	trace Trace // nil: nobody listens

	mu    sync.Mutex
	begun bool     // Acquired was told
	ended bool     // the last event was told
	early []func() // what came before Acquired was told
}

// expect keeps all other events waiting until the first was told, which begin does. Manager.mu is held: before the first event
// nobody waits for that under events.mu.
func (e *events) expect() {
	if e.trace != nil {
		e.mu.Lock()
	}
}

// begin tells the first event, after expect, and then what came before.
func (e *events) begin(first func()) {
	defer e.mu.Unlock()
	e.begun = true
	first()
	for _, tell := range e.early {
		tell()
	}
	e.early = nil
}

// tell tells an event in its turn, unless the last one was told.
func (e *events) tell(last bool, event func()) {
	inTurn := func() {
		if !e.ended {
			e.ended = last
			event()
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.begun {
		e.early = append(e.early, inTurn)
		return
	}
	inTurn()
}

// tellWaits tells that an attempt that is no try cannot have the key now.
func (a *Attempt) tellWaits(heldBy string) {
	if a.waits != nil && !a.try {
		a.waits(heldBy)
	}
}

// InOrder runs fn as an event of t, unless the last event of t was told. Without a Trace fn does not run.
func (t *Tenure) InOrder(fn func()) {
	if t.trace != nil {
		t.tell(false, fn)
	}
}

func (t *Tenure) tellAcquired(way Way) {
	if t.trace != nil {
		t.begin(func() { t.trace.Acquired(t.Identity(), way, t.TTL()) })
	}
}

// tellRenewed tells what became of a renewal, which g.sent began and which was answered at now.
func (t *Tenure) tellRenewed(g granted, err error, now clock.Instant) {
	if t.trace == nil {
		return
	}
	t.tell(false, func() {
		took := now.Mono - g.sent.Mono
		if err == nil {
			t.trace.Renewed(t.Identity(), g.TTL, took)
		} else {
			t.trace.RenewFailed(t.Identity(), took, max(t.deadline().Until(now), 0), err)
		}
	})
}

// TellLoss tells the Trace of a loss, if there was one that was not told. Whoever comes first tells: who found
// the loss, or an Unlock of what was lost, so that a call that fails for a loss does not return before.
func (t *Tenure) TellLoss() {
	if t.over.Load() && t.loss != NotLost {
		t.tellLost(t.loss, t.err)
	}
}

// tellLost tells a loss. The tenure has ended.
func (t *Tenure) tellLost(why Loss, err error) {
	if t.trace == nil {
		return
	}
	held := t.h.m.clock.Mono() - t.granted.Mono
	t.tell(true, func() { t.trace.Lost(t.Identity(), held, why, err) })
}

// tellReleased tells an Unlock, at ended, and what the store made of it. That the store does not know
// the hold any more is a loss.
func (t *Tenure) tellReleased(ctx context.Context, ended time.Duration, err error) {
	if errors.Is(err, errs.ErrLost) {
		t.tellLost(Revoked, err)
		return
	}
	r := Release{Held: ended - t.granted.Mono, Took: t.h.m.clock.Mono() - ended, Err: err}
	t.tell(true, func() { t.trace.Released(ctx, t.Identity(), r) })
}

// tellHandedOff tells an Unlock, at ended, after which the hold is another's.
func (t *Tenure) tellHandedOff(ctx context.Context, ended time.Duration) {
	if t.trace == nil {
		return
	}
	r := Release{Held: ended - t.granted.Mono, HandedOff: true}
	t.tell(true, func() { t.trace.Released(ctx, t.Identity(), r) })
}
