package hold

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/internal/errs"
)

// outage is the time in which the store does not serve an attempt that waits.
type outage struct {
	since clock.Instant // the last answer
	on    bool          // there was an error since then
	first error         // of those errors, the first that is no time-out: it says more than those
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
