package permit

import (
	"container/list"
	"context"
	"math"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
)

// waitQueues are the queues in which goroutines wait for permits, one for each key and limit.
type waitQueues struct {
	*source
	advance *advance
	mu      sync.Mutex // guards what follows, and the queues
	queues  map[limitKey]*waitQueue
	closed  bool
	inside  sync.WaitGroup // calls of Await, and the goroutines that serve queues
}

// waitQueue serves its waiters in the order in which they came. One goroutine makes its requests,
// one at a time, each for as many waiters as come next.
//
// On a token bucket a request reserves permits: for the first waiter as soon as they are due, for
// those behind it if that is within waitAhead. So what a waiter that is cancelled gives back goes
// to those behind it, and never to one that comes later.
type waitQueue struct {
	*waitQueues
	key      limitKey
	reserves bool          // the store grants ahead of time
	changed  chan struct{} // wakes the goroutine; of capacity 1

	waiting   list.List // of *waiter: not granted yet
	ahead     list.List // of *waiter: granted, and due later; in the order of their due times
	returning int       // refunds of waiters that were cancelled, under way
	asked     int       // waiters of the request under way that are still there
	abandon   func()    // ends that request
	answers   int       // of the store, until now
	owed      bool      // the store was asked since its last answer

	trip     time.Duration // how long the last request took
	wanted   int           // permits, by all in waiting
	retryAt  time.Time     // a request for retryN permits or more is denied until then
	retryN   int
	from     time.Time // those in waiting are served after it, by a refill of their permits; zero: not known
	earliest time.Time // no deadline in waiting is before it; zero: none has one
	renewals int       // counts again, so that a denial from before it does not hold after
}

// waiter is a call of Wait. waitQueues.mu guards it until done is closed.
type waiter struct {
	ctx      context.Context
	n        int
	id       string        // of the reservation; "" on a window
	deadline time.Time     // zero: none
	place    *list.Element // in waiting, or, once it is granted, in ahead; nil: in neither
	asked    bool          // a request for it is under way
	answered bool
	denied   bool // the store has denied it once
	before   int  // answers of the store before it came

	done  chan struct{} // closed when the answer is there
	due   time.Time     // when the permits may be used; zero: at once
	retry time.Duration // how late they would be, with errTooLate
	from  Origin
	err   error
}

// forever is a pause that ends by a wake-up alone.
const forever = time.Duration(math.MaxInt64)

// waitAhead is how far ahead permits are reserved for those who are not the first.
const waitAhead = 100 * time.Millisecond

func (qs *waitQueues) init(source *source, advance *advance) {
	qs.source, qs.advance, qs.queues = source, advance, make(map[limitKey]*waitQueue)
}

// join puts w at the end of the queue of d, and counts it in inside. It is nil if the client is closed. Who finds no
// queue makes the first request itself, under its own context.
func (qs *waitQueues) join(d *driver.Demand, w *waiter) *waitQueue {
	k := limitKey{d.Key, d.Limit}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if qs.closed {
		return nil
	}
	qs.inside.Add(1)
	q := qs.queues[k]
	if q != nil {
		q.add(w)
		return q
	}
	q = &waitQueue{waitQueues: qs, key: k, changed: make(chan struct{}, 1)}
	q.reserves = k.limit.Algorithm == driver.TokenBucket && qs.Info.Claims.Has(driver.Reserve)
	qs.queues[k] = q
	q.add(w)
	q.request(w.ctx, nil, []*waiter{w})
	if q.empty() {
		delete(qs.queues, k)
		return q
	}
	qs.running.Add(1)
	qs.inside.Add(1)
	go q.serve()
	return q
}

// add puts w at the end of waiting, unless it is certain to be too late. waitQueues.mu is held.
func (q *waitQueue) add(w *waiter) {
	if at := q.servedAt(q.wanted + w.n); w.tooLate(at) {
		w.retry = time.Until(at)
		w.answer(FromStore, errTooLate)
		return
	}
	if q.reserves {
		w.id = q.NewID()
	}
	w.place, w.before = q.waiting.PushBack(w), q.answers
	q.wanted += w.n
	if !w.deadline.IsZero() && (q.earliest.IsZero() || w.deadline.Before(q.earliest)) {
		q.earliest = w.deadline
	}
	if q.waiting.Len() == 1 {
		q.wake()
	}
}

// empty reports whether the queue is at its end. waitQueues.mu is held.
func (q *waitQueue) empty() bool {
	return q.waiting.Len() == 0 && q.ahead.Len() == 0 && q.returning == 0
}

// leave takes w out, unless it has been answered. silence is nil unless the store is to blame.
func (q *waitQueue) leave(w *waiter) (left bool, silence error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.answered {
		return false, nil
	}
	if w.place == q.waiting.Front() {
		q.wake() // the next may want less
	}
	q.remove(w)
	if w.asked {
		if q.asked--; q.asked == 0 {
			q.abandon() // who asks under its own context is not here
		}
	}
	return true, q.silence(w)
}

// silence is the error of w, whose context has ended, if that is because the store did not answer: it was asked for
// w, or w had no turn because those before it had no answer. waitQueues.mu is held.
func (q *waitQueue) silence(w *waiter) error {
	switch err := w.ctx.Err(); {
	case err == nil || w.denied:
		return nil
	case w.asked:
		return err
	case q.answers == w.before && (q.owed || q.returning > 0):
		return driver.NotSent(err)
	}
	return nil
}

// remove takes w out of waiting. waitQueues.mu is held.
func (q *waitQueue) remove(w *waiter) {
	q.waiting.Remove(w.place)
	w.place = nil
	q.wanted -= w.n
}

// answer tells w what became of it. waitQueues.mu is held.
func (w *waiter) answer(from Origin, err error) {
	w.answered, w.from, w.err = true, from, err
	close(w.done)
}

// again makes the queues of all limits of an account ask the store at once: this client made room in it.
func (qs *waitQueues) again(key string, limit *driver.Limit) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	for k, q := range qs.queues {
		if k.key == key && k.limit.Shares(*limit) {
			q.again()
		}
	}
}

// again forgets what the store denied. waitQueues.mu is held.
func (q *waitQueue) again() {
	q.renewals++
	q.retryAt, q.from = time.Time{}, time.Time{}
	q.wake()
}

// wake makes the goroutine look at the queue. waitQueues.mu is held.
func (q *waitQueue) wake() {
	select {
	case q.changed <- struct{}{}:
	default:
	}
}

// serve makes the requests of q until nobody is left.
func (q *waitQueue) serve() {
	defer q.running.Done()
	defer q.inside.Done()
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		front, pause := q.next(time.Now())
		switch {
		case len(front) > 0:
			q.requestTogether(front)
		case pause > 0:
			q.pause(pause)
		default:
			delete(q.queues, q.key)
			return
		}
	}
}

// pause waits for d, or until the queue changes. waitQueues.mu is held, and is not meanwhile.
func (q *waitQueue) pause(d time.Duration) {
	q.mu.Unlock()
	defer q.mu.Lock()
	var over <-chan time.Time
	if d != forever {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-over:
	case <-q.changed:
	}
}

// next is the waiters to ask for now. If there are none it is how long to pause, 0 at the end of the
// queue. waitQueues.mu is held.
func (q *waitQueue) next(now time.Time) (front []*waiter, pause time.Duration) {
	first, last := q.waiting.Front(), q.ahead.Back()
	switch {
	case q.empty(), q.closed: // after Stop nobody waits, and nothing more is reserved
		return nil, 0
	case first == nil, q.returning > 0: // what is given back may be for the next
		return nil, forever
	}
	if last != nil {
		// The request comes to the store when the last of those ahead is due, not before: nobody
		// is given an earlier time than they have.
		if pause = last.Value.(*waiter).due.Sub(now) - q.trip; pause > 0 {
			return nil, pause
		}
	}
	if pause = q.retryAt.Sub(now); pause > 0 && first.Value.(*waiter).n >= q.retryN {
		return nil, pause
	}
	if front = q.front(); len(front) == 0 {
		return nil, forever // all are about to leave
	}
	return front, 0
}

// front is the waiters that one request is for. Nobody in it wants less than those before it: where
// one is denied, all behind it are. waitQueues.mu is held.
func (q *waitQueue) front() (front []*waiter) {
	least := 0
	for e := q.waiting.Front(); e != nil && len(front) < maxBatch; e = e.Next() {
		w := e.Value.(*waiter)
		if w.ctx.Err() != nil {
			continue // it is about to leave
		}
		if w.n < least {
			break
		}
		least = w.n
		front = append(front, w)
	}
	return front
}

// requestTogether makes a request for waiters of which each may leave: it goes on as long as one is
// left. waitQueues.mu is held, and is not while the store is asked.
func (q *waitQueue) requestTogether(front []*waiter) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(front[0].ctx))
	defer cancel()
	abandon := cancel
	if q.reserves { // what is reserved for those who have left is given back, once it is known
		abandon = func() { time.AfterFunc(refundBound, cancel) }
	}
	q.request(ctx, abandon, front)
}

// request asks the store for front, as far as it is not served of what was taken in advance. abandon, if
// any, is for when all of them have left. waitQueues.mu is held, and is not while the store is asked.
func (q *waitQueue) request(ctx context.Context, abandon func(), front []*waiter) {
	for q.spend(front[0]) {
		if front = front[1:]; len(front) == 0 {
			return
		}
	}
	q.asked, q.abandon, q.owed = len(front), abandon, true
	asks, renewals := q.asks(front), q.renewals
	q.mu.Unlock()
	sent := q.Clock.Mono()
	taken, err := q.calls.call(ctx, q.key, asks)
	q.mu.Lock()
	q.trip = q.Clock.Mono() - sent
	if err != nil {
		q.failed(front, err)
		return
	}
	q.answers, q.owed = q.answers+1, false
	q.answered(front, asks, taken.Asks)
	if q.renewals != renewals {
		q.retryAt, q.from = time.Time{}, time.Time{}
	}
	q.sendAway()
	q.learn(&taken)
}

// asks is what front asks of the store. waitQueues.mu is held.
func (q *waitQueue) asks(front []*waiter) []driver.Ask {
	asks := make([]driver.Ask, len(front))
	for i, w := range front {
		w.asked = true
		asks[i] = driver.Ask{ID: w.id, Min: w.n, N: w.n}
		if !q.reserves {
			continue
		}
		ahead := MaxAhead
		if i > 0 {
			ahead = waitAhead + 2*q.trip
		}
		if !w.deadline.IsZero() {
			ahead = min(ahead, max(time.Until(w.deadline), 0))
		}
		asks[i].MaxDelay = ahead
	}
	return asks
}

// close waits until all callers have left, who give back what they have reserved, as far as ctx allows.
func (qs *waitQueues) close(ctx context.Context) {
	qs.mu.Lock()
	qs.closed = true
	for _, q := range qs.queues {
		q.wake()
	}
	qs.mu.Unlock()
	awaitAll(ctx, &qs.inside)
}
