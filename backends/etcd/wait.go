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
	err := b.advance(ctx, w)
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
		err := b.step(ctx, w)
		switch {
		case errors.Is(err, errNext):
			pause = least
			continue
		case err == nil:
			return nil
		case errors.Is(err, driver.ErrCorrupt), errors.Is(err, errOver) && !errors.Is(err, errLeaseLost):
			return err
		case ctx.Err() != nil:
			return ended(ctx)
		}
		if over := b.lastsNot(w, err); over != nil {
			return over
		}
		if sleep(ctx, pause) != nil {
			return ended(ctx)
		}
		pause = min(2*pause, most)
	}
}

// lastsNot gives the error of the wait if it is over after err: if the store has not answered, or has refused the user, for as
// long as the entry stays in the queue. A refusal is definite: to ask on is of no use. After an outage the entry may be there.
func (b *backend) lastsNot(w *waiter, err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	lapsed := !now.Before(w.lease.until()) || errors.Is(err, errOver)
	switch {
	case w.refusal != nil && (lapsed || now.Sub(w.refused) >= w.lease.ttl):
		return w.refusal
	case w.refusal != nil || !lapsed:
		return nil
	case errors.Is(err, driver.ErrNotSent):
		return fmt.Errorf("etcd: the entry may still be in the queue: %v", err)
	}
	return err
}

var (
	// errNext: the predecessor changed, and there is another one.
	errNext = errors.New("etcd: the queue has moved")
	// errOver: the entry no longer waits at the store.
	errOver = errors.New("etcd: the wait is over")
)

// step watches the predecessor, checks that it still exists, and waits until it is gone. It returns nil when w is
// the first and granted.
//
// The watch begins at the current revision, and before the check. A watch from a past revision would be slower: the
// server serves it from its loop for slow watchers, every 100 ms.
func (b *backend) step(ctx context.Context, w *waiter) error {
	ctx, cancel := context.WithCancelCause(clientv3.WithRequireLeader(ctx))
	defer cancel(nil)
	ready := make(chan struct{})
	go func() { // only until await, which looks at w.gone itself
		select {
		case <-w.gone:
			cancel(errOver)
		case <-ready:
		}
	}()
	before, err := b.prepare(ctx, w)
	close(ready)
	if err != nil || w.before == "" {
		return b.orOver(w, err)
	}
	return b.orOver(w, b.await(ctx, w, before))
}

// prepare keeps the lease alive if that is due, begins the watch, and checks the queue.
func (b *backend) prepare(ctx context.Context, w *waiter) (*predecessor, error) {
	if err := b.stayAlive(ctx, w); err != nil {
		return nil, err
	}
	before, made := w.before, w.made
	seen := b.watchBefore(ctx, w)
	if err := b.stillBehind(ctx, w); err != nil || w.before == "" {
		return nil, err
	}
	switch {
	case w.before != before || w.made != made: // another entry, perhaps of the same name
		return nil, errNext
	case seen == nil:
		return nil, errors.New("etcd: no watch could be established")
	}
	return seen, nil
}

// orOver returns the reason why the entry is gone, if it is, else err.
func (b *backend) orOver(w *waiter, err error) error {
	select {
	case <-w.gone:
		b.mu.Lock()
		defer b.mu.Unlock()
		return fmt.Errorf("%w: %w", errOver, w.cause)
	default:
		return err
	}
}

// await waits until the predecessor is gone, and checks the queue again.
func (b *backend) await(ctx context.Context, w *waiter, p *predecessor) error {
	looked := time.Now()
	tick := time.NewTimer(b.nextTick(w, looked))
	defer tick.Stop()
	for {
		select {
		case <-p.gone:
			return b.moved(ctx, w)
		case <-p.lost:
			return errors.New("etcd: the watch ended")
		case <-tick.C:
			if err := b.stayAlive(ctx, w); err != nil {
				return err
			}
			if time.Since(looked) >= b.recheck {
				// This finds out whether an event was lost.
				before := w.before
				if err := b.stillBehind(ctx, w); err != nil || w.before == "" {
					return err
				}
				if w.before != before || w.made != p.made {
					return errNext
				}
				looked = time.Now()
			}
			tick.Reset(b.nextTick(w, looked))
		case <-w.gone:
			return errOver
		case <-ctx.Done():
			return ended(ctx)
		}
	}
}

// moved continues when the predecessor is gone. It reads the queue even if no other entry came first: only an answer that
// contains the own entry proves that it was not removed meanwhile.
func (b *backend) moved(ctx context.Context, w *waiter) error {
	if err := b.look(ctx, w); err != nil || w.before == "" {
		return err
	}
	return errNext
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
			if !b.isOutdated(l) {
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
	w.before, w.granted = "", b.hold(w.entry)
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
	l, usable, due, refused := w.lease, w.lease.usable(now), !now.Before(w.lease.due()), w.refusal != nil
	b.mu.Unlock()
	if refused {
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
	rec := record{name: w.name, create: w.create, value: heldValue(w.id), lease: w.lease.id}
	b.mu.Unlock()
	switch there, err := b.rebind(ctx, w.place, rec, rec.value, next); {
	case err != nil:
		return err
	case !there:
		b.lose(w.entry, errEntryGone)
		return errOver
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.state == waiting {
		b.bind(w.entry, next)
	}
	return nil
}
