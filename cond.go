package coord

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/errs"
	"github.com/coordgo/coord/internal/hold"
)

// Cond is a condition on a lock, as sync.Cond is on a mutex, over all clients of a store: who holds the lock of a key waits
// until others, who hold it later, have changed what it guards. Make it with [Client.Cond]. It is safe for concurrent use.
//
//	err := coord.Do(ctx, client, "buffer", func(ctx context.Context) error {
//		for isEmpty() {
//			if err := changed.Wait(ctx); err != nil {
//				return err
//			}
//		}
//		take()
//		return changed.Broadcast(ctx)
//	})
//
// What the lock guards is kept elsewhere: in a database, say.
type Cond struct {
	c   *Client
	key string
}

// Cond gives the condition of the lock of key. A key has one: all who wait for a change of what its lock guards are in it.
// On a store that does not claim driver.Shared, its calls are ErrUnsupported.
func (c *Client) Cond(key string) *Cond { return &Cond{c, key} }

// Wait gives up the lock of the key, waits for a signal, and takes the lock again with the same options: a new hold with a
// greater [Lock.Token]. ctx is that of the function of a [Do] or [TryDo] of the same client and key. That
// context goes on, and [Held] gives the new lock. Locks that Held gave before are ErrNotHeld.
//
// Wait may return without a signal, and takes the lock again after one TTL of it at the latest: test again what you wait for, in a loop.
// WaitAtMost and MaxWaiting do not bound it, ctx does.
//
// If Wait fails after it has given up the lock, as when ctx ends, the lock is not held: the function's context ends, and
// Do returns an error that is also ErrNotHeld. Before that it is ErrNotHeld without the lock, ErrLost if it was lost,
// and ErrInvalid if the lock was entered twice, also by another goroutine, or is of a [DoAll] or a [Lead], or ctx was
// detached from it. More waiters of a key than it may
// have holders (see [Client.ReadWrite]) are ErrUnsupported.
//
// It costs two requests beside those of Unlock and Lock, and reads of all waiters of the key: one after each signal and one
// a second where the store pushes changes, else up to 30 a second.
func (d *Cond) Wait(ctx context.Context) error {
	bound, l, err := d.held(ctx)
	if err == nil {
		err = mayWait(ctx, bound, l)
	}
	if err == nil {
		err = d.wait(ctx, bound, l)
	}
	return d.failed("wait", err)
}

// Signal wakes the one that has waited longest, if any waits. ctx is one under which the lock of the key is held: that of
// the function of a [Do], say. Without the lock it is ErrNotHeld, for what a waiter tests could change before it waits.
//
// A Signal to a waiter whose process has died wakes nobody until the lease of the waiter has ended: within one TTL the others wake by themselves. If the
// error is ErrUnknownOutcome or ErrUnavailable, call it again: one signal too many does no harm. It costs a read of all waiters of the
// key, and one request.
func (d *Cond) Signal(ctx context.Context) error { return d.signal(ctx, "signal", false) }

// Broadcast is Signal for all that wait, with one request for each.
func (d *Cond) Broadcast(ctx context.Context) error { return d.signal(ctx, "broadcast", true) }

func (d *Cond) signal(ctx context.Context, op string, all bool) error {
	_, _, err := d.held(ctx)
	if err == nil {
		err = d.wake(ctx, all)
	}
	return d.failed(op, err)
}

// failed is err as the call op tells it, unless a call inside it has told it already.
func (d *Cond) failed(op string, err error) error {
	if _, told := err.(*Error); err == nil || told {
		return err
	}
	return d.c.fail(op, d.key, err)
}

// held finds the lock in ctx.
func (d *Cond) held(ctx context.Context) (*holdCtx, *Lock, error) {
	if _, err := d.fullKey(); err != nil {
		return nil, nil, err
	}
	if ctx.Err() != nil {
		return nil, nil, errs.ContextError(ctx)
	}
	switch {
	case d.c.state.Load() == stateClosed:
		return nil, nil, ErrClosed
	case d.c.shared == nil:
		return nil, nil, ErrUnsupported
	}
	bound := boundIn(ctx, exclusive, d.key)
	if bound == nil {
		return nil, nil, fmt.Errorf("%w: no lock of this key in ctx: want the ctx of the function of Do", ErrNotHeld)
	}
	l := bound.lock.Load()
	switch {
	case l == nil || l.released.Load():
		return nil, nil, ErrNotHeld
	case l.h.c != d.c:
		return nil, nil, fmt.Errorf("%w: the lock in ctx is of another client", ErrInvalid)
	}
	return bound, l, l.h.t.Check()
}

// mayWait refuses a lock that cannot be given up whole.
func mayWait(ctx context.Context, bound *holdCtx, l *Lock) error {
	entered, _ := linkOf(ctx).entry(entryKey{l.h.c, exclusive, l.Key()})
	switch n := l.h.handlesNow(); {
	case !bound.ofDo:
		return fmt.Errorf("%w: ctx is not that of the function of Do or TryDo", ErrInvalid)
	case l.h.cfg.ofLead || l.h.cfg.ofSeveral:
		return fmt.Errorf("%w: the lock is of Lead or DoAll, which do not give it up: want Do", ErrInvalid)
	case n > 1:
		return errEnteredTwice(n)
	case entered != l:
		return fmt.Errorf("%w: ctx is detached from the lock, or under another handle on it", ErrInvalid)
	}
	return nil
}

func errEnteredTwice(n int) error {
	return fmt.Errorf("%w: the lock was entered %d times, and waiting would give up one of them: want once", ErrInvalid, n)
}

// wait is Wait of a lock that may wait.
func (d *Cond) wait(ctx context.Context, bound *holdCtx, l *Lock) error {
	cfg := l.h.cfg
	full, _ := d.fullKey()
	// A place is taken under the lock, so that whoever has it later signals this one too.
	var place hold.Place
	err := place.Take(ctx, d.c.shared, hold.Spec{
		Name: d.key, Key: full, Lease: roundTTL(cfg.ttl, d.c.info), Share: driver.Share{Mode: driver.Read},
		Holder: cfg.holder, Owner: (*owner)(nil), PassOn: func(ctx context.Context) error { return d.wake(ctx, false) },
	})
	if err != nil {
		return err
	}
	if !bound.lock.CompareAndSwap(l, nil) { // another goroutine waits in this context
		place.Withdraw()
		return ErrNotHeld
	}
	if !l.leaveAlone() { // entered since
		bound.lock.Store(l)
		place.Withdraw()
		return errEnteredTwice(2)
	}
	ended := false
	defer func() {
		if !ended { // an observer has ended the goroutine
			bound.fail(l, ErrUnknownOutcome)
			place.Withdraw()
		}
	}()
	if err = bound.giveUp(ctx, l); err == nil {
		err = place.Await(ctx, func(ctx context.Context) (bool, error) { return d.waits(ctx, full, place.ID()) })
	}
	if err == nil {
		err = bound.takeAgain(ctx, d.c, d.key, cfg)
	}
	ended = true
	if err != nil {
		bound.fail(l, err)
		place.Withdraw()
		return err
	}
	place.Leave()
	return nil
}

// giveUp unlocks l, which c had, and c goes on.
func (c *holdCtx) giveUp(ctx context.Context, l *Lock) error {
	l.h.t.Unwatch(&c.watcher)
	err := asLoss(l.h.t.Release(ctx))
	if err != nil {
		l.h.t.TellLoss()
		err = l.h.c.fail("unlock", l.Key(), err)
	}
	if err != nil && !errors.Is(err, ErrNotHeld) {
		l.warnUnconfirmed(err)
		err = nil
	}
	return err
}

// takeAgain binds c to a new hold of key.
func (c *holdCtx) takeAgain(ctx context.Context, client *Client, key string, cfg *lockConfig) error {
	l, err := client.Lock(ofNobody(ctx), key, LockOption{field: fieldOfWait, value: 1, again: cfg})
	if err != nil {
		return err
	}
	l.h.t.Watch(&c.watcher)
	c.lock.Store(l)
	if c.Context.Err() != nil { // Do may have returned before it saw l
		_ = l.Unlock(ctx)
		return errs.ContextError(c.Context)
	}
	return nil
}

// fail ends c, whose lock was given up and not taken again.
func (c *holdCtx) fail(l *Lock, err error) {
	c.watcher.Cancel(err)
	c.lock.CompareAndSwap(nil, l)
}

// wake ends the place of the one that has waited longest, or of all. Those that were broken wake by themselves.
func (d *Cond) wake(ctx context.Context, all bool) error {
	full, _ := d.fullKey()
	waiters, err := d.waiters(ctx, full)
	if err != nil {
		return err
	}
	for _, w := range waiters {
		switch err := d.c.store.shared.Unlock(ctx, full, w.ID); {
		case errors.Is(err, ErrNotHeld): // it has left
			continue
		case err != nil:
			return errs.OfStore(ctx, err, true)
		}
		d.c.shared.LossPushed(full, w.ID, ErrNotHeld) // a waiter of this client need not ask
		if !all {
			break
		}
	}
	return nil
}

// waits reports whether the place of id is still there.
func (d *Cond) waits(ctx context.Context, full, id string) (bool, error) {
	waiters, err := d.waiters(ctx, full)
	return slices.ContainsFunc(waiters, func(h Holder) bool { return h.ID == id }), err
}

// waiters gives those that wait, in the order in which they came.
func (d *Cond) waiters(ctx context.Context, full string) ([]Holder, error) {
	all, err := d.c.store.shared.Holders(ctx, full)
	if err != nil {
		return nil, errs.OfStore(ctx, err, false)
	}
	all = slices.DeleteFunc(all, func(h Holder) bool { return h.Released })
	slices.SortFunc(all, func(a, b Holder) int { return cmp.Compare(a.Token, b.Token) })
	return all, nil
}

// fullKey is the key of those that wait, as the store has it. Its error is that of every call.
func (d *Cond) fullKey() (string, error) {
	full, err := d.c.fullKey(d.key)
	return full + suffixes[condition], err
}
