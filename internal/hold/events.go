package hold

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/internal/errs"
	"github.com/coordgo/coord/internal/trace"
	"github.com/coordgo/coord/observe"
)

// lossOf is why a hold was lost that the client itself gave up.
func lossOf(cause error) observe.Loss {
	switch {
	case errors.Is(cause, errs.ErrMaxHold):
		return observe.LossMaxHold
	case cause == errs.ErrLost:
		return observe.LossExpired
	}
	return observe.LossRevoked
}

// notLost is the reason of an end that is no loss.
const notLost observe.Loss = ""

// events tells a trace what becomes of one tenure: one event at a time, Acquired first, Lost or Released last.
type events struct {
	trace *trace.Lock // nil: nobody listens

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

// InOrder runs fn as an event of t, unless the last event of t was told. Without a trace fn does not run.
func (t *Tenure) InOrder(fn func()) {
	if t.trace != nil {
		t.tell(false, fn)
	}
}

func (t *Tenure) tellAcquired(way observe.Way) {
	if t.trace != nil {
		t.begin(func() { t.trace.Acquired(observe.Acquired{Lock: t.Identity(), Way: way, TTL: t.TTL()}) })
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
			t.trace.Renewed(observe.Renewed{Lock: t.Identity(), TTL: g.TTL, Took: took})
		} else {
			left := max(t.deadline().Until(now), 0)
			t.trace.RenewFailed(observe.RenewFailed{Lock: t.Identity(), Took: took, Left: left, Err: err})
		}
	})
}

// TellLoss tells the trace of a loss, if there was one that was not told. Whoever comes first tells: who found
// the loss, or an Unlock of what was lost, so that a call that fails for a loss does not return before.
func (t *Tenure) TellLoss() {
	if t.over.Load() && t.loss != notLost {
		t.tellLost(t.loss, t.err)
	}
}

// tellLost tells a loss. The tenure has ended.
func (t *Tenure) tellLost(why observe.Loss, err error) {
	if t.trace == nil {
		return
	}
	held := t.h.m.clock.Mono() - t.granted.Mono
	t.tell(true, func() { t.trace.Lost(observe.Lost{Lock: t.Identity(), Held: held, Reason: why, Err: err}) })
}

// tellReleased tells an Unlock, at ended, and what the store made of it. That the store does not know
// the hold any more is a loss.
func (t *Tenure) tellReleased(ctx context.Context, ended time.Duration, err error) {
	if errors.Is(err, errs.ErrLost) {
		t.tellLost(observe.LossRevoked, err)
		return
	}
	e := observe.Released{Lock: t.Identity(), Held: ended - t.granted.Mono, Took: t.h.m.clock.Mono() - ended, Err: err}
	t.tell(true, func() { t.trace.Released(ctx, e) })
}

// tellHandedOff tells an Unlock, at ended, after which the hold is another's.
func (t *Tenure) tellHandedOff(ctx context.Context, ended time.Duration) {
	if t.trace == nil {
		return
	}
	e := observe.Released{Lock: t.Identity(), Held: ended - t.granted.Mono, HandedOver: true}
	t.tell(true, func() { t.trace.Released(ctx, e) })
}
