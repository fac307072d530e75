package coord

import (
	"time"

	"github.com/coordgo/coord/internal/permit"
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
// A request for more than a lease has left goes to the store whole, and leaves the lease as it
// is. While the store is unavailable a client spends what it has taken, and then
// follows its failure policy. AllowAll and Reserve take nothing from leases. On a store
// in this process, which is quicker than a lease, the option does nothing.
func WithPermitLease(lease PermitLease, of ...Limit) Option {
	return func(o *settings) (err error) {
		o.leases, err = o.leases.With(permit.Rule(lease), of)
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
	if err := c.permits.Prefetch(permit.Rule(lease), of); err != nil {
		return c.fail("leasepermits", "", err)
	}
	return nil
}
