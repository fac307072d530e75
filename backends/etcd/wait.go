package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord/driver"
)

// wait returns when w is the first in the queue. If the wait ends without a grant, the entry is
// removed in the background, so that nobody waits for it.
func (b *backend) wait(ctx context.Context, w *waiter) (driver.Grant, error) {
	err := b.advance(clientv3.WithRequireLeader(ctx), w)
	if err == nil {
		return w.granted, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.state == waiting {
		b.remove(w.entry)
	}
	return driver.Grant{}, err
}

// advance follows one predecessor after the other until there is none.
func (b *backend) advance(ctx context.Context, w *waiter) error {
	const least, most = 5 * time.Millisecond, 500 * time.Millisecond
	pause := least
	for {
		granted, err := b.step(ctx, w)
		switch {
		case granted:
			return nil
		case err == nil:
			pause = least
			continue
		}
		if over := b.over(ctx, w, err); over != nil {
			return over
		}
		_ = b.calls.Pause(ctx, pause)
		pause = min(2*pause, most)
	}
}

// over gives the error of the wait if it is over after err: if ctx has ended, or the store has not answered, or has refused the
// user, for as long as the entry stays in the queue. A refusal is definite: to ask on is of no use. After an outage the entry
// may be there.
func (b *backend) over(ctx context.Context, w *waiter, err error) error {
	if ctx.Err() != nil {
		err = ended(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now, gone := time.Now(), errors.Is(err, errOver)
	lapsed := gone || !now.Before(w.lease.until())
	switch {
	case w.refusal != nil && (lapsed || now.Sub(w.refused) >= w.lease.ttl):
		return w.refusal
	case gone, ctx.Err() != nil, errors.Is(err, driver.ErrCorrupt):
		return err
	case w.refusal != nil || !lapsed:
		return nil
	case errors.Is(err, driver.ErrNotSent):
		return fmt.Errorf("etcd: the entry may still be in the queue: %v", err)
	}
	return err
}

// errOver: the entry no longer waits at the store.
var errOver = errors.New("etcd: the wait is over")

// step watches the predecessor, checks that it still exists, waits until it is gone, and looks who comes before w then.
func (b *backend) step(ctx context.Context, w *waiter) (granted bool, err error) {
	if err := b.stayAlive(ctx, w); err != nil {
		return false, err
	}
	if w.before == "" {
		return b.look(ctx, w)
	}
	p, noWatch := b.watchBefore(ctx, w)
	defer b.waits.end(p.watch)
	there, err := b.stillBehind(ctx, w)
	switch {
	case err != nil:
		return false, err
	case !there:
		return b.look(ctx, w)
	case noWatch != nil:
		return false, noWatch
	}
	return b.await(ctx, w, p)
}

// await waits until the predecessor is gone, and looks. Even if no other entry came first: only an answer that contains the
// own entry proves that it was not removed meanwhile.
func (b *backend) await(ctx context.Context, w *waiter, p *predecessor) (granted bool, err error) {
	looked := time.Now()
	tick := time.NewTimer(b.nextTick(w, looked))
	defer tick.Stop()
	for {
		select {
		case <-p.gone:
			return b.look(ctx, w)
		case <-p.lost:
			return false, errNoWatch
		case <-ctx.Done():
			return false, ended(ctx)
		case <-tick.C:
		}
		if err := b.stayAlive(ctx, w); err != nil {
			return false, err
		}
		if time.Since(looked) >= b.recheck {
			there, err := b.stillBehind(ctx, w)
			if err != nil {
				return false, err
			}
			if !there {
				defer p.pushed(b.waits, looked)
				return b.look(ctx, w)
			}
			looked = time.Now()
		}
		tick.Reset(b.nextTick(w, looked))
	}
}

const recheckEvery = 5 * time.Second

// nextTick returns for how long a waiter has nothing to do, if it last checked the queue at looked.
func (b *backend) nextTick(w *waiter, looked time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(0, min(time.Until(w.lease.due()), time.Until(looked.Add(b.recheck))))
}

// grantTo turns the entry into a hold, on a lease with enough time left.
func (b *backend) grantTo(ctx context.Context, w *waiter) error {
	began := time.Now()
	for move := b.mayMove(w.entry); ; move = true {
		if move {
			if err := b.moveWaiter(ctx, w); err != nil {
				return err
			}
		}
		b.mu.Lock()
		l := w.lease
		b.mu.Unlock()
		notBefore := b.ago(l, 2)
		if w.whole {
			notBefore = began
		}
		switch err := b.keepAlive(ctx, l, notBefore); {
		case errors.Is(err, errLapsed): // on to another lease
		case err != nil:
			return err
		default:
			if err := b.confirm(ctx, l); err != nil {
				return err
			}
			if !b.outdated(l) {
				return b.grantNow(w)
			}
		}
	}
}

// grantNow turns the entry into a hold on the lease that it has.
func (b *backend) grantNow(w *waiter) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.state != waiting {
		return errOver
	}
	w.endWait, w.granted = nil, b.hold(w.entry)
	return nil
}

// due is when a waiter keeps l alive: after a third of its time. All waiters of a lease share one keep-alive request.
// backend.mu is held.
func (l *lease) due() time.Time { return l.since.Add(l.ttl / 3) }

// stayAlive moves a waiter away from a lease that is not to be used, and keeps the lease alive if that is due. If the store
// refuses the move, the waiter stays on its lease, as a hold does. While the server refuses the user nothing is kept alive,
// which takes no user.
func (b *backend) stayAlive(ctx context.Context, w *waiter) error {
	now := time.Now()
	b.mu.Lock()
	l, usable, due := w.lease, w.lease.usable(), !now.Before(w.lease.due())
	b.mu.Unlock()
	if w.refusal != nil {
		return nil
	}
	if !usable {
		err := b.moveWaiter(ctx, w)
		if err == nil || errors.Is(err, errOver) {
			return err
		}
	}
	if !due {
		return nil
	}
	err := b.keepAlive(ctx, l, b.ago(l, 4))
	if usable && errors.Is(err, errLapsed) {
		err = b.moveWaiter(ctx, w)
	}
	return err
}

// moveWaiter binds a waiter to another lease. It takes a quarter of the lease's time at most, which leaves time to stay.
func (b *backend) moveWaiter(ctx context.Context, w *waiter) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(w.seconds)*time.Second/4)
	defer cancel()
	next, err := b.leaseFor(ctx, w.seconds)
	if err != nil {
		return err
	}
	b.mu.Lock()
	rec := record{name: w.name, create: w.create, value: w.value(w.id), lease: w.lease.id}
	b.mu.Unlock()
	switch there, err := b.rebind(ctx, w.place, rec, rec.value, next); {
	case err != nil:
		return err
	case !there:
		return b.ends(w, errEntryGone)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.state == waiting {
		b.bind(w.entry, next)
	}
	return nil
}
