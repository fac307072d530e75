package hold

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/internal/errs"
)

// outage is the time in which the store does not serve an attempt that waits.
type outage struct {
	since clock.Instant // the last answer
	on    bool          // there was an error since then
	first error         // of those errors, the first that is no time-out: it says more than those
	told  bool          // the store has said when it will serve
}

// waits begins a wait. One that goes on in a queue goes on with the outage that there is.
func (o *outage) waits(now clock.Instant) {
	if !o.on {
		o.since = now
	}
}

// ends notes that the store serves the attempt.
func (o *outage) ends(now clock.Instant) { *o = outage{since: now} }

// lasts notes err, and reports whether the store has not served for longer than d.
func (o *outage) lasts(err error, d time.Duration, now clock.Instant) bool {
	o.on = true
	if o.first == nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		o.first = err
	}
	return o.since.Add(d).Reached(now)
}

// tell is err, with which the wait ends, as the attempt's own.
func (o *outage) tell(ctx context.Context, err error) error {
	if o.first != nil && o.first.Error() != err.Error() {
		err = fmt.Errorf("%w; at first: %v", err, o.first)
	}
	return errs.OfStore(ctx, err, true)
}

// hasWaited reports whether others were in a's way.
func (a *Attempt) hasWaited() bool { return a.refused || a.waited }

// goesOn takes in that the store does not serve a wait, with err, and reports whether that goes on: until the store serves, if
// it says when and ctx lasts so long, and else for as long as an outage may last. A wait that has not begun fails.
func (a *Attempt) goesOn(ctx context.Context, err error) bool {
	if ctx.Err() != nil || !passing(err) {
		return false
	}
	now := a.m.clock.Now()
	var later *driver.NotYetError
	switch knows := errors.As(err, &later); {
	case knows && !endsWithin(ctx, later.After):
		if !a.outage.told {
			a.tellsWhen(later)
		}
		a.outage = outage{since: now, told: true}
		return true
	case knows && !a.hasWaited():
		return false
	}
	return (a.hasWaited() || a.outage.told) && !a.outage.lasts(err, a.spec.outlasts, now)
}

// tellsWhen logs that a waits for the store.
func (a *Attempt) tellsWhen(later *driver.NotYetError) {
	a.m.log.Warn("coord: the store does not serve yet; the lock waits until it does", "key", a.spec.Name, "wait", later.After.Round(time.Millisecond), "error", errs.Chain(later.Err))
	a.tellWaits("")
}

// endsWithin reports whether ctx ends in less than d.
func endsWithin(ctx context.Context, d time.Duration) bool {
	at, bounded := ctx.Deadline()
	return bounded && time.Until(at) < d
}

// rest pauses after err. It gives the error with which the wait ends meanwhile: ErrLocked only if others were in a's way.
func (a *Attempt) rest(ctx context.Context, err error, d time.Duration) error {
	ended := a.pause(ctx, d)
	if ended != nil && ctx.Err() != nil && !a.hasWaited() {
		return a.outage.tell(ctx, err)
	}
	return ended
}
