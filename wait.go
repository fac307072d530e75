package coord

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
)

// Wait waits for one permit. See [Limiter].
func (c *Client) Wait(ctx context.Context, key string, limit Limit) error {
	return c.WaitN(ctx, key, limit, 1)
}

// WaitN waits for n permits. See [Limiter]. On a token bucket it reserves them and
// sleeps, and gives them back if ctx ends first; on a window it asks again when
// the store said to. Under FailOpen an unavailable store admits.
func (c *Client) WaitN(ctx context.Context, key string, limit Limit, n int) error {
	if (c.observesLocks() || c.observesLimits()) && n > 0 {
		return c.observedWait(ctx, key, limit, n)
	}
	_, _, err := c.waitN(ctx, key, limit, n)
	return err
}

// waitN is WaitN, and says what was granted.
func (c *Client) waitN(ctx context.Context, key string, limit Limit, n int) (Result, origin, error) {
	granted := Result{Allowed: true, Granted: n}
	var d driver.Demand
	err := c.demand(ctx, key, limit, n, &d)
	var retry time.Duration
	var from origin
	switch {
	case err != nil:
	case n == 0:
		return granted, from, nil
	case d.Limit.Algorithm == driver.TokenBucket && c.info.Claims.Has(driver.Reserve):
		retry, from, err = c.waitReserved(ctx, key, limit, &d)
	default:
		retry, from, err = c.waitInLine(ctx, d)
	}
	if err == nil {
		return granted, from, nil
	}
	if errors.Is(err, ErrUnavailable) {
		r, err := c.degrade(ctx, "wait", key, driver.Ask{N: n}, err)
		return r, from, err
	}
	return Result{}, from, &Error{Op: "wait", Backend: c.info.Name, Key: key, RetryAfter: retry, Err: err}
}

// errTooLate: the permits cannot come before ctx's deadline.
var errTooLate = chainOf(ErrLimited, context.DeadlineExceeded)

// waitReserved takes the permits ahead of time; the store keeps the order. What is leased is
// for who comes when nobody of this client waits.
func (c *Client) waitReserved(ctx context.Context, key string, limit Limit, d *driver.Demand) (time.Duration, origin, error) {
	p := c.pot(d)
	if p != nil {
		if p.sleeper.Add(1) == 1 && p.spend(d.N, new(Result)) {
			p.sleeper.Add(-1)
			return 0, fromLease, nil
		}
		defer p.sleeper.Add(-1)
	}
	retry, err := c.sleepReserved(ctx, key, limit, d.N)
	return retry, fromStore, err
}

// sleepReserved reserves permits and sleeps until they are due.
func (c *Client) sleepReserved(ctx context.Context, key string, limit Limit, n int) (time.Duration, error) {
	r, retry, err := c.reserveInTime(ctx, key, limit, n)
	if err != nil {
		return retry, err
	}
	delay := r.Delay()
	if delay == 0 {
		return 0, nil
	}
	if err := c.sleep(ctx, delay); err != nil {
		// ctx is over: give back under a bound of our own.
		back, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTry)
		defer cancel()
		// What cannot be given back counts as spent; the error is about the wait.
		_ = r.Cancel(back)
		return 0, err
	}
	return 0, nil
}

// reserveInTime reserves permits that are due before ctx's deadline.
func (c *Client) reserveInTime(ctx context.Context, key string, limit Limit, n int) (*Reservation, time.Duration, error) {
	for {
		ahead := MaxReserve
		deadline, bounded := ctx.Deadline()
		if bounded {
			ahead = min(ahead, max(time.Until(deadline), 0))
		}
		r, retry, err := c.reserve(ctx, key, limit, n, ahead)
		if !errors.Is(err, ErrLimited) {
			return r, 0, err
		}
		// The store counts until it grants so far ahead.
		if due := retry + ahead; bounded && time.Until(deadline) < due {
			return nil, due, errTooLate
		}
		if err := c.sleep(ctx, retry); err != nil {
			return nil, 0, err
		}
	}
}

// sleep waits for d, or says why not.
func (c *Client) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return chainOf(ErrLimited, ctxError(ctx))
	case <-c.ended:
		return ErrClosed
	}
}

// waitLines are the lines in which goroutines wait for permits of a window,
// one line per key and limit. Only the first in line asks the store.
type waitLines struct {
	mu    sync.Mutex
	lines map[lineKey]*waitLine
}

type waitLine struct {
	waiters []*waiter // in order; never empty
	ready   time.Time // the first is not served before; zero: not known
}

type lineKey struct {
	key   string
	limit driver.Limit
}

type waiter struct {
	turn     chan struct{} // closed when it is the first
	tooLate  chan time.Duration
	deadline time.Time // zero: none
}

// waitInLine waits for its turn, and then for the permits.
func (c *Client) waitInLine(ctx context.Context, d driver.Demand) (time.Duration, origin, error) {
	k := lineKey{d.Key, d.Limit}
	w := &waiter{turn: make(chan struct{}), tooLate: make(chan time.Duration, 1)}
	w.deadline, _ = ctx.Deadline()
	c.lines.join(k, w)
	defer c.lines.leave(k, w)
	select {
	case <-w.turn:
	case retry := <-w.tooLate:
		return retry, fromStore, errTooLate
	case <-ctx.Done():
		return 0, fromStore, chainOf(ErrLimited, ctxError(ctx))
	case <-c.ended:
		return 0, fromStore, ErrClosed
	}
	ask := driver.Ask{Min: d.N, N: d.N}
	for denied := false; ; denied = true {
		switch { // the turn and the end may come together
		case ctx.Err() != nil:
			return 0, fromStore, chainOf(ErrLimited, ctxError(ctx))
		case c.state.Load() == stateClosed:
			return 0, fromStore, ErrClosed
		}
		p := c.pot(&d)
		if p != nil && p.spend(d.N, new(Result)) {
			return 0, fromLease, nil
		}
		var t driver.TakenOne
		from, err := c.askStore(ctx, p, &d, ask, &t)
		if err != nil {
			err = storeError(ctx, err, true)
			if denied && ctx.Err() != nil { // the time was up while it asked again
				err = chainOf(ErrLimited, ctxError(ctx))
			}
			return 0, from, err
		}
		if t.N > 0 {
			return 0, from, nil
		}
		if p != nil && p.spend(d.N, new(Result)) { // taken in advance since, out of what is missing now
			return 0, fromLease, nil
		}
		ready := time.Now().Add(t.RetryAfter)
		c.lines.warn(k, ready)
		if !w.deadline.IsZero() && w.deadline.Before(ready) {
			return t.RetryAfter, from, errTooLate
		}
		if err := c.sleep(ctx, t.RetryAfter); err != nil {
			return 0, from, err
		}
	}
}

// join puts w at the end of its line.
func (l *waitLines) join(k lineKey, w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines == nil {
		l.lines = make(map[lineKey]*waitLine)
	}
	line := l.lines[k]
	if line == nil {
		line = &waitLine{}
		l.lines[k] = line
		close(w.turn)
	}
	line.waiters = append(line.waiters, w)
	w.checkTime(line.ready)
}

// leave takes w out of its line; the next in line follows.
func (l *waitLines) leave(k lineKey, w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.lines[k]
	first := line.waiters[0] == w
	line.waiters = slices.DeleteFunc(line.waiters, func(o *waiter) bool { return o == w })
	if len(line.waiters) == 0 {
		delete(l.lines, k)
		return
	}
	if first {
		line.ready = time.Time{} // the next may want less
		close(line.waiters[0].turn)
	}
}

// warn sends away who would be too late: nobody in line is served before the
// first, whose permits come at ready.
func (l *waitLines) warn(k lineKey, ready time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.lines[k]
	line.ready = ready
	for _, w := range line.waiters[1:] {
		w.checkTime(ready)
	}
}

// checkTime tells w if it will be too late for a permit at ready.
func (w *waiter) checkTime(ready time.Time) {
	if w.deadline.IsZero() || !w.deadline.Before(ready) {
		return
	}
	select {
	case w.tooLate <- time.Until(ready):
	default: // told before
	}
}
