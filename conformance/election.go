package conformance

import (
	"context"
	"iter"

	"github.com/coordgo/coord"
)

// election is what the cases about leaders are about. The suite's own tests put broken ones in its place.
type election struct {
	lead  func(ctx context.Context, l coord.Locker, key string, fn func(context.Context) error, opts ...coord.LockOption) error
	watch func(ctx context.Context, c *coord.Client, key string) iter.Seq2[coord.Holder, error]
}

func (e *env) lead(ctx context.Context, l coord.Locker, key string, fn func(context.Context) error, opts ...coord.LockOption) error {
	if f := e.r.suite.Harness.election.lead; f != nil {
		return f(ctx, l, key, fn, opts...)
	}
	return coord.Lead(ctx, l, key, fn, opts...)
}

// campaign is a Lead under way. Its function works until its context ends, and for as long as it is told to
// linger.
type campaign struct {
	terms  chan *coord.Lock // each, as it begins
	causes chan error       // why the context of each ended
	linger chan struct{}    // once it is closed, functions return
	result <-chan error
	stop   context.CancelFunc
}

// campaign starts a Lead whose function returns when its context ends.
func (e *env) campaign(c *coord.Client, key string, opts ...coord.LockOption) *campaign {
	p := e.lingering(c, key, opts...)
	p.let()
	return p
}

// lingering starts a Lead whose function lingers. It is over before the case is.
func (e *env) lingering(c *coord.Client, key string, opts ...coord.LockOption) *campaign {
	ctx, stop := context.WithCancel(e.ctx)
	p := &campaign{terms: make(chan *coord.Lock, 100), causes: make(chan error, 100), linger: make(chan struct{}), stop: stop}
	over := make(chan struct{})
	result := make(chan error, 1)
	p.result = result
	go func() {
		defer close(over)
		result <- e.lead(ctx, c, key, func(ctx context.Context) error {
			lock, ok := coord.Held(ctx, key)
			if !ok {
				e.Errorf("Held in the function of Lead: saw no lock, want the term's")
				return nil
			}
			p.terms <- lock
			<-ctx.Done()
			p.causes <- context.Cause(ctx)
			<-p.linger
			return ctx.Err()
		}, opts...)
	}()
	e.Cleanup(func() {
		stop()
		p.let()
		<-over
	})
	return p
}

// end ends it, and gives what Lead returned.
func (p *campaign) end(e *env) error {
	p.stop()
	p.let()
	return recv(e, p.result, soon, "Lead, after the end of its context")
}

// let lets the functions return.
func (p *campaign) let() {
	select {
	case <-p.linger:
	default:
		close(p.linger)
	}
}

// requests is how often the core asked the store for a lock.
func requests(in *Injector) int { return in.count("TryLock") + in.count("Lock") }
