package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordgo/coord/driver"
)

var _ driver.DirectQueuer = (*backend)(nil)

// Lock implements driver.Queuer.
func (b *backend) Lock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return b.LockDirect(ctx, key, r, func() {})
}

// LockDirect implements driver.DirectQueuer. The line is at the server, in the order in which
// waiters came; see lua/offer.lua. Who gives the lock back offers it to the first in line in
// the same step, for a moment, and tells that client. Its waiter takes it by asking again. A
// waiter asks also when the lease in its way has run out.
func (b *backend) LockDirect(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
	if err := checkRequest(r); err != nil {
		return driver.Grant{}, err
	}
	lock, fence := lockKeys(key)
	w, err := b.line.join(lock, r)
	if err != nil {
		return driver.Grant{}, err
	}
	defer b.line.leave(w)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	a := &asking{b: b, lock: lock, id: r.ID, args: []any{lock, fence, r.ID, b.ttl(r.TTL).lease, nil}}
	for told := false; ; {
		heard := a.place(ctx, w)
		g, left, err := a.ask(ctx, told)
		if left == 0 {
			return g, err
		}
		b.line.placed(w, heard)
		if waits != nil {
			waits()
			waits = nil
		}
		news, err := w.await(ctx, timer, left, b.closing)
		if err != nil {
			return driver.Grant{}, err
		}
		told = news.ask
	}
}

// place sets the channel of the waiter, and gives the epoch of its subscription.
func (a *asking) place(ctx context.Context, w *waiter) subEpoch {
	e := a.b.line.subscriptionOf(ctx, a.lock)
	a.args[4] = w.place(e)
	return e.epoch()
}

// asking is what a waiter asks the server until it is granted.
type asking struct {
	b        *backend
	lock, id string
	args     []any
	placed   bool // the server has said that it is in line
}

// ask gives a grant or an error, or else how long to wait for being told otherwise.
func (a *asking) ask(ctx context.Context, told bool) (g driver.Grant, left time.Duration, err error) {
	sent := time.Now()
	reply, short, err := a.run(ctx, told)
	if err == nil {
		a.b.line.answered(time.Since(sent))
	}
	switch {
	case err != nil:
		return driver.Grant{}, 0, a.failure(ctx, err)
	case reply.at(0) == 0:
		if left, err = lockedFor(a.lock, reply); left == 0 {
			return driver.Grant{}, 0, err
		}
		a.placed = true
		return driver.Grant{}, left, nil
	case short != nil:
		return driver.Grant{}, 0, a.b.giveBack(ctx, a.lock, a.id, short)
	}
	g, err = granted(reply)
	g.Since = sent
	return g, 0, err
}

// failure is err as that of the whole wait: that this time nothing was asked does not say
// that nothing is left of the times before.
func (a *asking) failure(ctx context.Context, err error) error {
	switch {
	case !a.placed || !errors.Is(err, driver.ErrNotSent) && !errors.Is(err, driver.ErrClosed):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	default: // err is definite, but of one question only: it is not wrapped
		return fmt.Errorf("redis: a place in line may be left: %v", err)
	}
}

// confirmWithin is how long a call may take that does not look at whether its ctx is
// cancelled, so that it ends soon enough all the same.
const confirmWithin = 80 * time.Millisecond

// run runs the script. A waiter that was told that the lock is offered to it is in a hurry: it asks
// in this goroutine, and if that takes long asks again. What it gives up may still reach the
// server when the hold is over: so that first question only takes what is offered. Not so where
// replicas are waited for, which may take longer.
func (a *asking) run(ctx context.Context, told bool) (reply integers, short, err error) {
	if told && a.b.options.replicas == 0 && ctx.Err() == nil {
		bound := driver.NewBound(ctx, confirmWithin)
		defer bound.Stop()
		r := a.b.runGrant(bound, confirmScript, a.args[:4]...)
		if reply, err := r.integers(3); err == nil && reply.at(0) != 0 {
			return reply, r.short, nil
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", driver.ErrNotSent, err)
	}
	late, end := outlasting(ctx)
	defer end()
	r := a.b.runGrant(late, waitScript, a.args...)
	if r.err != nil && late.Err() != nil {
		r.err = ctx.Err()
	}
	reply, err = r.integers(3)
	return reply, r.short, err
}

// finishWithin is how much longer than its ctx a request for a place may take. One that was left
// behind could be carried out after the place was withdrawn: nobody would be there to have
// the lock when it is the place's turn.
const finishWithin = 50 * time.Millisecond

// outlasting is a context that ends finishWithin after ctx, or with end.
func outlasting(ctx context.Context) (late context.Context, end func()) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(finishWithin)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-late.Done():
		}
	})
	return late, func() {
		stop()
		cancel()
	}
}

// waiter is one call of Lock.
type waiter struct {
	n    uint64 // its number among those of the client
	lock string
	id   string
	line *line
	stir chan struct{} // signalled when there is news
	// Guarded by line.mu.
	inLine bool          // the server has said that it is
	sub    *subscription // for its messages
	news   news
}

// news is what a waiter was told since it last heard.
type news struct {
	ask   bool          // it was offered the lock, or does not know
	first time.Duration // it comes next, behind a lease with that much left; 0 if it was not told
}

// await returns when it is time to ask again, because it was told to or because the lease in
// the way, of which there is left, is over; or with what has ended the wait. News on two
// connections overtake each other: what they say can shorten the wait, and not prolong it.
func (w *waiter) await(ctx context.Context, timer *time.Timer, left time.Duration, closing <-chan struct{}) (news, error) {
	until := time.Now().Add(left)
	timer.Reset(left)
	for {
		select {
		case <-w.stir:
			n := w.hear()
			if n.ask {
				return n, nil
			}
			if end := time.Now().Add(n.first); n.first > 0 && end.Before(until) {
				until = end
				timer.Reset(n.first)
			}
		case <-timer.C:
			return news{}, nil
		case <-ctx.Done():
			return news{}, ctx.Err()
		case <-closing:
			return news{}, errClosing // its place in line stays for a while
		}
	}
}

// hear gives the news.
func (w *waiter) hear() news {
	w.line.mu.Lock()
	defer w.line.mu.Unlock()
	n := w.news
	w.news = news{}
	return n
}

// tell makes the waiter ask, or know when the lease in its way ends. line.mu is held.
func (w *waiter) tell(ask bool, first time.Duration) {
	n := &w.news
	n.ask = n.ask || ask
	if first > 0 && (n.first == 0 || first < n.first) {
		n.first = first
	}
	signal(w.stir)
}
