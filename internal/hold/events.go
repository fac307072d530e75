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

// events is where the events of one attempt's tenure are told, one at a time. It is nil where nobody listens.
type events struct {
	trace Trace
	// mu is held while the events of the tenure are told. Whoever gives the tenure to the attempt locks it, before
	// anyone else could know the tenure. The attempt's own goroutine unlocks it after Acquired; if the attempt does
	// not have the tenure after all, whoever finds that out.
	mu sync.Mutex
}

func (e *events) waits(heldBy string) {
	if e != nil {
		e.trace.Waits(heldBy)
	}
}

// expect announces t, whose goroutine has yet to wake up. Until taken, no event of t is told.
func (t *tenure) expect() {
	if t.events != nil {
		t.events.mu.Lock()
		t.telling = true
	}
}

// inOrder runs fn as an event of t, unless the last event of t was told.
func (t *tenure) inOrder(fn func()) {
	if t.events == nil {
		return
	}
	t.events.mu.Lock()
	defer t.events.mu.Unlock()
	if t.telling {
		fn()
	}
}

// last runs fn, which tells the last event of t.
func (t *tenure) last(fn func()) {
	t.inOrder(func() {
		t.telling = false
		fn()
	})
}

// identity says that an event is of t, which has the hold or had it.
func (h *hold) identity(t *tenure) Identity { return Identity{h.by.id, t.token} }

// taken tells, after expect, that the attempt has t, or with false that it has not.
func (h *hold) taken(t *tenure, way Way, has bool) {
	if t.events == nil {
		return
	}
	defer t.events.mu.Unlock()
	if has {
		t.events.trace.Acquired(h.identity(t), way, h.ttlOf(t))
	} else {
		t.telling = false
	}
}

// tellRenewed tells what became of a renewal, which g.sent began and which was answered at now.
func (h *hold) tellRenewed(t *tenure, g granted, err error, now clock.Instant) {
	t.inOrder(func() {
		took := now.Mono - g.sent.Mono
		if err == nil {
			t.events.trace.Renewed(h.identity(t), g.TTL, took)
		} else {
			t.events.trace.RenewFailed(h.identity(t), took, max(h.deadlineOf(t).Until(now), 0), err)
		}
	})
}

// tellLoss reports a loss, if there was one that was not told.
func (h *hold) tellLoss(t *tenure) {
	if t.events == nil {
		return
	}
	h.mu.Lock()
	loss, err := t.loss, t.err
	h.mu.Unlock()
	if loss != NotLost {
		h.tellLost(t, loss, err)
	}
}

// tellLost reports a loss. The tenure has ended.
func (h *hold) tellLost(t *tenure, why Loss, err error) {
	held := h.clock.Mono() - t.granted.Mono
	t.last(func() { t.events.trace.Lost(h.identity(t), held, why, err) })
}

// tellReleased reports an Unlock, at ended, and what the store made of it. That the store does not know
// the hold any more is a loss.
func (h *hold) tellReleased(ctx context.Context, t *tenure, ended time.Duration, err error) {
	if errors.Is(err, errs.ErrLost) {
		h.tellLost(t, Revoked, err)
		return
	}
	r := Release{Held: ended - t.granted.Mono, Took: h.clock.Mono() - ended, Err: err}
	t.last(func() { t.events.trace.Released(ctx, h.identity(t), r) })
}

// tellHandedOff reports an Unlock, at ended, after which the hold is another's.
func (h *hold) tellHandedOff(ctx context.Context, t *tenure, ended time.Duration) {
	r := Release{Held: ended - t.granted.Mono, HandedOff: true}
	t.last(func() { t.events.trace.Released(ctx, h.identity(t), r) })
}
