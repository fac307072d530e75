package coord

import (
	"context"
	"errors"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/errs"
)

// Wait waits for one permit. See [Limiter].
func (c *Client) Wait(ctx context.Context, key string, limit Limit) error {
	return c.WaitN(ctx, key, limit, 1)
}

// WaitN waits for n permits. See [Limiter]. The first in line reserves them on a token bucket and
// sleeps, and gives them back if ctx ends first; on a window it asks again when
// the store said to. Under FailOpen an unavailable store admits.
func (c *Client) WaitN(ctx context.Context, key string, limit Limit, n int) error {
	if (c.observesLocks() || c.observesLimits()) && n > 0 {
		return c.observedWait(ctx, key, limit, n)
	}
	_, _, err := c.waitN(ctx, key, limit, n)
	return err
}

// waitN is WaitN, and says what was granted.
func (c *Client) waitN(ctx context.Context, key string, limit Limit, n int) (Result, origin, error) {
	granted := Result{Allowed: true, Granted: n}
	var d driver.Demand
	err := c.demand(ctx, key, limit, n, &d)
	var retry time.Duration
	var from origin
	switch {
	case err != nil:
	case n == 0:
		return granted, from, nil
	default:
		retry, from, err = c.wait(ctx, &d)
	}
	if err == nil {
		return granted, from, nil
	}
	if errors.Is(err, ErrUnavailable) {
		r, err := c.degrade(ctx, "wait", key, driver.Ask{N: n}, err)
		return r, from, err
	}
	return Result{}, from, &Error{Op: "wait", Backend: c.info.Name, Key: key, RetryAfter: retry, Err: err}
}

// errTooLate: the permits cannot come before ctx's deadline.
var errTooLate = errs.Chain(ErrLimited, context.DeadlineExceeded)

// wait waits in line for the permits, and until they are due.
func (c *Client) wait(ctx context.Context, d *driver.Demand) (time.Duration, origin, error) {
	w := &waiter{ctx: ctx, n: d.N, done: make(chan struct{})}
	w.deadline, _ = ctx.Deadline()
	q := c.waits.join(d, w)
	if q == nil {
		return 0, fromStore, ErrClosed
	}
	select {
	case <-w.done:
	case <-ctx.Done():
	case <-c.ended:
	}
	if left, unknown := q.leave(w); left {
		return 0, fromStore, waitEnded(ctx, unknown)
	}
	switch {
	case w.err == errTooLate:
		return w.retry, w.from, w.err
	case w.err != nil && w.denied && ctx.Err() != nil: // the time was up while it asked again
		return 0, w.from, waitEnded(ctx, false)
	case w.err != nil:
		return 0, w.from, errs.OfStore(ctx, w.err, true)
	case w.due.IsZero():
		return 0, w.from, nil
	}
	err := c.sleep(ctx, time.Until(w.due))
	if over := q.passed(w, err != nil); over != nil {
		select { // so that what comes next finds the permits, unless the store is slow
		case <-over:
		case <-time.After(patience / 2):
		}
	}
	return 0, w.from, err
}

// waitEnded is the error of a wait that ctx, or the client, has ended. unknown says that the store
// owes the answer.
func waitEnded(ctx context.Context, unknown bool) error {
	switch {
	case ctx.Err() == nil:
		return ErrClosed
	case unknown:
		return errs.OfStore(ctx, ctx.Err(), true)
	}
	return errs.Chain(ErrLimited, errs.OfContext(ctx))
}

// sleep waits for d, or says why not.
func (c *Client) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return errs.Chain(ErrLimited, errs.OfContext(ctx))
	case <-c.ended:
		return ErrClosed
	}
}
