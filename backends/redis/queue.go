package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordgo/coord/driver"
)

// Lock implements driver.Queuer. The server keeps the queue, in the order in which waiters came; see
// lua/offer.lua. The script that ends a hold also offers the lock to the first in the queue, for a short time, and
// sends its client a message. That waiter takes the lock by asking again. A waiter asks also when the lease in its
// way is over.
func (b *backend) Lock(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
	if err := checkRequest(r); err != nil {
		return driver.Grant{}, err
	}
	lock, fence := lockKeys(key)
	w, err := b.waiters.join(lock, r)
	if err != nil {
		return driver.Grant{}, err
	}
	defer b.waiters.leave(w)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	a := &acquisition{b: b, lock: lock, id: r.ID, args: []any{lock, fence, r.ID, b.ttl(r.TTL).lease, nil, ""}}
	for offered := false; ; {
		sent := a.subscribe(ctx, w)
		g, left, err := a.ask(ctx, offered)
		if left == 0 {
			return g, err
		}
		b.waiters.placed(w, sent)
		if waits != nil {
			waits()
			waits = nil
		}
		n, err := w.await(ctx, timer, left, b.calls.Life().Done())
		if err != nil {
			return driver.Grant{}, err
		}
		offered = n.ask
	}
}

// subscribe sets the channel of the waiter, and returns the epoch of its subscription.
func (a *acquisition) subscribe(ctx context.Context, w *waiter) subEpoch {
	e := a.b.waiters.subscriptionOf(ctx, a.lock)
	a.args[4] = w.record(e)
	return e.epoch()
}

// acquisition is a request for the lock, repeated until it is granted.
type acquisition struct {
	b        *backend
	lock, id string
	args     []any
	placed   bool // the server has confirmed the place in the queue
}

// ask returns a grant or an error, or else for how long to wait if no message comes.
func (a *acquisition) ask(ctx context.Context, offered bool) (g driver.Grant, left time.Duration, err error) {
	sent := time.Now()
	reply, short, err := a.run(ctx, offered)
	if err == nil {
		a.b.waiters.measured(time.Since(sent))
	}
	switch {
	case err != nil:
		return driver.Grant{}, 0, a.failure(ctx, err)
	case reply.at(0) == 0 && reply.at(1) == placeGone:
		a.placed, a.args[5] = false, ""
		return a.ask(ctx, false)
	case reply.at(0) == 0:
		if left, err = lockedFor(a.lock, reply); left == 0 {
			return driver.Grant{}, 0, err
		}
		a.placed, a.args[5] = true, "again"
		return driver.Grant{}, left, nil
	case short != nil:
		return driver.Grant{}, 0, a.b.giveBack(ctx, unlockScript, a.lock, a.id, short)
	}
	g, err = granted(reply)
	g.Since = sent
	return g, 0, err
}

// placeGone is the answer of wait.lua to who asks again and has no place any more: the queue was lost, or it was silent
// for too long. It asks again then.
const placeGone = -3

// failure turns the error of one request into that of the whole wait. That this request was not sent does not mean that
// earlier ones left nothing at the store.
func (a *acquisition) failure(ctx context.Context, err error) error {
	switch {
	case !a.placed || !errors.Is(err, driver.ErrNotSent) && !errors.Is(err, driver.ErrClosed):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	default: // err is definite, but only about one request: it is not wrapped
		return fmt.Errorf("redis: a place in the queue may be left: %v", err)
	}
}

// confirmWithin bounds a request that does not look at the cancellation of its ctx, so that it ends soon all the same.
const confirmWithin = 80 * time.Millisecond

// run runs the script. A waiter to which the lock is offered has little time: it asks in this goroutine, and asks again
// if that takes long. The first request may still reach the server after the hold, so that it only takes what is offered.
// With replicas to wait for, which may take longer, there is no such request.
func (a *acquisition) run(ctx context.Context, offered bool) (reply integers, short, err error) {
	if offered && a.b.options.replicas == 0 && ctx.Err() == nil {
		bound := driver.NewBound(ctx, confirmWithin)
		defer bound.Stop()
		r := a.b.runGrant(bound, confirmScript, a.args[:4]...)
		if reply, err := r.integers(3); err == nil && reply.at(0) != 0 {
			return reply, r.short, nil
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, driver.NotSent(err)
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

// finishWithin is how much longer than its ctx a request for a place may take. A request that was left behind could reach
// the server after the place was withdrawn: then the lock would be offered to nobody.
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
