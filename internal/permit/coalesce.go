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
	// maxBatch is how many requests one call carries. What comes in faster than calls of that size go to and fro waits
	// longer and longer, until all are answered too late. Redis decides on 4,096 in 0.2 ms, and on one in 0.07 ms.
	maxBatch = 4096
	// patience is how long requests wait for a call that does not return, before they
	// are sent beside it: it may be stuck where they would not be.
	patience = 100 * time.Millisecond
)

// coalescer has the calls for permits that are under way, and the requests that wait for them.
type coalescer struct {
	cfg     *Config
	refunds *refunds
	running *sync.WaitGroup // the goroutines that make calls

	mu     sync.Mutex
	queues map[limitKey]*callQueue
	closed bool
}

// spender has permits that were taken in advance.
type spender interface {
	// spend takes up to n permits of k. It is false, and takes none, if there are less than least.
	spend(k limitKey, least, n int) (r Result, ok bool)
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

// request is one request.
type request struct {
	ctx   context.Context
	ask   driver.Ask
	of    spender // may serve it while it waits; nil: only the store does
	batch *batch  // guarded by coalescer.mu; nil while it waits
	gone  bool    // its caller has left; guarded by coalescer.mu

	done chan struct{} // closed when the answer is there
	t    driver.TakenOne
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

// take asks the store for permits, together with others who do. While the request waits, of may serve it; nil: only the
// store does. then, if it is set, is called before those who wait for this call are sent.
func (c *coalescer) take(ctx context.Context, d *driver.Demand, ask driver.Ask, t *driver.TakenOne, of spender, then func(error)) (from Origin, err error) {
	k := limitKey{d.Key, d.Limit}
	q, r, err := c.join(ctx, k, ask, of)
	switch {
	case err != nil:
	case r == nil:
		defer c.ended(q)
		err = c.takeAlone(ctx, d, ask, t)
	default:
		if err = c.await(r); err == nil {
			*t, from = r.t, r.from
		}
	}
	if then != nil {
		then(err)
	}
	return from, err
}

// join puts a request into the queue of its limit. It makes none if no call is under way: then the
// caller makes one for itself alone, and calls ended after it.
func (c *coalescer) join(ctx context.Context, k limitKey, ask driver.Ask, of spender) (q *callQueue, r *request, err error) {
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
	r = &request{ctx: ctx, ask: ask, of: of, done: make(chan struct{})}
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
func (c *coalescer) takeAlone(ctx context.Context, d *driver.Demand, ask driver.Ask, t *driver.TakenOne) error {
	err := c.cfg.takeOne(ctx, d, ask, t)
	if err != nil && errs.HasEnded(ctx) {
		c.giveBack(limitKey{d.Key, d.Limit}, &ask)
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
	for r := q.head(); r != nil && r.of != nil && !c.closed; r = q.head() {
		got, ok := r.of.spend(q.key, r.ask.N, r.ask.N)
		if !ok {
			return
		}
		r.t = driver.TakenOne{Granted: driver.Granted{N: got.Granted}, Remaining: got.Remaining, ResetAfter: got.ResetAfter}
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
	for r := q.head(); r != nil && len(requests) < maxBatch; r = q.head() {
		requests = append(requests, r)
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

// begin makes requests a batch, and gives the context of its call, which ends when the last of them has left.
// coalescer.mu is held.
func begin(requests []*request) (ctx context.Context, cancel context.CancelFunc) {
	ctx, cancel = context.WithCancel(context.WithoutCancel(requests[0].ctx))
	b := &batch{callers: len(requests), cancel: cancel}
	for _, r := range requests {
		r.batch = b
	}
	return ctx, cancel
}

// send makes the call and hands the answers out.
func (c *coalescer) send(ctx context.Context, cancel context.CancelFunc, q *callQueue, requests []*request) {
	defer c.running.Done()
	defer c.ended(q)
	defer cancel()
	asks := make([]driver.Ask, 0, len(requests))
	for _, r := range requests {
		asks = append(asks, r.ask)
	}
	taken, err := c.call(ctx, q.key, asks)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.fail(q.key, requests, err)
		return
	}
	for i, r := range requests {
		r.t = driver.TakenOne{Granted: taken.Asks[i], Remaining: taken.Remaining, ResetAfter: taken.ResetAfter}
		if r.gone && r.t.N > 0 {
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
		if errs.HasEnded(r.ctx) {
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
