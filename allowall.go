package coord

import (
	"context"
	"fmt"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/errs"
	"github.com/coordgo/coord/internal/permit"
)

// MaxDemands is how many demands one AllowAll may have.
const MaxDemands = 64

// Demand is one part of an [Client.AllowAll]: N permits of Limit under Key.
type Demand = driver.Demand

// AllowAll takes the permits of every demand, or none of any: a call that is
// limited per user, per tenant and in all is admitted by all three, and a denial
// by one costs nothing of the others. Results are in the order of the demands, and
// Allowed is the same in each. After a denial RetryAfter is above zero where the demand
// stood in the way, and Remaining is -1 where it was not looked at. Demands
// of one limit under one key add up. Two limits that count on one account of a key (clause R3) are
// ErrInvalid, as are more than MaxDemands; more permits than a limit ever grants at once are ErrExceedsBurst.
//
// It is one atomic step on a store that claims driver.AtomicMulti. On any other it is
// ErrUnsupported, unless the Client was made with [WithBestEffort].
func (c *Client) AllowAll(ctx context.Context, demands ...Demand) (_ []Result, err error) {
	m := multi{c: c, as: demands, demands: make([]driver.Demand, len(demands)), results: make([]Result, len(demands))}
	if key, err := m.check(ctx); err != nil {
		return nil, c.fail("allowall", key, err)
	}
	if len(demands) == 0 {
		return m.results, nil
	}
	began := c.begins()
	defer func() {
		if c.trace.Limits() && err == nil {
			m.tellDecided(ctx, began)
		}
	}()
	m.from, err = c.permits.TakeAll(ctx, m.demands, func(i int) *permit.Result { return (*permit.Result)(&m.results[i]) })
	if err != nil {
		return m.degrade(ctx, errs.OfStore(ctx, err, true))
	}
	return m.results, nil
}

// multi is one AllowAll.
type multi struct {
	c       *Client
	as      []Demand        // as given
	demands []driver.Demand // keys in full, limits in normal form
	results []Result
	from    permit.Origin
}

// check refuses what need not go to the store, and names the key that is to blame.
func (m *multi) check(ctx context.Context) (key string, err error) {
	if len(m.as) > MaxDemands {
		return "", fmt.Errorf("%w: %d demands: want at most %d", ErrInvalid, len(m.as), MaxDemands)
	}
	for i, d := range m.as {
		if err := m.c.demand(ctx, d.Key, d.Limit, d.N, &m.demands[i]); err != nil {
			return d.Key, err
		}
	}
	if i, err := permit.CheckAll(m.demands); err != nil {
		return m.as[i].Key, err
	}
	switch c := m.c; {
	case c.state.Load() == stateClosed:
		return "", ErrClosed
	case c.permits.Store.Limiter == nil:
		return "", ErrUnsupported
	case ctx.Err() != nil:
		return "", errs.ContextError(ctx)
	case !c.permits.Store.TakesAll && !c.bestEffort:
		return "", fmt.Errorf("%w: several limits at once on %s, which does not claim %q: make the client WithBestEffort, or let one limit apply", ErrUnsupported, c.info.Name, driver.AtomicMulti)
	case !c.permits.Store.TakesAll && !c.permits.Store.Refunds:
		return "", fmt.Errorf("%w: several limits on %s, which cannot give permits back", ErrUnsupported, c.info.Name)
	}
	return "", nil
}

// degrade applies the failure policy.
func (m *multi) degrade(ctx context.Context, err error) ([]Result, error) {
	r, err := m.c.degrade(ctx, "allowall", "", driver.Ask{}, err)
	if err != nil {
		return nil, err
	}
	for i := range m.results {
		m.results[i] = r
		m.results[i].Granted = m.demands[i].N
	}
	return m.results, nil
}
