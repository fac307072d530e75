package postgres

import (
	"context"
	"fmt"
	"sync"

	"github.com/coordgo/coord/driver"
)

// onWay counts the requests of each id that may take something and have not returned, also those whose callers have gone. An
// Unlock waits for them: one that arrived after it would leave a lock, or a place in the queue, that nobody gives back.
type onWay struct {
	mu sync.Mutex
	by map[string]*requests
}

// requests are those of one id.
type requests struct {
	count int
	over  chan struct{} // closed when the last has returned
}

// begin counts a request, until end is called.
func (o *onWay) begin(id string) (end func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.by == nil {
		o.by = make(map[string]*requests)
	}
	r := o.by[id]
	if r == nil {
		r = &requests{over: make(chan struct{})}
		o.by[id] = r
	}
	r.count++
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if r.count--; r.count == 0 {
			close(r.over)
			delete(o.by, id)
		}
	}
}

// wait returns when no request of id is on its way, or with the error of a call that was not sent because ctx ended.
func (o *onWay) wait(ctx context.Context, id string) error {
	o.mu.Lock()
	r := o.by[id]
	o.mu.Unlock()
	if r == nil {
		return nil
	}
	select {
	case <-r.over:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", driver.ErrNotSent, driver.ContextError(ctx))
	}
}
