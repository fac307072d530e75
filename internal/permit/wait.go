package permit

import (
	"context"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/errs"
)

// errTooLate: the permits cannot come before the deadline of the caller's context.
var errTooLate = errs.Chain(errs.ErrLimited, context.DeadlineExceeded)

// Await waits for the permits of d in a queue, and until they are due. retry, with an error, is when they
// could be there; 0: not known.
func (p *Pool) Await(ctx context.Context, d *driver.Demand) (retry time.Duration, from Origin, err error) {
	w := &waiter{ctx: ctx, n: d.N, done: make(chan struct{})}
	w.deadline, _ = ctx.Deadline()
	q := p.waits.join(d, w)
	if q == nil {
		return 0, FromStore, driver.ErrClosed
	}
	defer p.waits.inside.Done()
	select {
	case <-w.done:
	case <-ctx.Done():
	case <-p.ended:
	}
	if left, silence := q.leave(w); left {
		return 0, FromStore, waitEnded(ctx, silence)
	}
	switch {
	case w.err == errTooLate:
		return w.retry, w.from, w.err
	case w.err != nil && w.denied && ctx.Err() != nil: // the time was up while it asked again
		return 0, w.from, waitEnded(ctx, nil)
	case w.err != nil:
		return 0, w.from, errs.OfStore(ctx, w.err, true)
	case w.due.IsZero():
		return 0, w.from, nil
	}
	err = p.sleep(ctx, time.Until(w.due))
	if over := q.passed(w, err != nil); over != nil {
		select { // so that what comes next finds the permits, unless the store is slow
		case <-over:
		case <-time.After(patience / 2):
		}
	}
	return 0, w.from, err
}

// waitEnded is the error of a wait that ctx, or Stop, has ended. silence is nil unless the store is to blame.
func waitEnded(ctx context.Context, silence error) error {
	switch {
	case ctx.Err() == nil:
		return driver.ErrClosed
	case silence != nil:
		return errs.OfStore(ctx, silence, true)
	}
	return errs.Chain(errs.ErrLimited, errs.ContextError(ctx))
}

// sleep waits for d, or says why not.
func (p *Pool) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return errs.Chain(errs.ErrLimited, errs.ContextError(ctx))
	case <-p.ended:
		return driver.ErrClosed
	}
}
