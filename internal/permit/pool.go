package permit

import (
	"context"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/internal/partition"
	"github.com/coordgo/coord/observe"
)

// MaxAhead is how far ahead permits of a token bucket are taken.
const MaxAhead = 24 * time.Hour

// Store is the part of a store that limits, and what its claims say beyond the minimum.
type Store struct {
	driver.Limiter
	TakesAll bool // it has TakeAll
	Refunds  bool
	Charges  bool
	Parts    partition.Parts
}

// Result is the answer to a request, with the fields of coord.Result.
type Result struct {
	Allowed    bool
	Granted    int
	Remaining  int
	RetryAfter time.Duration
	ResetAfter time.Duration
	Degraded   error
}

// Origin is where an answer is from.
type Origin uint8

// The origins.
const (
	FromStore    Origin = iota
	FromMemory          // a denial that was remembered
	FromPrefetch        // permits taken in advance
)

// Config is what a Pool needs.
type Config struct {
	Store Store
	Info  driver.Info // of the store
	Clock *clock.Clock
	NewID func() string // names a request whose permits may be given back
	// Ended is told of prefetched permits that are over; nil if nobody wants to know.
	Ended func(observe.LeaseEnded)
}

// Pool takes permits for the goroutines of one client. It is safe for concurrent use.
type Pool struct {
	*source
	advance advance
	waits   waitQueues
	ended   chan struct{} // closed by Stop
}

// New makes a pool. policy says what is taken in advance; nil: nothing.
func New(cfg Config, policy *Policy) *Pool {
	p := &Pool{source: newSource(cfg), ended: make(chan struct{})}
	p.advance.init(p.source, policy, p.ended)
	p.waits.init(p.source, &p.advance)
	return p
}

// Local reports whether the store is in this process, so that asking it is quicker than a Pool.
func (p *Pool) Local() bool { return p.local }

// Take takes permits of d as ask says. The answer goes into r, which is zero.
func (p *Pool) Take(ctx context.Context, r *Result, d *driver.Demand, ask driver.Ask) (Origin, error) {
	k := limitKey{d.Key, d.Limit}
	if got, ok := p.advance.spend(k, ask.N, ask.N); ok {
		*r = got
		return FromPrefetch, nil
	}
	from, err := p.takeOrDeny(ctx, r, d, ask)
	switch {
	case err != nil:
	case ask.N == 0:
		p.advance.addTo(k, r)
	case !r.Allowed: // which leaves what is there
		if rest, ok := p.advance.spend(k, ask.Min, ask.N); ok {
			*r, from = rest, FromPrefetch
		}
	}
	return from, err
}

// takeOrDeny answers from the denials in memory, or asks the store.
func (p *Pool) takeOrDeny(ctx context.Context, r *Result, d *driver.Demand, ask driver.Ask) (Origin, error) {
	if p.denied.any.Load() > 0 {
		if known, ok := p.denied.lookup(d, ask); ok {
			*r = known
			return FromMemory, nil
		}
	}
	var t driver.TakenOne
	from, err := p.ask(ctx, d, ask, &t, &p.advance)
	if err != nil {
		return from, err
	}
	r.set(&t, ask.N)
	if from == FromStore && ask.N > 0 {
		p.advance.note(limitKey{d.Key, d.Limit}, t.N, &t)
	}
	return from, nil
}

// Reserve takes permits of a token bucket that are due within ask.MaxDelay.
func (p *Pool) Reserve(ctx context.Context, d *driver.Demand, ask driver.Ask) (t driver.TakenOne, err error) {
	if p.local {
		err = p.takeOne(ctx, d, ask, &t)
	} else {
		_, err = p.calls.take(ctx, d, ask, &t, nil, nil)
	}
	if err == nil && t.N > 0 {
		p.denied.drop(d.Key)
	}
	return t, err
}

// set makes r, which is zero, the answer t to a request for n.
func (r *Result) set(t *driver.TakenOne, n int) {
	r.Allowed, r.Granted, r.Remaining = t.N > 0, t.N, t.Remaining
	r.RetryAfter, r.ResetAfter = t.RetryAfter, t.ResetAfter
	if n == 0 {
		r.Allowed = t.Remaining > 0
	}
}

// Reset forgets what was taken of d, at the store and in advance.
func (p *Pool) Reset(ctx context.Context, d *driver.Demand) error {
	p.advance.reset(d.Key, &d.Limit)
	defer p.advance.reset(d.Key, &d.Limit) // what is taken while the store resets may be forgotten too
	defer p.waits.again(d.Key, &d.Limit)
	defer p.denied.forget(d.Key)
	return p.Store.Reset(ctx, d.Key, d.Limit)
}

// returned makes those who were denied permits of d ask again: some were given back.
func (p *Pool) returned(d *driver.Demand) {
	p.denied.forget(d.Key)
	p.waits.again(d.Key, &d.Limit)
}

// Refund gives back what the request id was granted of d.
func (p *Pool) Refund(ctx context.Context, d *driver.Demand, id string) error {
	if !p.Store.Refunds {
		return driver.ErrUnsupported
	}
	defer p.returned(d)
	return p.Store.Refund(ctx, d.Key, d.Limit, id, d.N)
}

// Charge debits n permits of d whatever is left, or gives -n back. It is sent once: after an error that is not
// definite it may have been made. What was taken in advance was debited before, and stays.
func (p *Pool) Charge(ctx context.Context, d *driver.Demand, n int) (driver.Charged, error) {
	if !p.Store.Charges {
		return driver.Charged{}, driver.ErrUnsupported
	}
	if n < 0 {
		defer p.returned(d)
	} else {
		defer p.denied.drop(d.Key)
	}
	return p.Store.Charge(ctx, d.Key, d.Limit, n)
}

// Stop refuses further requests, and ends the waits of those that are not sent.
func (p *Pool) Stop() {
	close(p.ended)
	p.calls.close()
}

// GiveBack gives back what is reserved for callers that wait, and what was taken in advance, as
// far as ctx allows. It comes after Stop.
func (p *Pool) GiveBack(ctx context.Context) {
	var giving sync.WaitGroup
	giving.Go(func() { p.waits.close(ctx) })
	giving.Go(func() { p.advance.close(ctx) })
	giving.Wait()
	p.refunds.close(ctx)
}

// Wait returns when the pool runs no goroutine any more. A call that is stuck in the store is
// ended by closing the store.
func (p *Pool) Wait() {
	p.running.Wait()
	p.advance.background.Wait()
	p.refunds.running.Wait()
}
