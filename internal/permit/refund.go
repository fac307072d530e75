package permit

import (
	"context"
	"sync"
	"time"
)

const (
	// refundTry bounds one call that gives permits back.
	refundTry = 500 * time.Millisecond
	// minPause is the first pause between such calls; each next one is twice as long.
	minPause = 10 * time.Millisecond
)

// refundBound is how long a client tries to give permits back that nobody waits for any more.
const refundBound = 2 * time.Second

// refunds gives permits back in the background: nobody waits for the store only to give back.
type refunds struct {
	cfg     *Config
	denied  *denials
	mu      sync.Mutex // guards closed, and running against an Add after it
	closed  bool
	running sync.WaitGroup
}

// start gives back what the request id was granted, if it was, and calls then. over is closed after that. The ask itself
// must have come to its end, or may yet be granted.
func (r *refunds) start(k limitKey, id string, n int, then func()) (over <-chan struct{}) {
	return r.run(func(ctx context.Context) {
		defer then()
		if r.cfg.Store.Refunds {
			r.keepTrying(ctx, k, id, n)
		}
	})
}

// run runs fn in the background, for refundBound. over is closed when it returns. After close its time is over at once.
func (r *refunds) run(fn func(context.Context)) (over <-chan struct{}) {
	done := make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), refundBound)
	left := cancel
	if r.closed {
		cancel()
	} else {
		r.running.Add(1)
		left = func() { cancel(); r.running.Done() }
	}
	go func() {
		defer left()
		defer close(done)
		fn(ctx)
	}()
	return done
}

// keepTrying gives back, and tries again until ctx ends. What it does not give back counts as spent.
func (r *refunds) keepTrying(ctx context.Context, k limitKey, id string, n int) (done bool) {
	for pause := minPause; ctx.Err() == nil; pause *= 2 {
		if r.try(ctx, k, id, n) == nil {
			return true
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
	return false
}

// try gives back once.
func (r *refunds) try(ctx context.Context, k limitKey, id string, n int) error {
	defer r.denied.forget(k.key)
	ctx, cancel := context.WithTimeout(ctx, refundTry)
	defer cancel()
	return r.cfg.Store.Refund(ctx, k.key, k.limit, id, n)
}

// close waits until what is under way is given back, as far as ctx allows.
func (r *refunds) close(ctx context.Context) {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	awaitAll(ctx, &r.running)
}

// awaitAll waits for wg until ctx ends.
func awaitAll(ctx context.Context, wg *sync.WaitGroup) {
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
