package coord

import (
	"context"
	"fmt"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/errs"
	"github.com/coordgo/coord/observe"
)

// MaxCharge is the most permits that one Charge debits, and the most that Settle charges or gives back.
const MaxCharge = driver.MaxCharge

// Charge debits n permits of limit under key, whatever is left: it is for a cost that is known only after the
// call, such as the bytes of a reply or the tokens of a language model. It admits nobody. What it debits beyond what
// was there is a debt, and requests are denied until it is repaid.
//
// A token bucket repays a debt at its rate, for 366 days at most. A window forgets the charge when the period it
// fell into is over, however large it was.
//
// Result tells how things stand after it: Granted is n, Allowed says whether a permit is left, and RetryAfter
// when one is there.
//
// n is from 0 to MaxCharge, also above what the limit grants at once; anything else is ErrInvalid. Charge asks the
// store once and never repeats it. After ErrUnknownOutcome the charge may have been made. The failure policy
// does not apply, for there is nobody to admit. On a store that does not claim driver.Charge it is
// ErrUnsupported. It is safe for concurrent use.
func (c *Client) Charge(ctx context.Context, key string, limit Limit, n int) (Result, error) {
	if err := chargeable(n); err != nil {
		return Result{}, c.fail("charge", key, err)
	}
	return c.charge(ctx, "charge", key, limit, n)
}

// Settle corrects an estimate: a call was let in by Allow, AllowN or Wait for estimated permits of limit under key, and
// has used so many. Settle charges the difference, as Charge does, or gives it back. If there is none it asks the
// store for nothing.
//
// What it gives back can be granted at once, as if it had not been taken. A Wait of the same client that was denied
// asks again then; one that has reserved its permits keeps their time. It gives back no more than is missing from
// the limit. So a token bucket that is full again, and a fixed window that has begun since, give back nothing.
//
// Settle a call once. One that the failure policy let in (Result.Degraded) has taken nothing: Charge all that it
// used. The context has to outlive the call: the user of a stream may leave before its cost is known,
// so settle under [context.WithoutCancel] and a bound. Both numbers are from 0 to MaxCharge; other errors are those of
// Charge. It is safe for concurrent use.
func (c *Client) Settle(ctx context.Context, key string, limit Limit, estimated, used int) error {
	for _, n := range [...]int{estimated, used} {
		if err := chargeable(n); err != nil {
			return c.fail("settle", key, err)
		}
	}
	_, err := c.charge(ctx, "settle", key, limit, used-estimated)
	return err
}

func chargeable(n int) error {
	if n < 0 || n > MaxCharge {
		return fmt.Errorf("%w: a charge of %d permits: want 0 to %d", ErrInvalid, n, MaxCharge)
	}
	return nil
}

// charge debits n permits, or gives -n back.
func (c *Client) charge(ctx context.Context, op, key string, limit Limit, n int) (Result, error) {
	began := c.begins()
	var d driver.Demand
	err := c.demand(ctx, key, limit, 0, &d)
	if err == nil && !c.permits.Store.Charges {
		err = fmt.Errorf("%w: %s does not claim %q", ErrUnsupported, c.info.Name, driver.Charge)
	}
	if err != nil {
		return Result{}, c.fail(op, key, err)
	}
	if n == 0 && op == "settle" {
		return Result{}, nil
	}
	t, err := c.permits.Charge(ctx, &d, n)
	if err != nil {
		return Result{}, c.fail(op, key, errs.OfStore(ctx, err, n != 0))
	}
	r := Result{Allowed: t.Remaining > 0, Granted: n, Remaining: t.Remaining, RetryAfter: t.RetryAfter, ResetAfter: t.ResetAfter}
	if c.trace.Limits() && n != 0 {
		e := observe.Decision{Op: op, Key: key, Limit: limit, Asked: n, Took: c.clock.Mono() - began}
		e.Granted, e.Remaining, e.RetryAfter = r.Granted, r.Remaining, r.RetryAfter
		c.trace.Charged(ctx, e)
	}
	return r, nil
}
