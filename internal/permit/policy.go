package permit

import (
	"fmt"
	"time"

	"github.com/coordgo/coord/driver"
)

// Rule says how permits are taken in advance, with the fields of coord.PermitLease.
type Rule struct {
	Max     int
	For     time.Duration
	Lessees int
}

const (
	defaultMax     = 1000
	defaultFor     = 100 * time.Millisecond
	defaultLessees = 4
	minFor         = time.Millisecond
	maxFor         = 10 * time.Second
	maxLessees     = 1_000_000
)

// normal fills in the defaults and checks the ranges.
func (r Rule) normal() (Rule, error) {
	switch {
	case r.Max < 0 || r.Max > driver.MaxRate:
		return r, fmt.Errorf("%w: permit lease of at most %d: want 1 to %d, or 0 for %d", driver.ErrInvalid, r.Max, driver.MaxRate, defaultMax)
	case r.For != 0 && (r.For < minFor || r.For > maxFor):
		return r, fmt.Errorf("%w: permit lease for %v: want %v to %v, or 0 for %v", driver.ErrInvalid, r.For, minFor, maxFor, defaultFor)
	case r.Lessees < 0 || r.Lessees > maxLessees:
		return r, fmt.Errorf("%w: permit lease among %d clients: want 1 to %d, or 0 for %d", driver.ErrInvalid, r.Lessees, maxLessees, defaultLessees)
	}
	if r.Max == 0 {
		r.Max = defaultMax
	}
	if r.For == 0 {
		r.For = defaultFor
	}
	if r.Lessees == 0 {
		r.Lessees = defaultLessees
	}
	return r, nil
}

// Policy says which limits are prefetched. It is not changed once it is in use.
type Policy struct {
	rest Rule // of limits that are not named; Max 0: none
	of   map[driver.Limit]Rule
}

// With is the policy with one more rule, as a new one. A nil policy has none.
func (p *Policy) With(rule Rule, of []driver.Limit) (*Policy, error) {
	rule, err := rule.normal()
	if err != nil {
		return nil, err
	}
	next := &Policy{of: make(map[driver.Limit]Rule)}
	if p != nil {
		next.rest = p.rest
		for l, was := range p.of {
			next.of[l] = was
		}
	}
	if len(of) == 0 {
		next.rest = rule
	}
	for _, l := range of {
		normal, err := l.Normal()
		if err != nil {
			return nil, err
		}
		next.of[normal] = rule
	}
	return next, nil
}

// shortest is the least For of all limits.
func (p *Policy) shortest() time.Duration {
	least := p.rest.For
	for _, r := range p.of {
		if least == 0 || r.For < least {
			least = r.For
		}
	}
	return least
}

// forget drops what is said of limits that are not prefetched, where none is unless it is
// named: a client that changes its limits again and again does not remember them all. The
// policy is not in use yet.
func (p *Policy) forget(limits []driver.Limit) {
	for _, l := range limits {
		if normal, err := l.Normal(); err == nil && p.rest.Max <= 1 && p.of[normal].Max <= 1 {
			delete(p.of, normal)
		}
	}
}

// rule says how limit is prefetched; Max is at most 1 if it is not.
func (p *Policy) rule(limit *driver.Limit) Rule {
	if len(p.of) > 0 {
		if l, ok := p.of[*limit]; ok {
			return l
		}
	}
	return p.rest
}
