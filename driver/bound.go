package driver

import (
	"context"
	"sync"
	"time"
)

// Bound is a context that ends at its deadline and at nothing else: it carries
// the values of its parent, but is not cancelled with it. The core makes one
// for calls that must be tried whatever has become of the caller, like Unlock.
//
// An adapter may treat it as any other context. One whose client honours
// deadlines, but has to do more to honour a cancellation, can tell by the type
// that there will be none, and save that. Until Done is called, a Bound costs one
// allocation and no timer.
type Bound struct {
	values   context.Context
	deadline time.Time

	mu    sync.Mutex
	done  chan struct{}
	err   error
	timer *time.Timer
}

// NewBound makes a Bound that ends after d. Call Stop when the call is over.
func NewBound(parent context.Context, d time.Duration) *Bound {
	return &Bound{values: parent, deadline: time.Now().Add(d)}
}

// Deadline is when it ends.
func (b *Bound) Deadline() (time.Time, bool) { return b.deadline, true }

// Value is the parent's, but for what would tie it to the parent's end.
func (b *Bound) Value(key any) any { return context.WithoutCancel(b.values).Value(key) }

// Err is context.DeadlineExceeded from the deadline on, context.Canceled after Stop.
func (b *Bound) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil && time.Until(b.deadline) <= 0 {
		b.end(context.DeadlineExceeded)
	}
	return b.err
}

// Done is closed at the deadline.
func (b *Bound) Done() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done == nil {
		b.done = make(chan struct{})
		if b.err != nil {
			close(b.done)
		} else {
			b.timer = time.AfterFunc(time.Until(b.deadline), func() { _ = b.Err() })
		}
	}
	return b.done
}

// Stop ends it and frees its timer.
func (b *Bound) Stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.end(context.Canceled)
	}
}

// end closes Done with err. Bound.mu is held.
func (b *Bound) end(err error) {
	b.err = err
	if b.done != nil {
		close(b.done)
	}
	if b.timer != nil {
		b.timer.Stop()
	}
}
