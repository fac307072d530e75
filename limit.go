package coord

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/errs"
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

// ParseLimit reads "2000/1m", "2000/1m burst=200" or "2000/1m fixed-window".
func ParseLimit(s string) (Limit, error) {
	l, err := driver.ParseLimit(s)
	if err != nil {
		return l, &Error{Op: "parse", Err: err}
	}
	return l, nil
}

// Result is the answer to an ask for permits.
type Result struct {
	// Allowed says that permits were granted; after Peek, that there is one.
	Allowed bool
	// Granted permits; less than was asked only after AllowAtMost.
	Granted int
	// Remaining permits that could be had at once; -1 where AllowAll did not look.
	Remaining int
	// RetryAfter, after a denial, is when the ask can succeed if nobody else asks.
	RetryAfter time.Duration
	// ResetAfter is when the full capacity is back if nobody asks.
	ResetAfter time.Duration
	// Degraded is the store's error when the failure policy admitted the ask
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
	if l, err := limit.Normal(); err == nil {
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

// Reset forgets what was taken from limit under key.
func (c *Client) Reset(ctx context.Context, key string, limit Limit) error {
	var d driver.Demand
	err := c.demand(ctx, key, limit, 0, &d)
	if err == nil {
		leases := c.leases.Load()
		if leases != nil {
			leases.reset(d.Key, &d.Limit)
			// What is taken while the store resets may be forgotten too.
			defer leases.reset(d.Key, &d.Limit)
		}
		if err = c.limits.Reset(ctx, d.Key, d.Limit); err != nil {
			err = errs.OfStore(ctx, err, true)
		}
		c.denied.forget(d.Key)
	}
	if err != nil {
		return c.fail("reset", key, err)
	}
	return nil
}

// demand checks what every limit call is given, and fills in d with the key in
// full and the limit in normal form.
func (c *Client) demand(ctx context.Context, key string, limit Limit, n int, d *driver.Demand) (err error) {
	if d.Limit, err = limit.Normal(); err != nil {
		return err
	}
	if d.Key, err = c.fullKey(key); err != nil {
		return err
	}
	d.N = n
	return c.mayAsk(ctx, &limit, d.Limit.Max(), n)
}

// mayAsk refuses an ask of n permits, of a limit that grants at most most,
// which need not go to the store.
func (c *Client) mayAsk(ctx context.Context, limit *Limit, most, n int) error {
	switch {
	case n < 0:
		return fmt.Errorf("%w: %d permits: want 0 or more", ErrInvalid, n)
	case n > most:
		return fmt.Errorf("%w: %d asked of %v, which grants at most %d", ErrExceedsBurst, n, *limit, most)
	case c.state.Load() == stateClosed:
		return ErrClosed
	case c.limits.Limiter == nil:
		return ErrUnsupported
	case ctx.Err() != nil:
		return errs.OfContext(ctx)
	}
	return nil
}

// take is every ask that does not wait: for n permits, at least least. The answer
// goes straight into r, which is zero: on a store in memory, handing it from call
// to call would cost as much as the arithmetic.
func (c *Client) take(ctx context.Context, r *Result, op, key string, limit *Limit, least, n int) error {
	switch {
	case c.limits.quick != nil && c.takeQuick(ctx, r, key, limit, least, n):
		return nil
	case c.observesLimits():
		return c.observedTake(ctx, r, op, key, limit, least, n)
	case c.denied.off && c.limits.one != nil:
		return c.takeHere(ctx, r, op, key, limit, least, n)
	}
	_, err := c.takeThere(ctx, r, op, key, limit, least, n)
	return err
}

// origin is where an answer is from.
type origin uint8

const (
	fromStore origin = iota
	fromCache        // a denial that was remembered
	fromLease        // permits taken in advance
)

// takeThere is take on a store elsewhere.
func (c *Client) takeThere(ctx context.Context, r *Result, op, key string, limit *Limit, least, n int) (origin, error) {
	var d driver.Demand
	if err := c.demand(ctx, key, *limit, n, &d); err != nil {
		return fromStore, c.fail(op, key, err)
	}
	p := c.pot(&d)
	if p != nil && p.spend(n, r) {
		return fromLease, nil
	}
	from, err := c.takeAsked(ctx, r, p, &d, driver.Ask{Min: least, N: n})
	switch {
	case err != nil:
		*r, err = c.degrade(ctx, op, key, driver.Ask{Min: least, N: n}, errs.OfStore(ctx, err, n > 0))
	case n == 0:
		c.peekPot(&d, r)
	case p != nil && !r.Allowed && p.spendRest(least, n, r):
		from = fromLease
	}
	return from, err
}

// takeAsked answers from the cache of denials, or asks the store.
func (c *Client) takeAsked(ctx context.Context, r *Result, p *pot, d *driver.Demand, ask driver.Ask) (origin, error) {
	if c.denied.any.Load() > 0 {
		if known, ok := c.denied.lookup(d, ask); ok {
			*r = known
			return fromCache, nil
		}
	}
	var t driver.TakenOne
	from, err := c.askStore(ctx, p, d, ask, &t)
	if err == nil {
		r.set(&t, ask.N)
	}
	return from, err
}

// takeQuick is take where the store knows the answer at once. What it knows has been
// checked, when it was first asked, save for what only this client can tell.
func (c *Client) takeQuick(ctx context.Context, r *Result, key string, limit *Limit, least, n int) bool {
	if key == "" || len(key) > MaxKey || c.state.Load() == stateClosed || ctx.Err() != nil {
		return false
	}
	if c.prefix != "" {
		key = c.prefix + key
	}
	l := *limit
	if l.Algorithm == 0 {
		l.Algorithm = SlidingWindow
		if l.Burst > 0 {
			l.Algorithm = TokenBucket
		}
	}
	if l.Algorithm == TokenBucket && l.Burst == 0 {
		l.Burst = l.Rate
	}
	q, ok := c.limits.quick.TakeQuick(key, l, least, n)
	if ok {
		r.Allowed, r.Granted, r.Remaining, r.RetryAfter, r.ResetAfter = q.N > 0, q.N, q.Remaining, q.RetryAfter, q.ResetAfter
	}
	return ok
}

// takeHere is take on a store in this process, where a copy more would show.
func (c *Client) takeHere(ctx context.Context, r *Result, op, key string, limit *Limit, least, n int) error {
	l, err := limit.Normal()
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
	one, err := c.limits.one.TakeOne(ctx, full, l, driver.Ask{Min: least, N: n})
	if err != nil {
		*r, err = c.degrade(ctx, op, key, driver.Ask{Min: least, N: n}, errs.OfStore(ctx, err, n > 0))
		return err
	}
	r.Granted, r.Remaining, r.RetryAfter, r.ResetAfter = one.N, one.Remaining, one.RetryAfter, one.ResetAfter
	r.Allowed = one.N > 0 || n == 0 && one.Remaining > 0
	return nil
}

// askStore makes one call, for more than is asked if p, which may be nil, wants a
// lease, and remembers a denial.
func (c *Client) askStore(ctx context.Context, p *pot, d *driver.Demand, ask driver.Ask, t *driver.TakenOne) (from origin, err error) {
	if c.denied.off {
		return fromStore, c.takeOne(ctx, d, ask, t)
	}
	sent, epoch := c.clock.Now(), c.denied.epoch.Load()
	if p == nil {
		err = c.takeOne(ctx, d, ask, t)
	} else {
		from, err = p.ask(ctx, d, ask, t)
	}
	switch {
	case err != nil || ask.N == 0 || from == fromLease:
	case t.N == 0:
		c.denied.remember(d, ask, t, sent, epoch)
	default:
		c.denied.drop(d.Key)
	}
	return from, err
}

// takeOne asks the store, together with others who ask the same limit meanwhile. A store
// in this process is quicker than that.
func (c *Client) takeOne(ctx context.Context, d *driver.Demand, ask driver.Ask, t *driver.TakenOne) error {
	if c.denied.off {
		return c.callOne(ctx, d, ask, t)
	}
	_, err := c.flights.take(ctx, d, ask, t, nil)
	return err
}

// callOne makes one call for one ask.
func (c *Client) callOne(ctx context.Context, d *driver.Demand, ask driver.Ask, t *driver.TakenOne) (err error) {
	if c.limits.one != nil {
		*t, err = c.limits.one.TakeOne(ctx, d.Key, d.Limit, ask)
		return err
	}
	taken, err := c.limits.Take(ctx, d.Key, d.Limit, []driver.Ask{ask})
	if err != nil {
		return err
	}
	if len(taken.Asks) != 1 {
		return fmt.Errorf("%s answered %d asks of 1", c.info.Name, len(taken.Asks))
	}
	*t = driver.TakenOne{Granted: taken.Asks[0], Remaining: taken.Remaining, ResetAfter: taken.ResetAfter}
	return nil
}

// set makes r, which is zero, the answer t to an ask for n.
func (r *Result) set(t *driver.TakenOne, n int) {
	r.Allowed, r.Granted, r.Remaining = t.N > 0, t.N, t.Remaining
	r.RetryAfter, r.ResetAfter = t.RetryAfter, t.ResetAfter
	if n == 0 {
		r.Allowed = t.Remaining > 0
	}
}

// degrade applies the failure policy to a store that did not serve the ask. A
// caller who has gone, and a mistake, are no failure of the store.
func (c *Client) degrade(ctx context.Context, op, key string, ask driver.Ask, err error) (Result, error) {
	err = c.fail(op, key, err)
	if c.policy == FailOpen && errors.Is(err, ErrUnavailable) && !errors.Is(ctx.Err(), context.Canceled) {
		return Result{Allowed: true, Granted: ask.N, Degraded: err}, nil
	}
	return Result{}, err
}
