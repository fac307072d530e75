package permit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/errs"
)

// Requests for one limit that arrive while a call on it is under way are sent together in the
// next call. So a hot key costs one call for as many requests as arrived meanwhile, and no timer
// delays anyone. A request that finds no call under way is sent at once, alone, in its caller's
// goroutine and under its caller's context.

const (
	// maxBatch is how many requests one call carries.
	maxBatch = 256
	// patience is how long requests wait for a call that does not return, before they
	// are sent beside it: it may be stuck where they would not be.
	patience = 100 * time.Millisecond
)

// coalescer has the calls for permits that are under way, and the requests that wait for them.
type coalescer struct {
	cfg       *Config
	refunds   *refunds
	running   *sync.WaitGroup         // the goroutines that make calls
	inAdvance func(*limitKey) spender // nil: nothing of the limit was taken in advance

	mu     sync.Mutex
	queues map[limitKey]*callQueue
	closed bool
}

// spender has permits of one limit that were taken in advance.
type spender interface {
	// spend takes n permits, and answers in r, which is zero. It is false if there are less than n.
	spend(n int, r *Result) bool
}

// limitKey names what permits are taken of.
type limitKey struct {
	key   string
	limit driver.Limit
}

// callQueue is the requests for one limit that are not sent yet. It exists while a call on the
// limit is under way. Its fields are guarded by coalescer.mu.
type callQueue struct {
	key     limitKey
	calls   int // under way
	waiting []*request
	late    *time.Timer // sends those that wait beside a call that does not return
}

// request is one request, or several that are sent together.
type request struct {
	ctx   context.Context
	ask   driver.Ask
	more  []driver.Ask // after ask
	fetch *fetch       // of a request for more than the caller wants
	batch *batch       // guarded by coalescer.mu; nil while it waits
	gone  bool         // its caller has left; guarded by coalescer.mu

	done chan struct{} // closed when the answer is there
	t    driver.TakenOne
	all  []driver.Granted // the answers to ask and more
	err  error
	from Origin
}

// batch is one call for several requests.
type batch struct {
	callers int // who still wait; guarded by coalescer.mu
	cancel  context.CancelFunc
}

func (c *coalescer) init(cfg *Config, refunds *refunds, running *sync.WaitGroup) {
	c.cfg, c.refunds, c.running, c.queues = cfg, refunds, running, make(map[limitKey]*callQueue)
}

// take asks the store for permits, together with others who do. Those who wait are given what
// another request has prefetched meanwhile, in the order in which they came.
func (c *coalescer) take(ctx context.Context, d *driver.Demand, ask driver.Ask, t *driver.TakenOne, f *fetch) (Origin, error) {
	k := limitKey{d.Key, d.Limit}
	q, r, err := c.join(ctx, k, ask, nil, f)
	switch {
	case err != nil:
		return FromStore, err
	case r == nil:
		defer c.ended(q)
		return FromStore, c.takeAlone(ctx, d, ask, t, f)
	}
	if err := c.await(r); err != nil {
		return FromStore, err
	}
	*t = r.t
	return r.from, nil
}

// takeEach asks the store for several, in one step and in their order, together with others.
func (c *coalescer) takeEach(ctx context.Context, k limitKey, asks []driver.Ask) (driver.Taken, error) {
	q, r, err := c.join(ctx, k, asks[0], asks[1:], nil)
	switch {
	case err != nil:
		return driver.Taken{}, err
	case r == nil:
		defer c.ended(q)
		return c.call(ctx, k, asks)
	}
	if err := c.await(r); err != nil {
		return driver.Taken{}, err
	}
	return driver.Taken{Asks: r.all, Remaining: r.t.Remaining, ResetAfter: r.t.ResetAfter}, nil
}

// join puts a request into the queue of its limit. It makes none if no call is under way: then the
// caller makes one for itself alone, and calls ended after it.
func (c *coalescer) join(ctx context.Context, k limitKey, ask driver.Ask, more []driver.Ask, f *fetch) (q *callQueue, r *request, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, driver.ErrClosed
	}
	if q = c.queues[k]; q == nil {
		q = &callQueue{key: k, calls: 1}
		c.queues[k] = q
		return q, nil, nil
	}
	r = &request{ctx: ctx, ask: ask, more: more, fetch: f, done: make(chan struct{})}
	q.waiting = append(q.waiting, r)
	if len(q.waiting) == 1 {
		c.boundWait(q)
	}
	return q, r, nil
}

// await waits for the answer.
func (c *coalescer) await(r *request) error {
	select {
	case <-r.done:
	case <-r.ctx.Done():
		if err := c.leave(r); err != nil {
			return err
		}
	}
	return r.err
}

// takeAlone makes the call for one request.
func (c *coalescer) takeAlone(ctx context.Context, d *driver.Demand, ask driver.Ask, t *driver.TakenOne, f *fetch) error {
	if f != nil {
		f.sent = c.cfg.Clock.Now()
	}
	err := c.cfg.takeOne(ctx, d, ask, t)
	switch {
	case f == nil && err != nil && errs.HasEnded(ctx):
		c.giveBack(limitKey{d.Key, d.Limit}, &ask)
	case f != nil && err == nil:
		*t = f.landed(*t)
	}
	return err
}

// leave takes a request out whose context has ended. It is nil if the answer has come.
func (c *coalescer) leave(r *request) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-r.done:
		return nil
	default:
	}
	r.gone = true
	if r.batch == nil { // whoever sends the queue passes it by
		return driver.NotSent(r.ctx.Err())
	}
	if r.batch.callers--; r.batch.callers == 0 {
		r.batch.cancel()
	}
	return r.ctx.Err() // what it is granted is given back if it has an id, and else counts as spent
}

// giveBack gives back what a request was granted, or may have been, whose caller has left.
func (c *coalescer) giveBack(k limitKey, ask *driver.Ask) {
	if ask.ID != "" {
		c.refunds.start(k, ask.ID, ask.N, func() {})
	}
}

// boundWait sends the queue after patience at the latest. coalescer.mu is held.
func (c *coalescer) boundWait(q *callQueue) {
	if q.late == nil {
		q.late = time.AfterFunc(patience, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.queues[q.key] == q {
				c.sendNext(q)
			}
		})
		return
	}
	q.late.Reset(patience)
}

// ended takes note that a call has ended, and sends what waits.
func (c *coalescer) ended(q *callQueue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q.calls--
	c.sendNext(q)
	if q.calls == 0 {
		delete(c.queues, q.key)
		if q.late != nil {
			q.late.Stop()
		}
	}
}

// servePrefetched gives those at the head of the queue what they ask for out of prefetched
// permits. coalescer.mu is held.
func (c *coalescer) servePrefetched(q *callQueue) {
	if len(q.waiting) == 0 || c.closed {
		return
	}
	p := c.inAdvance(&q.key)
	if p == nil {
		return
	}
	var got Result
	for r := q.head(); r != nil; r = q.head() {
		n := r.ask.N
		if r.fetch != nil {
			n = r.fetch.own
		}
		got = Result{}
		if n == 0 || len(r.more) > 0 || r.fetch == nil && r.ask.ID != "" || !p.spend(n, &got) {
			return
		}
		r.t = driver.TakenOne{Granted: driver.Granted{N: n}, Remaining: got.Remaining, ResetAfter: got.ResetAfter}
		r.all = []driver.Granted{r.t.Granted}
		r.from = FromPrefetch
		close(r.done)
		q.pop()
	}
}

// head is the first request whose caller still waits, nil if there is none. coalescer.mu is held.
func (q *callQueue) head() *request {
	for len(q.waiting) > 0 && q.waiting[0].gone {
		q.pop()
	}
	if len(q.waiting) == 0 {
		return nil
	}
	return q.waiting[0]
}

// pop takes the first request out. coalescer.mu is held.
func (q *callQueue) pop() {
	q.waiting[0] = nil
	if q.waiting = q.waiting[1:]; len(q.waiting) == 0 {
		q.waiting = nil
	}
}

// sendNext sends the head of the queue. coalescer.mu is held.
func (c *coalescer) sendNext(q *callQueue) {
	c.servePrefetched(q)
	var requests []*request
	asks := 0
	for r := q.head(); r != nil && (asks == 0 || asks+1+len(r.more) <= maxBatch); r = q.head() {
		requests = append(requests, r)
		asks += 1 + len(r.more)
		q.pop()
	}
	if len(requests) == 0 {
		return
	}
	if len(q.waiting) > 0 {
		c.boundWait(q)
	}
	ctx, cancel := begin(requests)
	q.calls++
	c.running.Add(1)
	go c.send(ctx, cancel, q, requests)
}

// begin makes requests a batch, and gives the context of its call. coalescer.mu is held.
func begin(requests []*request) (ctx context.Context, cancel context.CancelFunc) {
	b := &batch{callers: len(requests)}
	contexts := make([]context.Context, len(requests))
	for i, r := range requests {
		r.batch, contexts[i] = b, r.ctx
	}
	ctx, b.cancel = untilLast(contexts)
	return ctx, b.cancel
}

// untilLast is a context for a call that is made for several callers: it ends with the last
// of their deadlines, or when it is cancelled.
func untilLast(callers []context.Context) (context.Context, context.CancelFunc) {
	var last time.Time
	ctx := context.WithoutCancel(callers[0])
	for _, c := range callers {
		d, ok := c.Deadline()
		if !ok {
			return context.WithCancel(ctx)
		}
		if d.After(last) {
			last = d
		}
	}
	return context.WithDeadline(ctx, last)
}

// send makes the call and hands the answers out.
func (c *coalescer) send(ctx context.Context, cancel context.CancelFunc, q *callQueue, requests []*request) {
	defer c.running.Done()
	defer c.ended(q)
	defer cancel()
	asks := make([]driver.Ask, 0, len(requests))
	sent := c.cfg.Clock.Now()
	for _, r := range requests {
		asks = append(append(asks, r.ask), r.more...)
		if r.fetch != nil {
			r.fetch.sent = sent
		}
	}
	taken, err := c.call(ctx, q.key, asks)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.fail(q.key, requests, err)
		return
	}
	rest := taken.Asks
	for _, r := range requests {
		r.all, rest = rest[:1+len(r.more)], rest[1+len(r.more):]
		r.t = driver.TakenOne{Granted: r.all[0], Remaining: taken.Remaining, ResetAfter: taken.ResetAfter}
		if r.fetch != nil {
			r.t = r.fetch.landed(r.t)
		} else if r.gone && r.t.N > 0 {
			c.giveBack(q.key, &r.ask)
		}
		close(r.done)
	}
}

// call is Take.
func (c *coalescer) call(ctx context.Context, k limitKey, asks []driver.Ask) (driver.Taken, error) {
	taken, err := c.cfg.Store.Take(ctx, k.key, k.limit, asks)
	if err == nil && len(taken.Asks) != len(asks) {
		err = fmt.Errorf("%s answered %d asks of %d", c.cfg.Info.Name, len(taken.Asks), len(asks))
	}
	return taken, err
}

// fail tells the callers that the store did not answer. coalescer.mu is held.
func (c *coalescer) fail(k limitKey, requests []*request, err error) {
	for _, r := range requests {
		if r.fetch == nil && errs.HasEnded(r.ctx) {
			c.giveBack(k, &r.ask)
		}
		r.err = err
		close(r.done)
	}
}

// close refuses further requests, and ends the waits of those that are not sent.
func (c *coalescer) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, q := range c.queues {
		for r := q.head(); r != nil; r = q.head() {
			r.err = driver.ErrClosed
			close(r.done)
			q.pop()
		}
	}
}
