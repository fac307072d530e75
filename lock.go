package coord

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/internal/errs"
)

// Lock is one handle on a hold. It is unlocked once. A re-entry by the same
// owner gives another handle on the same hold; the last Unlock frees the key.
//
// A hold is a lease, not a mutex: a process that is paused, or cut off from the
// store, can outlive it. The Lock says so through Done, Err and Context before
// anyone else is granted, as long as the process is scheduled and the clocks drift
// less than 1% of the TTL. Fence your writes with Token where that is not enough.
//
// All methods are safe for concurrent use.
type Lock struct {
	t        *tenure
	released atomic.Bool
	borrowed bool // handed out by Held: Do unlocks it
}

// Key is the key as it was given to Lock.
func (l *Lock) Key() string { return l.t.h.name }

// Token is the fencing token of the hold: strictly greater for each later
// holder of the key, and the same for every re-entry.
func (l *Lock) Token() Token { return l.t.token }

// TTL is the lease that the store granted, which is at least what was asked; of a lock
// that a store gave on to a waiter it may be less until the first renewal, which comes at once.
func (l *Lock) TTL() time.Duration { return l.t.ttl() }

// Deadline is until when the hold is certain without another renewal. It moves
// on with every renewal.
func (l *Lock) Deadline() time.Time { return l.t.h.c.clock.Time(l.t.deadline()) }

// Done is closed when the hold is lost, or unlocked by the last of its handles.
func (l *Lock) Done() <-chan struct{} { return l.t.doneChan() }

// Err is nil while the lock is held. It looks at the clocks itself, so a
// holder that was frozen past its deadline sees ErrLost in the first call after it
// resumes. After Unlock of this handle it is ErrNotHeld.
func (l *Lock) Err() error {
	if l.released.Load() {
		return l.t.h.c.fail("lock", l.Key(), ErrNotHeld)
	}
	if err := l.t.check(); err != nil {
		return l.t.h.c.fail("lock", l.Key(), err)
	}
	return nil
}

// Unlock gives the handle back; the last of a hold frees the key. It works
// under a cancelled ctx, and takes at most two seconds whatever the store does.
//
// ErrLost: the hold had ended before; someone else may have held the key since, so
// undo what you can. ErrNotHeld: this handle was unlocked before.
// ErrUnavailable: the store did not confirm in time; the hold is over all the
// same, the key is being freed in the background, and its lease bounds that.
func (l *Lock) Unlock(ctx context.Context) error {
	c := l.t.h.c
	if l.borrowed {
		return c.fail("unlock", l.Key(), errBorrowed)
	}
	if l.released.Swap(true) {
		return c.fail("unlock", l.Key(), ErrNotHeld)
	}
	last, now, err := l.t.leave()
	if err == nil && last {
		err = l.t.release(ctx, now)
	}
	if err != nil {
		l.t.tellLoss()
		return c.fail("unlock", l.Key(), err)
	}
	return nil
}

// Context derives a context for the work done under the lock. It is cancelled
// with cause ErrLost when the hold is lost, at the deadline at the latest, and
// with cause ErrNotHeld when the last handle is unlocked. Its Err looks at the
// clocks itself.
func (l *Lock) Context(parent context.Context) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithCancelCause(parent)
	w := &watcher{cancel: cancel}
	l.t.watch(w)
	return &holdCtx{inner, cancel, l}, func() {
		l.t.unwatch(w)
		cancel(context.Canceled)
	}
}

// watcher is a context that ends with the tenure.
type watcher struct {
	cancel context.CancelCauseFunc
	at     int // where it is in tenure.watchers; guarded by hold.mu
}

// holdCtx is a context bound to a hold.
type holdCtx struct {
	context.Context
	cancel context.CancelCauseFunc
	lock   *Lock
}

// Err notices a loss that no timer has told yet.
func (c *holdCtx) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	if err := c.lock.t.check(); err != nil {
		c.cancel(err) // the loss may be on its way here
	}
	return c.Context.Err()
}

// heldKey asks a context for the innermost holdCtx of a key.
type heldKey string

func (c *holdCtx) Value(key any) any {
	if k, ok := key.(heldKey); ok && c.lock.Key() == string(k) {
		return c
	}
	return c.Context.Value(key)
}

// binds reports whether ctx ends with l's hold, and Held of its key is l's.
func (l *Lock) binds(ctx context.Context) bool {
	bound, ok := ctx.Value(heldKey(l.Key())).(*holdCtx)
	return ok && bound.lock.t == l.t && bound.Done() == ctx.Done()
}

// Lock waits until it holds key, or ctx ends. See [Locker].
func (c *Client) Lock(ctx context.Context, key string, opts ...LockOption) (*Lock, error) {
	if c.observesLocks() {
		return c.observedLock(ctx, "lock", key, opts, false)
	}
	l, err := c.lock(ctx, key, opts, false, nil)
	if err != nil {
		return nil, c.failLock("lock", key, err)
	}
	return l, nil
}

// TryLock makes one attempt to hold key. See [Locker].
func (c *Client) TryLock(ctx context.Context, key string, opts ...LockOption) (*Lock, error) {
	if c.observesLocks() {
		return c.observedLock(ctx, "trylock", key, opts, true)
	}
	l, err := c.lock(ctx, key, opts, true, nil)
	if err != nil {
		return nil, c.failLock("trylock", key, err)
	}
	return l, nil
}

// lock is Lock and TryLock. w is nil unless they are observed.
func (c *Client) lock(ctx context.Context, key string, opts []LockOption, try bool, w *lockWatch) (*Lock, error) {
	cfg, err := c.lockConfig(opts)
	if err != nil {
		return nil, err
	}
	if try && cfg.given&fieldWait != 0 {
		return nil, errTryWait
	}
	if ctx.Err() != nil {
		return nil, errs.OfContext(ctx)
	}
	o := ownerOf(ctx)
	if o != nil {
		if l, err := o.reenter(c, key, cfg); l != nil || err != nil {
			return l, err
		}
	}
	full, err := c.fullKey(key)
	if err != nil {
		return nil, err
	}
	switch {
	case c.state.Load() == stateClosed:
		return nil, ErrClosed
	case c.locks.Locker == nil:
		return nil, ErrUnsupported
	}
	if cfg.wait > 0 && !try {
		bounded, cancel := context.WithTimeout(ctx, cfg.wait)
		defer cancel()
		ctx = bounded
	}
	a := &attempt{name: key, key: full, cfg: *cfg, owner: o}
	if o != nil {
		return c.lockOwned(ctx, a, try, w)
	}
	returned := false
	defer errs.IfPanics(&returned, func() { c.abandon(a) })
	t, err := c.run(ctx, a, try, w)
	returned = true
	if err != nil {
		c.abandon(a)
		return nil, err
	}
	return &t.first, nil
}
