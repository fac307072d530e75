package middleware

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/rules"
)

// DefaultTimeout is the longest that a request waits for the store of its limits. A store that serves answers in
// milliseconds, and takes about a second where a server of it fails over.
const DefaultTimeout = time.Second

// Rules decide on requests.
type Rules interface {
	Allow(ctx context.Context, limiter rules.Limiter, r *rules.Request) (rules.Decision, error)
}

// Breaker is a circuit breaker between Rules and the store of a Limiter. It bounds what a store that does not answer
// costs: a request waits for Timeout at most, and if one has waited that long while nobody was answered, the circuit
// is open. Then one request at a time asks the store, and the others are decided at once, as the client's failure
// policy decided the one before. The first answer closes the circuit. A Breaker is safe for concurrent use.
type Breaker struct {
	Rules   Rules
	Limiter rules.Limiter
	// Timeout 0 is DefaultTimeout; a negative one is no bound, and no circuit breaker.
	Timeout time.Duration

	answers atomic.Int64           // requests that the store has decided
	outage  atomic.Pointer[outage] // nil: the circuit is closed
	probing atomic.Bool            // a request asks while the circuit is open
	open    atomic.Bool            // the client's failure policy admitted when it decided last; those of rules may differ
	shadows shadows
}

func (b *Breaker) timeout() time.Duration { return cmp.Or(b.Timeout, DefaultTimeout) }

// Allow takes what r counts against.
func (b *Breaker) Allow(ctx context.Context, r *rules.Request) (rules.Decision, error) {
	timeout := b.timeout()
	if timeout < 0 {
		return b.Rules.Allow(ctx, b.Limiter, r)
	}
	if o := b.outage.Load(); o != nil {
		if !b.probing.CompareAndSwap(false, true) {
			return b.Rules.Allow(ctx, o, r)
		}
		defer b.probing.Store(false)
	}
	answers, began := b.answers.Load(), time.Now()
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	d, err := b.Rules.Allow(within, (*asked)(b), r)
	why := cmp.Or(err, d.Degraded())
	switch {
	case why == nil && len(d.Bounds) > 0:
		b.answers.Add(1)
		if b.outage.Load() != nil {
			b.outage.Store(nil)
		}
	// Half of it, because a client's own bound, as that of a connection, may end before.
	case errors.Is(why, coord.ErrUnavailable) && time.Since(began) >= timeout/2 && b.answers.Load() == answers:
		b.outage.Store(&outage{Limiter: b.Limiter, why: keyless(why), open: b.open.Load()})
	}
	return d, err
}

// outage decides without the store, as the failure policy did.
type outage struct {
	rules.Limiter
	why  error // why the store did not decide
	open bool  // the policy admits
}

// AllowN admits, or says that the store is unavailable.
func (o *outage) AllowN(ctx context.Context, key string, limit coord.Limit, n int) (coord.Result, error) {
	if l, err := limit.Normal(); err != nil || n > l.Max() {
		return o.Limiter.AllowN(ctx, key, limit, n) // refused without the store
	}
	if !o.open {
		return coord.Result{}, o.why
	}
	return coord.Result{Allowed: true, Granted: n, Degraded: o.why}, nil
}

// AllowAll does so for several limits.
func (o *outage) AllowAll(ctx context.Context, demands ...coord.Demand) ([]coord.Result, error) {
	results := make([]coord.Result, len(demands))
	for i, d := range demands {
		var err error
		if results[i], err = o.AllowN(ctx, d.Key, d.Limit, d.N); err != nil {
			return nil, err
		}
	}
	return results, nil
}
