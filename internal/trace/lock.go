package trace

import (
	"context"
	"time"

	"github.com/coordgo/coord/observe"
)

// Lock follows one Lock or TryLock, and then what it was granted. The engine fills in of each event what it alone knows:
// the id and the token of the hold are in its observe.Lock. Events of one tenure come in order, one at a time: Acquired
// first, Lost or Released last.
type Lock struct {
	Call
	lock   observe.Lock    // before there is a hold
	caller context.Context // as the application gave it

	waits     bool          // WaitBegan was told
	waitBegan time.Duration // when
	got       bool          // Acquired was told
}

// Lock tells that a Lock or TryLock begins, and gives the context for the rest of it.
func (c *Client) Lock(ctx context.Context, op string, of observe.Lock) (context.Context, *Lock) {
	if !c.Locks() {
		return ctx, nil
	}
	of.Backend = c.Backend
	w := &Lock{lock: of, caller: ctx}
	w.begin(c, ctx, observe.Call{Op: op, Key: of.Key})
	return w.ctx, w
}

// of is the lock, with what the engine has told of its hold.
func (w *Lock) of(hold observe.Lock) observe.Lock {
	of := w.lock
	of.ID, of.Token = hold.ID, hold.Token
	return of
}

// Waits tells, once, that the call waits. heldBy is the id of what its client has of the key, "" without one.
func (w *Lock) Waits(heldBy string) {
	if w == nil || w.waits {
		return
	}
	w.waits, w.waitBegan = true, w.c.Clock.Mono()
	w.c.tell.WaitBegan(w.ctx, observe.WaitBegan{Lock: w.lock, HeldBy: heldBy})
}

// waited tells that a wait is over, if there was one.
func (w *Lock) waited(of observe.Lock, err error) {
	if w.waits {
		waited := w.c.Clock.Mono() - w.waitBegan
		w.c.tell.WaitEnded(w.ctx, observe.WaitEnded{Lock: of, Waited: waited, Outcome: outcomeOf(err), Err: err})
	}
}

// Acquired tells of the grant.
func (w *Lock) Acquired(e observe.Acquired) {
	w.got = true
	e.Lock, e.Waited = w.of(e.Lock), w.took()
	w.waited(e.Lock, nil)
	w.c.tell.Acquired(w.ctx, e)
}

// Got reports whether the call has been granted a hold of its own.
func (w *Lock) Got() bool { return w.got }

// Reentered tells of another handle. The caller sees to the order of the events of its hold.
func (w *Lock) Reentered(hold observe.Lock, depth int) func() {
	e := observe.Reentered{Lock: w.of(hold), Waited: w.took(), Depth: depth}
	w.waited(e.Lock, nil)
	return func() { w.c.tell.Reentered(w.ctx, e) }
}

// Ended tells that the call has ended, and first, if it has failed, that it was refused.
func (w *Lock) Ended(err error) {
	if err != nil {
		waited := w.took()
		w.waited(w.lock, err)
		w.c.tell.Refused(w.ctx, observe.Refused{Lock: w.lock, Waited: waited, Outcome: outcomeOf(err), Err: err})
	}
	w.Call.Ended(err, false)
}

// Renewed tells of a lease that was made longer.
func (w *Lock) Renewed(e observe.Renewed) {
	e.Lock = w.of(e.Lock)
	w.c.tell.Renewed(w.caller, e)
}

// RenewFailed tells of a renewal that will be tried again.
func (w *Lock) RenewFailed(e observe.RenewFailed) {
	e.Lock = w.of(e.Lock)
	w.c.tell.RenewFailed(w.caller, e)
}

// Lost tells of a loss.
func (w *Lock) Lost(e observe.Lost) {
	e.Lock = w.of(e.Lock)
	w.c.tell.Lost(w.caller, e)
}

// Released tells of an Unlock under ctx.
func (w *Lock) Released(ctx context.Context, e observe.Released) {
	e.Lock = w.of(e.Lock)
	w.c.tell.Released(ctx, e)
}
