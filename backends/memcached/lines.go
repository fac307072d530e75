package memcached

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
)

// A line is those callers of this client who want something of one limit. One batch of them is
// under way at a time; who comes meanwhile goes with the next. So callers of one client never
// swap against each other, and many share two commands.

// maxBatch bounds how many share one swap.
const maxBatch = 256

// lines are the limits that have callers now.
type lines struct {
	mu sync.Mutex
	m  map[string]*line
}

type line struct {
	queue []*ask
}

// ask is what one caller wants.
type ask struct {
	ctx context.Context
	// apply evaluates it. It may be called several times, the last call counts; it writes only to
	// what the caller reads after a nil error. dirty: the state has changed.
	apply func(s *limits.State, now int64) (dirty bool)
	// peek: apply never changes anything.
	peek  bool
	done  chan error // of one
	state atomic.Int32
}

// The states of an ask. Before it is boarded nothing was sent for it.
const (
	queued int32 = iota
	boarded
	left // its caller has gone
)

// limitName names the state of one limit.
type limitName struct {
	name
	kind  string // limits.Name
	limit driver.Limit
}

func (n limitName) storeKey() string { return n.key(n.kind) }

// ask queues a and waits for its answer, the end of ctx, or of the backend.
func (b *backend) ask(ctx context.Context, n limitName, a *ask) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	a.ctx, a.done = ctx, make(chan error, 1)
	if b.lines.join(n.storeKey(), a) {
		go b.serve(n)
	}
	var why error
	select {
	case err := <-a.done:
		return err
	case <-ctx.Done():
		why = ended(ctx)
	case <-b.closing:
		why = errClosing
	}
	if a.state.Swap(left) == queued {
		return fmt.Errorf("%w: %w", driver.ErrNotSent, why)
	}
	return why // permits that it may have taken count as spent
}

// join puts a at the end of the line, and reports whether it began one, which the caller then
// has to serve.
func (l *lines) join(key string, a *ask) (first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q, ok := l.m[key]; ok {
		q.queue = append(q.queue, a)
		return false
	}
	if l.m == nil {
		l.m = make(map[string]*line)
	}
	l.m[key] = &line{queue: []*ask{a}}
	return true
}

// next gives the next batch, and ends the line when there is none.
func (l *lines) next(key string) []*ask {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.m[key]
	n := min(len(q.queue), maxBatch)
	if n == 0 {
		delete(l.m, key)
		return nil
	}
	batch := q.queue[:n:n]
	q.queue = q.queue[n:]
	return batch
}

// serve serves a line until nobody is in it.
func (b *backend) serve(n limitName) {
	defer b.land()
	for {
		batch := b.lines.next(n.storeKey())
		if batch == nil {
			return
		}
		boarding := batch[:0]
		for _, a := range batch {
			if a.state.CompareAndSwap(queued, boarded) {
				boarding = append(boarding, a)
			}
		}
		b.carry(n, boarding)
	}
}

// present drops those whose callers have gone.
func present(batch []*ask) []*ask {
	here := batch[:0]
	for _, a := range batch {
		if a.state.Load() != left {
			here = append(here, a)
		}
	}
	return here
}

func answerAll(batch []*ask, err error) {
	for _, a := range batch {
		a.done <- err
	}
}
