package coord

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/internal/errs"
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
	if c.observesLimits() {
		began := c.clock.Mono()
		defer func() {
			if err == nil {
				m.observed(ctx, began)
			}
		}()
	}
	if m.cached = m.knownDenied(); m.cached {
		return m.results, nil
	}
	take := m.takeAtOnce
	if c.limits.multi == nil {
		take = m.takeInTurn
	}
	if err := take(ctx); err != nil {
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
	cached  bool // the store was not asked
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
		if other := m.rival(i); other != nil {
			return d.Key, fmt.Errorf("%w: %v and %v count on one account of a key: want one of them", ErrInvalid, other.Limit, m.demands[i].Limit)
		}
	}
	for _, sum := range m.sums() {
		if most := sum.Limit.Max(); sum.N > most {
			return m.as[sum.of[0]].Key, fmt.Errorf("%w: %d asked of %v in %d demands, which grants at most %d", ErrExceedsBurst, sum.N, sum.Limit, len(sum.of), most)
		}
	}
	switch c := m.c; {
	case c.state.Load() == stateClosed:
		return "", ErrClosed
	case c.limits.Limiter == nil:
		return "", ErrUnsupported
	case ctx.Err() != nil:
		return "", errs.OfContext(ctx)
	case c.limits.multi == nil && !c.bestEffort:
		return "", fmt.Errorf("%w: several limits at once on %s, which does not claim %q: make the client WithBestEffort, or let one limit apply", ErrUnsupported, c.info.Name, driver.AtomicMulti)
	case c.limits.multi == nil && c.limits.refund == nil:
		return "", fmt.Errorf("%w: several limits on %s, which cannot give permits back", ErrUnsupported, c.info.Name)
	}
	return "", nil
}

// rival is a demand before the i-th that counts on its account under another limit: that
// the permits of both fit together, neither of the limits says.
func (m *multi) rival(i int) *driver.Demand {
	d := &m.demands[i]
	for j := range m.demands[:i] {
		if o := &m.demands[j]; o.Key == d.Key && o.Limit != d.Limit && o.Limit.Shares(d.Limit) {
			return o
		}
	}
	return nil
}

// summed are the demands of one limit under one key.
type summed struct {
	driver.Demand
	of []int  // in the demands
	id string // of the ask, while they are taken in turn
}

func (m *multi) sums() []summed {
	sums := make([]summed, 0, len(m.demands))
	for i, d := range m.demands {
		at := slices.IndexFunc(sums, func(s summed) bool { return s.Key == d.Key && s.Limit == d.Limit })
		if at < 0 {
			sums = append(sums, summed{Demand: d, of: []int{i}})
			continue
		}
		sums[at].N += d.N
		sums[at].of = append(sums[at].of, i)
	}
	return sums
}

// knownDenied answers from memory if one demand is certain to be denied, and tells of all that are.
func (m *multi) knownDenied() (denied bool) {
	memory := &m.c.denied
	if memory.any.Load() == 0 {
		return false
	}
	for i := range m.demands {
		d := &m.demands[i]
		known, ok := memory.lookup(d, driver.Ask{Min: d.N, N: d.N})
		if !ok {
			continue
		}
		if !denied {
			m.unseen()
		}
		m.results[i], denied = known, true
	}
	return denied
}

// unseen makes every result a denial by another demand.
func (m *multi) unseen() {
	for i := range m.results {
		m.results[i] = Result{Remaining: -1}
	}
}

// takeAtOnce is one atomic step at the store.
func (m *multi) takeAtOnce(ctx context.Context) error {
	c := m.c
	sent, epoch := c.clock.Now(), c.denied.epoch.Load()
	taken, err := c.limits.multi.TakeAll(ctx, m.demands)
	if err != nil {
		return err
	}
	if len(taken) != len(m.demands) || slices.ContainsFunc(taken, func(t driver.Taken) bool { return len(t.Asks) != 1 }) {
		return fmt.Errorf("%s answered %d demands of %d", c.info.Name, len(taken), len(m.demands))
	}
	granted := m.granted(taken)
	for i, t := range taken {
		r := &m.results[i]
		r.Allowed, r.Remaining, r.ResetAfter = granted, t.Remaining, t.ResetAfter
		switch n := m.demands[i].N; {
		case granted:
			r.Granted = n
		case n > 0: // a demand for nothing is never in the way
			r.RetryAfter = t.Asks[0].RetryAfter
		}
	}
	if !c.denied.off {
		m.learn(taken, granted, sent, epoch)
	}
	return nil
}

// granted reports whether every demand was met.
func (m *multi) granted(taken []driver.Taken) bool {
	for i, t := range taken {
		if t.Asks[0].N != m.demands[i].N {
			return false
		}
	}
	return true
}

// learn keeps the cache of denials right. What stood in the way only as a sum says nothing
// of a single demand.
func (m *multi) learn(taken []driver.Taken, granted bool, sent clock.Instant, epoch uint64) {
	denied := &m.c.denied
	for _, sum := range m.sums() {
		one := taken[sum.of[0]]
		switch {
		case granted:
			denied.drop(sum.Key)
		case len(sum.of) == 1 && sum.N > 0 && one.Asks[0].RetryAfter > 0:
			t := driver.TakenOne{Granted: one.Asks[0], Remaining: one.Remaining, ResetAfter: one.ResetAfter}
			denied.remember(&sum.Demand, driver.Ask{Min: sum.N, N: sum.N}, &t, sent, epoch)
		}
	}
}

// takeInTurn takes one limit after the other: windows first, which give back all, and the
// tightest first, for that is the one that denies most often. On a denial, or an error, what
// was taken is given back.
func (m *multi) takeInTurn(ctx context.Context) error {
	c := m.c
	sums := m.sums()
	slices.SortStableFunc(sums, func(a, b summed) int {
		return cmp.Or(cmp.Compare(a.keeps(), b.keeps()), cmp.Compare(a.room(), b.room()))
	})
	if err := m.shortFirst(ctx, sums); err != nil {
		return err
	}
	for i := range sums {
		sum := &sums[i]
		sum.id = c.newID()
		var t driver.TakenOne
		_, err := c.askStore(ctx, nil, &sum.Demand, driver.Ask{ID: sum.id, Min: sum.N, N: sum.N}, &t)
		if err == nil && t.N == sum.N {
			m.grant(sum, &t)
			continue
		}
		m.giveBack(ctx, sums[:i])
		if err != nil {
			return err
		}
		m.unseen()
		for _, at := range sum.of {
			m.results[at] = Result{Remaining: t.Remaining, RetryAfter: t.RetryAfter, ResetAfter: t.ResetAfter}
		}
		return nil
	}
	return nil
}

// shortFirst looks at token buckets before one of several is taken, and puts one that has too little
// before all other limits. Buckets give nothing back: without that, users over a limit of their
// own would use up the one that they share.
func (m *multi) shortFirst(ctx context.Context, sums []summed) error {
	first := slices.IndexFunc(sums, func(s summed) bool { return s.keeps() == 1 })
	if first < 0 || first == len(sums)-1 {
		return nil
	}
	for i := first; i < len(sums); i++ {
		var t driver.TakenOne
		if _, err := m.c.askStore(ctx, nil, &sums[i].Demand, driver.Ask{}, &t); err != nil {
			return err
		}
		if short := sums[i]; t.Remaining < short.N {
			copy(sums[1:], sums[:i])
			sums[0] = short
			return nil
		}
	}
	return nil
}

// keeps is 1 for a token bucket, which keeps what was taken, and 0 for a window.
func (s *summed) keeps() int {
	if s.Limit.Algorithm == driver.TokenBucket {
		return 1
	}
	return 0
}

// room is how many such demands the limit admits in an hour, and at once: the less, the
// tighter.
func (s *summed) room() float64 {
	if s.N == 0 {
		return float64(s.Limit.Max())
	}
	hourly := float64(s.Limit.Rate) * float64(time.Hour) / float64(s.Limit.Per)
	return min(hourly, float64(s.Limit.Max())) / float64(s.N)
}

func (m *multi) grant(sum *summed, t *driver.TakenOne) {
	for _, at := range sum.of {
		m.results[at] = Result{Allowed: true, Granted: m.demands[at].N, Remaining: t.Remaining, ResetAfter: t.ResetAfter}
	}
}

// giveBack refunds what was taken. What cannot be given back counts as spent.
func (m *multi) giveBack(ctx context.Context, sums []summed) {
	if len(sums) == 0 {
		return
	}
	c := m.c
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTry)
	defer cancel()
	for _, sum := range sums {
		if sum.N == 0 {
			continue
		}
		// The answer is a denial, or an error, whatever comes of it.
		_ = c.limits.refund.Refund(ctx, sum.Key, sum.Limit, sum.id, sum.N)
		c.denied.forget(sum.Key)
	}
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
