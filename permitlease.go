package coord

import (
	"fmt"
	"time"

	"github.com/coordgo/coord/driver"
)

// PermitLease says how permits are taken in advance, for a limit that is asked more
// often than the store can answer. One call takes a batch of permits, debited before any
// is spent, and this Client's goroutines then spend them without the store. The zero
// value of each field is a default.
type PermitLease struct {
	// Max is the most permits of one lease; 0 means 1000. 1 takes none in advance. A
	// lease is as large as what is spent while it lasts, by the rate of late. After a
	// denial none is taken for a period, nor of a window where one would be small.
	Max int
	// For is the longest that a leased permit may wait to be spent, from 1ms to 10s; 0
	// means 100ms. Permits of a window end with the sub-window, or the window, in
	// which they were taken, if that is sooner.
	For time.Duration
	// Lessees is how many clients lease the same limit, roughly; 0 means 4. One
	// lease takes at most 1/(2·Lessees) of what the store has left. A wrong
	// figure costs fairness between clients near the limit, never the bound.
	Lessees int
}

const (
	defaultLeaseMax     = 1000
	defaultLeaseFor     = 100 * time.Millisecond
	defaultLeaseLessees = 4
	minLeaseFor         = time.Millisecond
	maxLeaseFor         = 10 * time.Second
	maxLessees          = 1_000_000
)

// normal fills in the defaults and checks the ranges.
func (p PermitLease) normal() (PermitLease, error) {
	switch {
	case p.Max < 0 || p.Max > driver.MaxRate:
		return p, fmt.Errorf("%w: permit lease of at most %d: want 1 to %d, or 0 for %d", ErrInvalid, p.Max, driver.MaxRate, defaultLeaseMax)
	case p.For != 0 && (p.For < minLeaseFor || p.For > maxLeaseFor):
		return p, fmt.Errorf("%w: permit lease for %v: want %v to %v, or 0 for %v", ErrInvalid, p.For, minLeaseFor, maxLeaseFor, defaultLeaseFor)
	case p.Lessees < 0 || p.Lessees > maxLessees:
		return p, fmt.Errorf("%w: permit lease among %d clients: want 1 to %d, or 0 for %d", ErrInvalid, p.Lessees, maxLessees, defaultLeaseLessees)
	}
	if p.Max == 0 {
		p.Max = defaultLeaseMax
	}
	if p.For == 0 {
		p.For = defaultLeaseFor
	}
	if p.Lessees == 0 {
		p.Lessees = defaultLeaseLessees
	}
	return p, nil
}

// WithPermitLease takes permits in advance: of the limits named, or, where none is
// named, of all that no other WithPermitLease names. Without it nothing is taken in
// advance.
//
// It makes a hot key many times as fast, and keeps the bound: of a window exactly, of a
// token bucket to Burst + Rate·(W+For)/Per in any time W. What it costs is exactness in
// the other direction. Permits that were taken and not spent in time are lost, and so
// are those of a process that dies; Close, and a key that nobody asks for a moment, give
// back what the store still takes. Another client's Reset does not reach
// what was taken before it.
//
// An answer from a lease counts from when the lease was taken: Remaining and
// ResetAfter are as the store told them then, less what this client has spent since.
// An ask for more than a lease has left goes to the store whole, and leaves the lease as it
// is. While the store is unavailable a client spends what it has taken, and then
// follows its failure policy. AllowAll and Reserve take nothing from leases. On a store
// in this process, which is quicker than a lease, the option does nothing.
func WithPermitLease(lease PermitLease, of ...Limit) Option {
	return func(o *settings) (err error) {
		o.leases, err = o.leases.with(lease, of)
		return err
	}
}

// LeasePermits does what [WithPermitLease] does, from now on, for a Client that is in
// use: a lease of the limits named, or of those that are not named, replaces what was
// said of them. With Max 1 they are leased no more, as if they had never been named, unless
// all limits that are not named are. Permits that were taken in advance until now are given back as far as
// the store takes them.
func (c *Client) LeasePermits(lease PermitLease, of ...Limit) error {
	if c.state.Load() == stateClosed {
		return c.fail("leasepermits", "", ErrClosed)
	}
	if err := c.changeLeases(lease, of); err != nil {
		return c.fail("leasepermits", "", err)
	}
	return nil
}

// leasePolicy says which limits are leased. It is not changed once it is in use.
type leasePolicy struct {
	rest PermitLease // of limits that are not named; Max 0: none
	of   map[driver.Limit]PermitLease
}

// with is the policy with one more rule, as a new one. nil is the policy of no leases.
func (p *leasePolicy) with(lease PermitLease, of []Limit) (*leasePolicy, error) {
	lease, err := lease.normal()
	if err != nil {
		return nil, err
	}
	next := &leasePolicy{of: make(map[driver.Limit]PermitLease)}
	if p != nil {
		next.rest = p.rest
		for l, was := range p.of {
			next.of[l] = was
		}
	}
	if len(of) == 0 {
		next.rest = lease
	}
	for _, l := range of {
		normal, err := l.Normal()
		if err != nil {
			return nil, err
		}
		next.of[normal] = lease
	}
	return next, nil
}

// forget drops what is said of limits that are not leased, where none is unless it is
// named: a client that changes its limits again and again does not remember them all. The
// policy is not in use yet.
func (p *leasePolicy) forget(limits []Limit) {
	for _, l := range limits {
		if normal, err := l.Normal(); err == nil && p.rest.Max <= 1 && p.of[normal].Max <= 1 {
			delete(p.of, normal)
		}
	}
}

// lease says how limit is leased; Max is at most 1 if it is not.
func (p *leasePolicy) lease(limit *driver.Limit) PermitLease {
	if len(p.of) > 0 {
		if l, ok := p.of[*limit]; ok {
			return l
		}
	}
	return p.rest
}
