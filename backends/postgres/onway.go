package postgres

import (
	"context"
	"slices"
	"sync"

	"github.com/coordgo/coord/driver"
)

// onWay has the requests of each name that may change something and have not returned, also those whose callers have gone.
// Whoever is to undo what they do waits for them: one that arrived later would leave a lock, a place in the queue, or a
// permit that nobody gives back.
type onWay struct {
	mu sync.Mutex
	by map[string][]chan struct{} // each closed when the request has returned
}

// begin notes a request, until end is called.
func (o *onWay) begin(name string) (end func()) {
	over := make(chan struct{})
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.by == nil {
		o.by = make(map[string][]chan struct{})
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

// wait returns when the requests that are on their way now have returned, or with the error of a call that was not sent
// because ctx ended.
func (o *onWay) wait(ctx context.Context, name string) error {
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
