package coord

import (
	"context"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/hold"
)

// lockWatch follows one Lock or TryLock, and then the hold that it took: the engine's Trace, as observers are told. It is nil
// without any.
type lockWatch struct {
	*watched
	mode   driver.Mode
	owner  string
	caller context.Context // as the application gave it

	waits     bool          // WaitBegan was told
	waitBegan time.Duration // when
	got       bool          // Acquired was told
}

// watchLock tells that a Lock or TryLock begins, and gives the context for the rest of it.
func (c *Client) watchLock(ctx context.Context, op string, share driver.Share, key string) (context.Context, *lockWatch) {
	call := c.observers().watch(ctx, Call{Op: op, Key: key})
	if call == nil {
		return ctx, nil
	}
	w := &lockWatch{watched: call, mode: share.Mode, caller: ctx}
	if owner := ownerOf(ctx); owner != nil {
		w.owner = owner.String()
	}
	return w.ctx, w
}

// trace is w for the engine.
func (w *lockWatch) trace() hold.Trace {
	if w == nil {
		return nil
	}
	return w
}

// ended tells what came of the call.
func (w *lockWatch) ended(l *Lock, err error) {
	switch {
	case w == nil:
		return
	case err != nil:
		w.refused(err)
	case !w.got:
		w.entered(l)
	}
	w.watched.ended(err, false)
}

// event says which lock it is; of is zero before there is one.
func (w *lockWatch) event(of hold.Identity) LockEvent {
	return LockEvent{Backend: w.o.c.info.Name, Key: w.call.Key, Mode: w.mode, Owner: w.owner, ID: of.ID, Token: of.Token}
}

// Waits tells, once, that the call waits. heldBy is what its client has of the key.
func (w *lockWatch) Waits(heldBy string) {
	if w == nil || w.waits {
		return
	}
	w.waits, w.waitBegan = true, w.o.c.clock.Mono()
	tell(w.o, w.ctx, "WaitBegan", func(o *Observer) func(context.Context, WaitBegan) { return o.WaitBegan },
		WaitBegan{LockEvent: w.event(hold.Identity{}), HeldBy: heldBy})
}

// waited tells that a wait is over.
func (w *lockWatch) waited(of hold.Identity, err error, now time.Duration) {
	if w.waits {
		tell(w.o, w.ctx, "WaitEnded", func(o *Observer) func(context.Context, WaitEnded) { return o.WaitEnded },
			WaitEnded{LockEvent: w.event(of), Waited: now - w.waitBegan, Outcome: outcomeOf(err), Err: err})
	}
}

func (w *lockWatch) refused(err error) {
	now := w.o.c.clock.Mono()
	w.waited(hold.Identity{}, err, now)
	tell(w.o, w.ctx, "Refused", func(o *Observer) func(context.Context, Refused) { return o.Refused },
		Refused{LockEvent: w.event(hold.Identity{}), Waited: now - w.began, Outcome: outcomeOf(err), Err: err})
}

// Acquired reports the grant.
func (w *lockWatch) Acquired(of hold.Identity, way hold.Way, ttl time.Duration) {
	now := w.o.c.clock.Mono()
	w.got = true
	w.waited(of, nil, now)
	tell(w.o, w.ctx, "Acquired", func(o *Observer) func(context.Context, Acquired) { return o.Acquired },
		Acquired{LockEvent: w.event(of), Waited: now - w.began, Way: ways[way], TTL: ttl})
}

// entered reports another handle, in the order of the events of its hold.
func (w *lockWatch) entered(l *Lock) {
	now := w.o.c.clock.Mono()
	of := l.h.t.Identity()
	w.waited(of, nil, now)
	depth := l.h.handlesNow()
	l.h.t.InOrder(func() {
		tell(w.o, w.ctx, "Reentered", func(o *Observer) func(context.Context, Reentered) { return o.Reentered },
			Reentered{LockEvent: w.event(of), Waited: now - w.began, Depth: depth})
	})
}

// Renewed reports a lease that was made longer.
func (w *lockWatch) Renewed(of hold.Identity, ttl, took time.Duration) {
	tell(w.o, w.caller, "Renewed", func(o *Observer) func(context.Context, Renewed) { return o.Renewed },
		Renewed{LockEvent: w.event(of), TTL: ttl, Took: took})
}

// RenewFailed reports a renewal that will be tried again.
func (w *lockWatch) RenewFailed(of hold.Identity, took, left time.Duration, err error) {
	tell(w.o, w.caller, "RenewFailed", func(o *Observer) func(context.Context, RenewFailed) { return o.RenewFailed },
		RenewFailed{LockEvent: w.event(of), Took: took, Left: left, Err: err})
}

// Lost reports a loss.
func (w *lockWatch) Lost(of hold.Identity, held time.Duration, why hold.Loss, err error) {
	tell(w.o, w.caller, "Lost", func(o *Observer) func(context.Context, Lost) { return o.Lost },
		Lost{LockEvent: w.event(of), Held: held, Reason: lossReasons[why], Err: err})
}

// Released reports an Unlock.
func (w *lockWatch) Released(ctx context.Context, of hold.Identity, r hold.Release) {
	tell(w.o, ctx, "Released", func(o *Observer) func(context.Context, Released) { return o.Released },
		Released{LockEvent: w.event(of), Held: r.Held, Took: r.Took, HandedOver: r.HandedOff, Err: r.Err})
}

// What the engine's reasons are called.
var (
	ways = [...]Way{
		hold.Free: WayFree, hold.Local: WayLocal, hold.Handed: WayHanded, hold.Polled: WayPolled, hold.Queued: WayQueued,
	}
	lossReasons = [...]LossReason{
		hold.Expired: LossExpired, hold.MaxHeld: LossMaxHold, hold.Revoked: LossRevoked, hold.Closed: LossClosed,
	}
)
