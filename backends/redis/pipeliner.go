package redis

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
)

// pipeliner sends the requests of many goroutines to one server in pipelines. A request is sent at once and by itself
// while fewer than maxActive calls are under way. Otherwise it is queued. When a call returns, all that are queued are
// sent in one pipeline. So no request waits for others to come, and there is no timer in the way.
//
// go-redis has automatic pipelines too. But a caller whose ctx ends is not told whether its request was sent, a
// server that hangs delays everybody, and goroutines are left behind.
type pipeliner struct {
	b      *backend
	client *redis.Client
	stall  time.Duration // the constant, but in tests

	mu    sync.Mutex
	queue []*queued // in the order in which they came
	// active is how many calls are under way that began in this generation. When nothing was sent for the time stall,
	// all calls under way are taken to hang and are not counted any more: a new generation begins.
	active, generation int
	timer              *time.Timer // runs while requests are queued
	timed              bool        // it runs
	moved              bool        // requests were sent since it was set
}

// pipeliners are those to the servers of a backend.
type pipeliners struct {
	one atomic.Pointer[pipeliner] // the last that was used
	mu  sync.Mutex
	all map[*redis.Client]*pipeliner
}

// of is the pipeliner to the server that c talks to.
func (s *pipeliners) of(b *backend, c *redis.Client) *pipeliner {
	if p := s.one.Load(); p != nil && p.client == c {
		return p
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.all[c]
	if p == nil {
		// Servers may have left the cluster. A pipeliner that is still used is as good as a new one,
		// except that fewer share it.
		maps.DeleteFunc(s.all, func(_ *redis.Client, old *pipeliner) bool { return old.idle() })
		if s.all == nil {
			s.all = map[*redis.Client]*pipeliner{}
		}
		p = &pipeliner{b: b, client: c, stall: stall}
		s.all[c] = p
	}
	s.one.Store(p)
	return p
}

func (p *pipeliner) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.active == 0 && len(p.queue) == 0
}

const (
	// maxActive is how many calls are under way when further requests are queued. With fewer, a few goroutines would
	// wait for each other where a round trip takes long; with more, many would not share enough of them.
	maxActive = 4
	// maxPipelined is how many requests a pipeline has at most.
	maxPipelined = 128
	// stall is how long nothing may be sent from the queue before the calls under way are taken to hang.
	stall = 2 * time.Millisecond
)

// queued is a request in the queue.
type queued struct {
	ctx    context.Context
	cmd    redis.Cmder
	result chan error // has room for the one that it gets
}

// process runs cmd, by itself or together with others.
func (p *pipeliner) process(ctx context.Context, cmd redis.Cmder) error {
	p.mu.Lock()
	if p.active < maxActive && len(p.queue) == 0 {
		p.active++
		generation := p.generation
		p.mu.Unlock()
		defer p.finished(generation)
		_, err := p.b.do(ctx, p.client, cmd)
		return err
	}
	r, ok := p.b.requests.Get().(*queued)
	if !ok {
		r = &queued{result: make(chan error, 1)}
	}
	r.ctx, r.cmd = ctx, cmd
	p.queue = append(p.queue, r)
	p.setTimer()
	p.mu.Unlock()
	return p.await(r)
}

// await returns the result of r, or what ended the wait for it. A request that was still in the queue is not sent any
// more.
func (p *pipeliner) await(r *queued) error {
	select {
	case err := <-r.result:
		r.ctx, r.cmd = nil, nil
		p.b.requests.Put(r)
		return err
	case <-r.ctx.Done():
		if p.withdraw(r) {
			return driver.NotSent(r.ctx.Err())
		}
		return r.ctx.Err()
	case <-p.b.closing:
		if p.withdraw(r) {
			return driver.ErrClosed
		}
		return errClosing
	}
}

// withdraw takes r out of the queue, if it is still there.
func (p *pipeliner) withdraw(r *queued) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.queue, r)
	if i < 0 {
		return false
	}
	p.queue = slices.Delete(p.queue, i, i+1)
	return true
}

// finished ends a call of one request. What was queued meanwhile is sent by a goroutine that lives for as long as
// requests are queued.
func (p *pipeliner) finished(generation int) {
	if batch, generation := p.next(generation, nil); batch != nil {
		go p.sendQueued(batch, generation)
	}
}

// next ends a call that began in a generation, and begins one with the requests of the queue, if there are any. It
// uses the slice of the last batch again.
func (p *pipeliner) next(generation int, batch []*queued) (_ []*queued, now int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if generation == p.generation {
		p.active--
	}
	if len(p.queue) == 0 || p.active >= maxActive || p.b.closed() {
		return nil, 0
	}
	return p.begin(batch), p.generation
}

// begin begins a call with requests of the queue. mu is held.
func (p *pipeliner) begin(batch []*queued) []*queued {
	n := min(len(p.queue), maxPipelined)
	batch = append(batch[:0], p.queue[:n]...)
	p.queue = slices.Delete(p.queue, 0, n)
	p.active++
	p.moved = true
	return batch
}

// setTimer sets the timer, unless it runs. mu is held.
func (p *pipeliner) setTimer() {
	if p.timed {
		return
	}
	p.timed, p.moved = true, false
	if p.timer == nil {
		p.timer = time.AfterFunc(p.stall, p.checkStall)
	} else {
		p.timer.Reset(p.stall)
	}
}

// checkStall sends the queue if nothing was sent from it since the timer was set.
func (p *pipeliner) checkStall() {
	p.mu.Lock()
	p.timed = false
	if len(p.queue) == 0 || p.b.closed() {
		p.mu.Unlock()
		return
	}
	if p.moved {
		p.setTimer()
		p.mu.Unlock()
		return
	}
	p.generation, p.active = p.generation+1, 0
	batch, generation := p.begin(nil), p.generation
	p.setTimer()
	p.mu.Unlock()
	p.sendQueued(batch, generation)
}

// sendQueued sends batch, and then what was queued meanwhile, until the queue is empty.
func (p *pipeliner) sendQueued(batch []*queued, generation int) {
	for batch != nil {
		p.send(batch)
		clear(batch)
		// The callers that have their results may have further requests.
		runtime.Gosched()
		batch, generation = p.next(generation, batch)
	}
}

// send runs the requests of batch in one round trip and gives each its result. A request that has its result may be
// used again: it is not touched any more.
func (p *pipeliner) send(batch []*queued) {
	if len(batch) == 1 {
		r := batch[0]
		r.result <- p.client.Process(r.ctx, r.cmd)
		return
	}
	ctx, pipe := newBatchContext(batch), p.client.Pipeline()
	for _, r := range batch {
		_ = pipe.Process(ctx, r.cmd) // is put on a list
	}
	_, _ = pipe.Exec(ctx) // each command has its error
	for _, r := range batch {
		r.result <- r.cmd.Err()
	}
}

// batchContext is the context of a pipeline. It ends with the last of its requests.
type batchContext struct {
	context.Context // the background
	deadline        time.Time
}

func newBatchContext(batch []*queued) *batchContext {
	c := &batchContext{Context: context.Background()}
	for _, r := range batch {
		deadline, ok := r.ctx.Deadline()
		if !ok {
			c.deadline = time.Time{}
			break
		}
		if deadline.After(c.deadline) {
			c.deadline = deadline
		}
	}
	return c
}

func (c *batchContext) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }
