package memcached

import (
	"context"
	"runtime"
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

// ask gets a its answer, or the end of ctx, or of the backend. Who finds no line asks at once and by
// itself; a goroutine serves those who have come behind it meanwhile.
func (b *backend) ask(ctx context.Context, n limitName, a *ask) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	a.done = make(chan error, 1)
	first := b.lines.join(n.storeKey(), a)
	switch {
	case first && b.lanes != nil:
		return b.askAlone(ctx, n, a)
	case first:
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
		return notSent(why)
	}
	return why // permits that it may have taken count as spent
}

// askAlone carries a, which has begun the line, and hands the line on.
func (b *backend) askAlone(ctx context.Context, n limitName, a *ask) error {
	b.lines.board(n.storeKey())
	_, err := ride(ctx, b, b.lanes.to(n.name), func(c *call) (struct{}, error) {
		c.carry(n, []*ask{a})
		return struct{}{}, <-a.done
	})
	if !b.lines.over(n.storeKey()) {
		go b.serve(n)
	}
	return err
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

// board takes the first out of its line.
func (l *lines) board(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.m[key]
	q.queue = q.queue[1:]
}

// over ends the line if nobody is in it.
func (l *lines) over(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.m[key].queue) > 0 {
		return false
	}
	delete(l.m, key)
	return true
}

// serve serves a line until nobody is in it.
func (b *backend) serve(n limitName) {
	for {
		// Those who were answered just now and want more are to come along: without this, they
		// would sit out every other batch.
		runtime.Gosched()
		batch := b.lines.next(n.storeKey())
		if batch == nil {
			return
		}
		if batch = present(batch); len(batch) > 0 {
			b.carry(n, batch)
		}
	}
}

// boarding drops those whose callers have gone before anything was sent for them.
func boarding(batch []*ask) []*ask {
	here := batch[:0]
	for _, a := range batch {
		if a.state.CompareAndSwap(queued, boarded) {
			here = append(here, a)
		}
	}
	return here
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

// carry gets a batch its answers, over a lane or the application's client.
func (b *backend) carry(n limitName, batch []*ask) {
	if b.lanes == nil {
		(&call{b: b, client: b.client}).carry(n, batch)
		return
	}
	_, err := ride(context.Background(), b, b.lanes.to(n.name), func(c *call) (struct{}, error) {
		c.carry(n, batch)
		return struct{}{}, nil
	})
	if err != nil { // no lane
		answerAll(batch, err)
	}
}
