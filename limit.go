package coord

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/errs"
	"github.com/coordgo/coord/internal/permit"
	"github.com/coordgo/coord/observe"
)

// Limit is a rate of permits: Rate in each Per, counted by Algorithm.
type Limit = driver.Limit

// Algorithm is the rule by which a Limit counts.
type Algorithm = driver.Algorithm

// The algorithms; see [driver.Algorithm] for their bounds.
const (
	SlidingWindow = driver.SlidingWindow
	TokenBucket   = driver.TokenBucket
	FixedWindow   = driver.FixedWindow
)

// Per is n permits in any d, strictly.
func Per(n int, d time.Duration) Limit { return Limit{Rate: n, Per: d} }

// PerSecond is n permits in any second.
func PerSecond(n int) Limit { return Per(n, time.Second) }

// PerMinute is n permits in any minute.
func PerMinute(n int) Limit { return Per(n, time.Minute) }

// PerHour is n permits in any hour.
func PerHour(n int) Limit { return Per(n, time.Hour) }

// ParseLimit reads "2000/1m", "2000/1m burst=200" or "2000/1m fixed-window". The period
// may also be a word: 2000/min, 10 per second, 100/day.
func ParseLimit(s string) (Limit, error) {
	l, err := driver.ParseLimit(s)
	if err != nil {
		return l, &Error{Op: "parse", Err: err}
	}
	return l, nil
}

// Result is the answer to a request for permits.
type Result struct {
	// Allowed says that permits were granted; after Peek, that there is one.
	Allowed bool
	// Granted permits; less than was asked only after AllowAtMost.
	Granted int
	// Remaining permits that could be had at once; -1 where AllowAll did not look.
	Remaining int
	// RetryAfter, after a denial, is when the request can succeed if nobody else asks.
	RetryAfter time.Duration
	// ResetAfter is when the full capacity is back if nobody asks.
	ResetAfter time.Duration
	// Degraded is the store's error when the failure policy admitted the request
	// without the store; nil otherwise.
	Degraded error
}

// Allow takes one permit if there is one. See [Limiter].
func (c *Client) Allow(ctx context.Context, key string, limit Limit) (r Result, err error) {
	err = c.take(ctx, &r, "allow", key, &limit, 1, 1)
	return r, err
}

// AllowN takes n permits, or none. See [Limiter].
func (c *Client) AllowN(ctx context.Context, key string, limit Limit, n int) (r Result, err error) {
	err = c.take(ctx, &r, "allow", key, &limit, n, n)
	return r, err
}

// AllowAtMost takes as many permits as there are, up to n. Result.Granted says
// how many; it is Allowed when that is at least one. n may be above what the
// limit ever grants at once; below 0 it is ErrInvalid, and 0 is Peek.
func (c *Client) AllowAtMost(ctx context.Context, key string, limit Limit, n int) (r Result, err error) {
	if l, err := c.limitOf(key, limit); err == nil {
		n = min(n, l.Max())
	}
	err = c.take(ctx, &r, "allow", key, &limit, min(n, 1), n)
	return r, err
}

// Peek asks without taking: Allowed if a permit is there, RetryAfter until one is.
func (c *Client) Peek(ctx context.Context, key string, limit Limit) (r Result, err error) {
	err = c.take(ctx, &r, "peek", key, &limit, 0, 0)
	return r, err
}

// Reset forgets what was taken from limit under key. A Wait of this client that was denied asks again at once. One that
// has reserved its permits keeps their time.
func (c *Client) Reset(ctx context.Context, key string, limit Limit) error {
	var d driver.Demand
	err := c.demand(ctx, key, limit, 0, &d)
	if err == nil {
		if err = c.permits.Reset(ctx, &d); err != nil {
			err = errs.OfStore(ctx, err, true)
		}
	}
	if err != nil {
		return c.fail("reset", key, err)
	}
	return nil
}

// demand checks what every limit call is given, and fills in d with the key in
// full and the limit in normal form.
func (c *Client) demand(ctx context.Context, key string, limit Limit, n int, d *driver.Demand) (err error) {
	if d.Limit, err = c.limitOf(key, limit); err != nil {
		return err
	}
	if d.Key, err = c.fullKey(key); err != nil {
		return err
	}
	d.N = n
	return c.mayAsk(ctx, &limit, d.Limit.Max(), n)
}

// limitOf is the limit in normal form, or what an override of key makes of it.
func (c *Client) limitOf(key string, limit Limit) (Limit, error) {
	l, err := limit.Normal()
	if err != nil || c.overrides == nil {
		return l, err
	}
	return c.overrides.of(key, l), nil
}

// mayAsk refuses a request of n permits, of a limit that grants at most most,
// which need not go to the store.
func (c *Client) mayAsk(ctx context.Context, limit *Limit, most, n int) error {
	switch {
	case n < 0:
		return fmt.Errorf("%w: %d permits: want 0 or more", ErrInvalid, n)
	case n > most:
		return fmt.Errorf("%w: %d asked of %v, which grants at most %d", ErrExceedsBurst, n, *limit, most)
	case c.state.Load() == stateClosed:
		return ErrClosed
	case c.permits.Store.Limiter == nil:
		return ErrUnsupported
	case ctx.Err() != nil:
		return errs.ContextError(ctx)
	}
	return nil
}

// take is every request that does not wait: for n permits, at least least. The answer
// goes straight into r, which is zero: on a store in memory, handing it from call
// to call would cost as much as the arithmetic.
func (c *Client) take(ctx context.Context, r *Result, op, key string, limit *Limit, least, n int) error {
	began, from, err := c.begins(), permit.FromStore, error(nil)
	if c.permits.Local() {
		err = c.takeHere(ctx, r, op, key, limit, least, n)
	} else {
		from, err = c.takeThere(ctx, r, op, key, limit, least, n)
	}
	if c.trace.Limits() && err == nil && n > 0 {
		c.tellDecided(ctx, c.clock.Mono()-began, observe.Decision{Op: op, Key: key, Limit: *limit, Asked: n}, *r, from)
	}
	return err
}

// takeThere is take on a store elsewhere.
func (c *Client) takeThere(ctx context.Context, r *Result, op, key string, limit *Limit, least, n int) (permit.Origin, error) {
	var d driver.Demand
	if err := c.demand(ctx, key, *limit, n, &d); err != nil {
		return permit.FromStore, c.fail(op, key, err)
	}
	ask := driver.Ask{Min: least, N: n}
	from, err := c.permits.Take(ctx, (*permit.Result)(r), &d, ask)
	if err != nil {
		*r, err = c.degrade(ctx, op, key, ask, errs.OfStore(ctx, err, n > 0))
	} else if from == permit.FromStore && n > 0 { // else a look costs too much
		c.noteLimit(key, *limit)
	}
	return from, err
}

// takeHere is take on a store in this process, where a copy more would show.
func (c *Client) takeHere(ctx context.Context, r *Result, op, key string, limit *Limit, least, n int) error {
	l, err := c.limitOf(key, *limit)
	full := ""
	if err == nil {
		full, err = c.fullKey(key)
	}
	if err == nil {
		err = c.mayAsk(ctx, limit, l.Max(), n)
	}
	if err != nil {
		return c.fail(op, key, err)
	}
	one, err := c.permits.Store.TakeOne(ctx, full, l, driver.Ask{Min: least, N: n})
	if err != nil {
		*r, err = c.degrade(ctx, op, key, driver.Ask{Min: least, N: n}, errs.OfStore(ctx, err, n > 0))
		return err
	}
	r.Granted, r.Remaining, r.RetryAfter, r.ResetAfter = one.N, one.Remaining, one.RetryAfter, one.ResetAfter
	r.Allowed = one.N > 0 || n == 0 && one.Remaining > 0
	return nil
}

// degrade applies the failure policy to a store that did not serve the request. A
// caller who has gone, and a mistake, are no failure of the store.
func (c *Client) degrade(ctx context.Context, op, key string, ask driver.Ask, err error) (Result, error) {
	err = c.fail(op, key, err)
	if c.policy == FailOpen && errors.Is(err, ErrUnavailable) && !errors.Is(ctx.Err(), context.Canceled) {
		return Result{Allowed: true, Granted: ask.N, Degraded: err}, nil
	}
	return Result{}, err
}
