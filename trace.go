package coord

import (
	"context"
	"errors"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/permit"
	"github.com/coordgo/coord/internal/shadow"
	"github.com/coordgo/coord/internal/trace"
	"github.com/coordgo/coord/observe"
)

// traceOf finds who is told of the calls of a Locker, which may embed a Client.
func traceOf(l Locker) *trace.Client {
	if c, _ := clientBehind(l); c != nil {
		return c.trace
	}
	return nil
}

// traceLock tells that a Lock or TryLock begins, and gives the context for the rest of it.
func (c *Client) traceLock(ctx context.Context, op string, share driver.Share, key string) (context.Context, *trace.Lock) {
	if !c.trace.Locks() {
		return ctx, nil
	}
	of := observe.Lock{Key: key, Mode: share.Mode}
	if owner := ownerOf(ctx); owner != nil {
		of.Owner = owner.String()
	}
	return c.trace.Lock(ctx, op, of)
}

// tellEnded tells what came of a Lock or TryLock: a handle more, where no hold was granted.
func tellEnded(w *trace.Lock, l *Lock, err error) {
	if w == nil {
		return
	}
	if err == nil && !w.Got() {
		l.h.t.InOrder(w.Reentered(l.h.t.Identity(), l.h.handlesNow()))
	}
	w.Ended(err)
}

// begins is when a call on limits begins, if anybody is told.
func (c *Client) begins() (now time.Duration) {
	if c.trace.Limits() {
		now = c.clock.Mono()
	}
	return now
}

// tellDecided tells what came of a request for permits that took so long.
func (c *Client) tellDecided(ctx context.Context, took time.Duration, e observe.Decision, r Result, from permit.Origin) {
	e.Took, e.Shadow = took, shadow.In(ctx)
	e.Granted, e.Remaining, e.RetryAfter = r.Granted, r.Remaining, r.RetryAfter
	e.Cached, e.Leased = from == permit.FromMemory, from == permit.FromPrefetch
	if r.Degraded != nil {
		e.Err = r.Degraded
	}
	c.trace.Decided(ctx, e, r.Allowed, r.Degraded != nil)
}

// tellAnswer is tellDecided of a request whose denial is an error. Other errors are no decision.
func (c *Client) tellAnswer(ctx context.Context, began time.Duration, e observe.Decision, r Result, from permit.Origin) {
	if e.Err == nil || errors.Is(e.Err, ErrLimited) {
		c.tellDecided(ctx, c.clock.Mono()-began, e, r, from)
	}
}

// retryAfter is when err says to try again.
func retryAfter(err error) time.Duration {
	var e *Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

// tellDecided tells of each demand that was granted or stood in the way.
func (m *multi) tellDecided(ctx context.Context, began time.Duration) {
	took := m.c.clock.Mono() - began
	for i, r := range m.results {
		if d := &m.as[i]; d.N > 0 && (r.Allowed || r.RetryAfter > 0) {
			m.c.tellDecided(ctx, took, observe.Decision{Op: "allowall", Key: d.Key, Limit: d.Limit, Asked: d.N}, r, m.from)
		}
	}
}
