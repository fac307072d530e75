package coord

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/internal/errs"
	"github.com/coordgo/coord/internal/permit"
	"github.com/coordgo/coord/observe"
)

// MaxReserve is how far ahead Reserve and Wait take permits of a token bucket.
const MaxReserve = permit.MaxAhead

// Reservation is permits of a token bucket that are due at a later time.
type Reservation struct {
	c         *Client
	key       string // as given
	demand    driver.Demand
	id        string
	due       clock.Instant
	cancelled atomic.Bool
}

// Reserve takes n permits of a token bucket, now or as soon as they are due,
// at most MaxReserve ahead. The caller waits for Delay before acting, or
// cancels. Windows are ErrUnsupported. If the permits are not due within
// MaxReserve it is ErrLimited.
func (c *Client) Reserve(ctx context.Context, key string, limit Limit, n int) (*Reservation, error) {
	began := c.begins()
	r, retry, err := c.reserve(ctx, key, limit, n, MaxReserve)
	if c.trace.Limits() && n > 0 {
		e, result := observe.Decision{Op: "reserve", Key: key, Limit: limit, Asked: n, Err: err}, Result{Remaining: -1, RetryAfter: retry}
		if err == nil {
			e.Delay, result.Allowed, result.Granted = r.Delay(), true, n
		}
		c.tellAnswer(ctx, began, e, result, permit.FromStore)
	}
	if err != nil {
		return nil, &Error{Op: "reserve", Backend: c.info.Name, Key: key, RetryAfter: retry, Err: err}
	}
	return r, nil
}

// reserve takes permits that are due within ahead.
func (c *Client) reserve(ctx context.Context, key string, limit Limit, n int, ahead time.Duration) (*Reservation, time.Duration, error) {
	r := &Reservation{c: c, key: key}
	d := &r.demand
	if err := c.demand(ctx, key, limit, n, d); err != nil {
		return nil, 0, err
	}
	if d.Limit.Algorithm != driver.TokenBucket || !c.info.Claims.Has(driver.Reserve) {
		return nil, 0, fmt.Errorf("%w: reservations of a %v on %s: want a token-bucket and the claim %q", ErrUnsupported, d.Limit.Algorithm, c.info.Name, driver.Reserve)
	}
	r.due = c.clock.Now()
	if n == 0 {
		return r, 0, nil
	}
	r.id = c.newID()
	t, err := c.permits.Reserve(ctx, d, driver.Ask{ID: r.id, Min: n, N: n, MaxDelay: ahead})
	switch {
	case err != nil:
		return nil, 0, errs.OfStore(ctx, err, true)
	case t.N == 0:
		return nil, t.RetryAfter, ErrLimited
	}
	r.due = c.clock.Now().Add(t.Delay)
	return r, 0, nil
}

// N is the number of permits reserved.
func (r *Reservation) N() int { return r.demand.N }

// Delay is how long to wait until the permits may be used; 0 when they are due.
func (r *Reservation) Delay() time.Duration {
	return max(r.due.Mono-r.c.clock.Now().Mono, 0)
}

// Cancel gives the permits back, for use by others, as far as they are not due
// yet; after that, and once it has succeeded, it does nothing. If the store does not
// answer, they count as spent, unless a later Cancel succeeds: the store takes them back once, however often it is asked.
func (r *Reservation) Cancel(ctx context.Context) error {
	if r.demand.N == 0 || r.cancelled.Load() || r.Delay() == 0 {
		return nil
	}
	if err := r.c.permits.Refund(ctx, &r.demand, r.id); err != nil {
		return r.c.fail("cancel", r.key, errs.OfStore(ctx, err, true))
	}
	r.cancelled.Store(true)
	return nil
}
