package redis

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
)

// gate lets the calls of many goroutines to one server travel together. While few flights
// are under way, a call flies at once and by itself, as if there were no gate. Calls that
// come while enough are under way wait, and leave together, in one pipeline, as soon as
// one of those has landed: nothing waits for company, and there is no timer in the way.
//
// go-redis can put calls together on its own, but not so that a caller whose ctx ends is
// told whether its call was sent, that a server which hangs holds up nobody else, and
// that no goroutine is left behind.
type gate struct {
	b        *backend
	client   *redis.Client
	patience time.Duration // the constant, but in tests

	mu    sync.Mutex
	queue []*passenger // in the order in which they came
	// out is how many flights are under way that began in this age. When nobody has been
	// let through for patience, all that are under way are taken to hang, and are not
	// counted any more: a new age begins.
	out, age int
	timer    *time.Timer // runs when somebody waits
	watched  bool        // it runs
	moved    bool        // somebody was let through since it was set
}

// gates are those to the servers of a backend.
type gates struct {
	one atomic.Pointer[gate] // the last that was used
	mu  sync.Mutex
	all map[*redis.Client]*gate
}

// of is the gate to the server that c talks to.
func (s *gates) of(b *backend, c *redis.Client) *gate {
	if g := s.one.Load(); g != nil && g.client == c {
		return g
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.all[c]
	if g == nil {
		// Servers may have left the cluster. A gate that is still used is as good as a new one,
		// except that fewer share it.
		maps.DeleteFunc(s.all, func(_ *redis.Client, old *gate) bool { return old.idle() })
		if s.all == nil {
			s.all = map[*redis.Client]*gate{}
		}
		g = &gate{b: b, client: c, patience: patience}
		s.all[c] = g
	}
	s.one.Store(g)
	return g
}

func (g *gate) idle() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.out == 0 && len(g.queue) == 0
}

const (
	// flightsAtMost is from how many flights on calls wait for the next to land. With
	// fewer, a few goroutines would wait for each other where a round trip takes long;
	// with more, many would not share enough of them.
	flightsAtMost = 4
	// passengersAtMost is how many calls fly together.
	passengersAtMost = 128
	// patience is how long the queue may stand still before another flight takes it.
	patience = 2 * time.Millisecond
)

// passenger is a call at the gate.
type passenger struct {
	ctx    context.Context
	cmd    redis.Cmder
	result chan error // has room for the one that it gets
}

// process runs cmd, by itself or together with others.
func (g *gate) process(ctx context.Context, cmd redis.Cmder) error {
	g.mu.Lock()
	if g.out < flightsAtMost && len(g.queue) == 0 {
		g.out++
		age := g.age
		g.mu.Unlock()
		defer g.landed(age)
		_, err := g.b.fly(ctx, g.client, cmd)
		return err
	}
	p := g.b.spare.passenger()
	p.ctx, p.cmd = ctx, cmd
	g.queue = append(g.queue, p)
	g.watch()
	g.mu.Unlock()
	if bound, ok := ctx.(*driver.Bound); ok {
		return g.awaitBound(bound, p)
	}
	return g.await(p, ctx.Done(), nil)
}

// awaitBound is await without the Done of a Bound, which takes a timer of its own.
func (g *gate) awaitBound(bound *driver.Bound, p *passenger) error {
	deadline, _ := bound.Deadline()
	timer := g.b.spare.timer(time.Until(deadline))
	defer g.b.spare.stop(timer)
	return g.await(p, nil, timer.C)
}

// await returns the result of p's call, or what has ended the wait for it: if the call was still
// in the queue, it is not sent any more.
func (g *gate) await(p *passenger, cancelled <-chan struct{}, late <-chan time.Time) error {
	cause := context.DeadlineExceeded
	select {
	case err := <-p.result:
		p.ctx, p.cmd = nil, nil
		g.b.spare.passengers.Put(p)
		return err
	case <-late:
	case <-cancelled:
		cause = p.ctx.Err()
	case <-g.b.closing:
		if g.withdraw(p) {
			return driver.ErrClosed
		}
		return errClosing
	}
	if g.withdraw(p) {
		return fmt.Errorf("%w: %w", driver.ErrNotSent, cause)
	}
	return cause
}

// withdraw takes p out of the queue, if it is still there.
func (g *gate) withdraw(p *passenger) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.queue, p)
	if i < 0 {
		return false
	}
	g.queue = slices.Delete(g.queue, i, i+1)
	return true
}

// landed ends a flight of one. Those who have waited for that fly in a goroutine of their own,
// which is there for as long as anybody waits.
func (g *gate) landed(age int) {
	if batch, age := g.next(age, nil); batch != nil {
		go g.pilot(batch, age)
	}
}

// next ends a flight that began in age, and begins one with those who wait, if there are any.
// What batch is made of is used again.
func (g *gate) next(age int, batch []*passenger) (_ []*passenger, now int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if age == g.age {
		g.out--
	}
	if len(g.queue) == 0 || g.out >= flightsAtMost || g.b.closed() {
		return nil, 0
	}
	return g.board(batch), g.age
}

// board begins a flight with those who wait. mu is held.
func (g *gate) board(batch []*passenger) []*passenger {
	n := min(len(g.queue), passengersAtMost)
	batch = append(batch[:0], g.queue[:n]...)
	g.queue = slices.Delete(g.queue, 0, n)
	g.out++
	g.moved = true
	return batch
}

// watch sets the timer, unless it runs. mu is held.
func (g *gate) watch() {
	if g.watched {
		return
	}
	g.watched, g.moved = true, false
	if g.timer == nil {
		g.timer = time.AfterFunc(g.patience, g.look)
	} else {
		g.timer.Reset(g.patience)
	}
}

// look lets those who wait fly if nobody has been let through since the timer was set.
func (g *gate) look() {
	g.mu.Lock()
	g.watched = false
	if len(g.queue) == 0 || g.b.closed() {
		g.mu.Unlock()
		return
	}
	if g.moved {
		g.watch()
		g.mu.Unlock()
		return
	}
	g.age, g.out = g.age+1, 0
	batch, age := g.board(nil), g.age
	g.watch()
	g.mu.Unlock()
	g.pilot(batch, age)
}

// pilot flies with batch, and then with those who wait when it has landed, until nobody does.
func (g *gate) pilot(batch []*passenger, age int) {
	for batch != nil {
		g.carry(batch)
		clear(batch)
		// Those who have just been let go may want to fly again.
		runtime.Gosched()
		batch, age = g.next(age, batch)
	}
}

// carry runs the calls of batch in one round trip and gives each its result. A call that it has
// given its result may be used again: it is not touched any more.
func (g *gate) carry(batch []*passenger) {
	if len(batch) == 1 {
		p := batch[0]
		ctx := p.ctx
		if bound, ok := ctx.(*driver.Bound); ok {
			ctx = quiet{bound}
		}
		p.result <- g.client.Process(ctx, p.cmd)
		return
	}
	ctx, pipe := newShared(batch), g.client.Pipeline()
	for _, p := range batch {
		_ = pipe.Process(ctx, p.cmd) // is put on a list
	}
	_, _ = pipe.Exec(ctx) // each command has its error
	for _, p := range batch {
		p.result <- p.cmd.Err()
	}
}

// shared is the context of calls that fly together: it ends with the last of them.
type shared struct {
	context.Context // the background
	deadline        time.Time
}

func newShared(batch []*passenger) *shared {
	g := &shared{Context: context.Background()}
	for _, p := range batch {
		deadline, ok := p.ctx.Deadline()
		if !ok {
			g.deadline = time.Time{}
			break
		}
		if deadline.After(g.deadline) {
			g.deadline = deadline
		}
	}
	return g
}

func (g *shared) Deadline() (time.Time, bool) { return g.deadline, !g.deadline.IsZero() }
