package coord

import (
	"context"
	"errors"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/permit"
	"github.com/coordgo/coord/observe"
)

// Wait waits for one permit. See [Limiter].
func (c *Client) Wait(ctx context.Context, key string, limit Limit) error {
	return c.WaitN(ctx, key, limit, 1)
}

// WaitN waits for n permits. See [Limiter]. The first in the queue reserves them on a token bucket and
// sleeps, and gives them back if ctx ends first; on a window it asks again when
// the store said to. Under FailOpen an unavailable store admits.
func (c *Client) WaitN(ctx context.Context, key string, limit Limit, n int) error {
	if n <= 0 {
		_, _, err := c.waitN(ctx, key, limit, n)
		return err
	}
	ctx, w := c.trace.Call(ctx, observe.Call{Op: "wait", Key: key, Limit: limit, N: n})
	began := c.begins()
	r, from, err := c.waitN(ctx, key, limit, n)
	if c.trace.Limits() {
		r.Remaining, r.RetryAfter = -1, retryAfter(err)
		c.tellAnswer(ctx, began, observe.Decision{Op: "wait", Key: key, Limit: limit, Asked: n, Err: err}, r, from)
	}
	w.Ended(err, false)
	return err
}

// waitN is WaitN, and says what was granted.
func (c *Client) waitN(ctx context.Context, key string, limit Limit, n int) (Result, permit.Origin, error) {
	granted := Result{Allowed: true, Granted: n}
	var d driver.Demand
	err := c.demand(ctx, key, limit, n, &d)
	var retry time.Duration
	var from permit.Origin
	switch {
	case err != nil:
	case n == 0:
		return granted, from, nil
	default:
		retry, from, err = c.permits.Await(ctx, &d)
	}
	if err == nil {
		if from == permit.FromStore {
			c.noteLimit(key, limit)
		}
		return granted, from, nil
	}
	if errors.Is(err, ErrUnavailable) {
		r, err := c.degrade(ctx, "wait", key, driver.Ask{N: n}, err)
		return r, from, err
	}
	return Result{}, from, &Error{Op: "wait", Backend: c.info.Name, Key: key, RetryAfter: retry, Err: err}
}
