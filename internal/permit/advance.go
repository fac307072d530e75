package permit

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/driver"
)

// advance has the table in use of permits that were taken in advance. Without one nothing is.
type advance struct{ atomic.Pointer[table] }

// of is what is prefetched for a demand; nil if its limit is not.
func (a *advance) of(d *driver.Demand) *prefetched {
	b := a.Load()
	if b == nil || d.N == 0 {
		return nil
	}
	return b.of(d)
}

// spender is what is prefetched of k, for requests that wait; nil if nothing is.
func (a *advance) spender(k *limitKey) spender {
	b := a.Load()
	if b == nil {
		return nil
	}
	if p := b.find(k.key, &k.limit); p != nil {
		return p
	}
	return nil // and not a spender that is a nil *prefetched
}

// addTo adds to what the store told of itself what this client has of it in advance.
func (a *advance) addTo(d *driver.Demand, r *Result) {
	b := a.Load()
	if b == nil {
		return
	}
	if p := b.find(d.Key, &d.Limit); p != nil {
		if n := p.left(); n > 0 {
			r.Remaining += n
			r.Allowed, r.RetryAfter = true, 0
		}
	}
}

// closeBound is how long a table that was replaced gives permits back.
const closeBound = 2 * time.Second

// Prefetch takes permits in advance as rule says, from now on: of the limits named, or of those
// that no rule names. What was taken in advance until now is given back.
func (p *Pool) Prefetch(rule Rule, of []driver.Limit) error {
	old, err := p.replaceTable(rule, of)
	if err != nil || old == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeBound)
	defer cancel()
	old.close(ctx)
	return nil
}

// replaceTable makes a new table the one in use, and gives the one before.
func (p *Pool) replaceTable(rule Rule, of []driver.Limit) (old *table, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var policy *Policy
	if old = p.prefetch.Load(); old != nil {
		policy = old.policy
	}
	if policy, err = policy.With(rule, of); err != nil {
		return nil, err
	}
	policy.forget(of)
	switch {
	case p.closed: // Stop has locked mu since, or will, and GiveBack then finds the table
		return nil, driver.ErrClosed
	case !p.local: // a store in this process is quicker
		p.prefetch.Store(newTable(p.source, policy))
	}
	return old, nil
}
