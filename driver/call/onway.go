package call

import (
	"context"
	"slices"
	"sync"

	"github.com/coordgo/coord/driver"
)

// OnWay has requests by what they may change, until they are over, also those whose callers have left. Whoever is to undo
// what they do waits for them: one that arrived later would leave a lock, or a place in a queue, that nobody gives back. Its
// zero value has none. It is safe for concurrent use.
type OnWay[K comparable] struct {
	mu sync.Mutex
	by map[K][]chan struct{} // each closed when the request is over
}

// Begin notes a request, until end is called, once.
func (o *OnWay[K]) Begin(name K) (end func()) {
	over := make(chan struct{})
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.by == nil {
		o.by = make(map[K][]chan struct{})
	}
	o.by[name] = append(o.by[name], over)
	return func() {
		close(over)
		o.mu.Lock()
		defer o.mu.Unlock()
		o.by[name] = slices.DeleteFunc(o.by[name], func(ch chan struct{}) bool { return ch == over })
		if len(o.by[name]) == 0 {
			delete(o.by, name)
		}
	}
}

// Await returns when the requests that are under way now are over, or with the error of a call that was not sent because ctx
// ended.
func (o *OnWay[K]) Await(ctx context.Context, name K) error {
	o.mu.Lock()
	now := slices.Clone(o.by[name])
	o.mu.Unlock()
	for _, over := range now {
		select {
		case <-over:
		case <-ctx.Done():
			return driver.NotSent(ctx.Err())
		}
	}
	return nil
}
