package rules

import (
	"context"
	"errors"

	"github.com/coordgo/coord"
)

// Policy is the failure policy of bounds together: closed if one of them is, open if all are, and nil, the client's,
// otherwise.
func Policy(bounds ...Bound) *coord.FailurePolicy {
	if len(bounds) == 0 {
		return nil
	}
	policy := bounds[0].FailurePolicy
	for _, b := range bounds[1:] {
		policy = stricter(policy, b.FailurePolicy)
	}
	return policy
}

// stricter is the one of two failure policies that admits less. The client's is between closed and open.
func stricter(a, b *coord.FailurePolicy) *coord.FailurePolicy {
	switch {
	case a != nil && *a == coord.FailClosed:
		return a
	case b != nil && *b == coord.FailClosed:
		return b
	case a == nil:
		return nil
	}
	return b
}

// Apply has the failure policies of the rules decide where the store did not: d and err are what the client made of
// d.Bounds, and what is given back is what [Chain.Allow] makes of them.
func Apply(ctx context.Context, d Decision, err error) (Decision, error) {
	policy := Policy(d.Bounds...)
	switch {
	case policy == nil:
	case *policy == coord.FailClosed:
		if why := d.Degraded(); err == nil && why != nil {
			return Decision{}, why
		}
	case errors.Is(err, coord.ErrUnavailable) && !errors.Is(ctx.Err(), context.Canceled):
		for i := range d.Bounds {
			b := &d.Bounds[i]
			b.Result = coord.Result{Allowed: true, Granted: b.Demand.N, Degraded: err}
		}
		return Decision{Allowed: true, Bounds: d.Bounds}, nil
	}
	return d, err
}
