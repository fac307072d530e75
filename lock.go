package coord

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/errs"
	"github.com/coordgo/coord/internal/hold"
	"github.com/coordgo/coord/internal/trace"
)

// Lock is one handle on a hold. It is unlocked once. A Lock of the same key under
// its Context gives another handle on the same hold; the last Unlock frees the key.
//
// A hold is a lease, not a mutex: a process that is paused, or cut off from the
// store, can outlive it. The Lock says so through Done, Err and Context before
// anyone else is granted, as long as the process is scheduled and the clocks drift
// less than 1% of the TTL. Fence your writes with Token where that is not enough.
//
// All methods are safe for concurrent use.
type Lock struct {
	h        *held
	released atomic.Bool
	borrowed bool // handed out by Held: Do unlocks it
	writes   bool // it is a writer's handle

	parent *Lock  // the entry that it has entered; nil: it is the root of its hold
	depth  int    // below the root
	owner  *owner // whose it is, if it was made by hand under WithOwner

	// guarded by held.mu
	left     bool // it was unlocked
	children int  // those that have not left, or have children themselves
}

var (
	errUnlocked = errs.Kind("this lock was unlocked before", ErrNotHeld)
	// errWaitOver is the cause of the context of a wait that WaitAtMost has ended: its caller may have set no deadline.
	errWaitOver = errs.Kind("WaitAtMost is over", context.DeadlineExceeded)
)

// Key is the key as it was given to Lock.
func (l *Lock) Key() string { return l.h.t.Name() }

// Token is the fencing token of the hold: strictly greater for each later
// holder of the key, and the same for every re-entry.
func (l *Lock) Token() Token { return l.h.t.Token() }

// TTL is the lease that the store granted, which is at least what was asked; of a lock
// that a store gave on to a waiter it may be less until the first renewal, which comes at once.
func (l *Lock) TTL() time.Duration { return l.h.t.TTL() }

// Deadline is until when the hold is certain without another renewal. It moves
// on with every renewal. After the machine has slept it is nearer by as much, as Err and Done are.
func (l *Lock) Deadline() time.Time { return l.h.t.Deadline() }

// Done is closed when the hold is lost, or unlocked by the last of its handles.
func (l *Lock) Done() <-chan struct{} { return l.h.t.Done() }

// Err is nil while the lock is held. It looks at the clocks itself, so a
// holder that was frozen past its deadline sees ErrLost in the first call after it
// resumes. After Unlock of this handle it is ErrNotHeld.
func (l *Lock) Err() error {
	if l.released.Load() {
		return l.h.c.fail("lock", l.Key(), errUnlocked)
	}
	if err := l.h.t.Check(); err != nil {
		return l.h.c.fail("lock", l.Key(), err)
	}
	return nil
}

// Unlock gives the handle back; the last of a hold frees the key. It works
// under a cancelled ctx, and takes at most two seconds whatever the store does.
//
// ErrLost: the hold had ended before; someone else may have held the key since, so
// undo what you can. ErrNotHeld: this handle was unlocked before.
// ErrUnavailable: the store did not confirm in time; the hold is over all the
// same, the key is being freed in the background, and its lease bounds that. If a writer becomes a reader by
// it, the next renewal asks the store again.
func (l *Lock) Unlock(ctx context.Context) error {
	if l.borrowed {
		return l.h.c.fail("unlock", l.Key(), errBorrowed)
	}
	if l.released.Swap(true) {
		return l.h.c.fail("unlock", l.Key(), errUnlocked)
	}
	last, shrinks, err := l.leave()
	switch {
	case last:
		err = l.h.t.Release(ctx)
	case shrinks && err == nil:
		err = l.h.t.Shrink(context.WithoutCancel(ctx), driver.Share{Mode: driver.Read})
	}
	if err != nil {
		l.h.t.TellLoss()
		return l.h.c.fail("unlock", l.Key(), asLoss(err))
	}
	return nil
}

// asLoss is err as Unlock tells it: a handle that was not unlocked before has
// lost its hold.
func asLoss(err error) error {
	if err == hold.ErrReleased {
		return ErrLost
	}
	return err
}

// Context derives a context for the work done under the lock. It is cancelled
// with cause ErrLost when the hold is lost, at the deadline at the latest, and
// with cause ErrNotHeld when the last handle is unlocked. Its Err looks at the
// clocks itself. A Do or Lock of the same key under it re-enters.
func (l *Lock) Context(parent context.Context) (context.Context, context.CancelFunc) {
	c := l.bind(parent)
	return c, func() { c.end(l) }
}

// holdCtx is a context bound to a hold.
type holdCtx struct {
	context.Context
	watcher hold.Watcher
	link         // its lock is nil while Cond.Wait has given it up
	ofDo    bool // it is of the function of a Do, which unlocks what lock is in the end
}

// bind makes a context that ends with l's hold.
func (l *Lock) bind(parent context.Context) *holdCtx {
	inner, cancel := context.WithCancelCause(parent)
	c := &holdCtx{Context: inner, watcher: hold.Watcher{Cancel: cancel}}
	c.entryKey, c.outer, c.bound = l.entryKey(), linkOf(parent), c
	c.lock.Store(l)
	l.h.t.Watch(&c.watcher)
	return c
}

// end ends c, which was made for first. It gives the lock that there is to unlock: first, or what a Wait has taken since.
func (c *holdCtx) end(first *Lock) *Lock {
	c.watcher.Cancel(context.Canceled) // first: a Wait that is still under way in another goroutine gives back what it takes
	l := c.lock.Load()
	if l == nil {
		return first
	}
	l.h.t.Unwatch(&c.watcher)
	return l
}

// Err notices a loss that no timer has told yet.
func (c *holdCtx) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	if l := c.lock.Load(); l != nil {
		if err := l.h.t.Check(); err != nil && c.lock.Load() == l { // else it was given up in a Wait
			c.watcher.Cancel(err) // the loss may be on its way here
		}
	}
	return c.Context.Err()
}

func (c *holdCtx) Value(key any) any {
	if _, ok := key.(linkKey); ok {
		return &c.link
	}
	return c.Context.Value(key)
}

// binds reports whether ctx ends with l's hold, and Held of its key is l's.
func (l *Lock) binds(ctx context.Context) bool {
	bound := boundIn(ctx, l.space(), l.Key())
	if bound == nil {
		return false
	}
	now := bound.lock.Load()
	return now != nil && now.h.t == l.h.t && bound.Done() == ctx.Done()
}

// boundIn is the innermost context in ctx that ends with a hold of key, whatever the client.
func boundIn(ctx context.Context, space space, key string) *holdCtx {
	for k := linkOf(ctx); k != nil; k = k.outer {
		if k.bound != nil && k.key == key && k.space == space {
			return k.bound
		}
	}
	return nil
}

// Lock waits until it holds key, or ctx ends. See [Locker].
func (c *Client) Lock(ctx context.Context, key string, opts ...LockOption) (*Lock, error) {
	return c.lock(ctx, "lock", driver.Share{}, key, opts, false)
}

// TryLock makes one attempt to hold key. See [Locker].
func (c *Client) TryLock(ctx context.Context, key string, opts ...LockOption) (*Lock, error) {
	return c.lock(ctx, "trylock", driver.Share{}, key, opts, true)
}

// lock is Lock and TryLock, of a Client or of a view of it.
func (c *Client) lock(ctx context.Context, op string, share driver.Share, key string, opts []LockOption, try bool) (*Lock, error) {
	ctx, w := c.traceLock(ctx, op, share, key)
	l, err := c.acquire(ctx, share, key, opts, try, w)
	if err != nil {
		err = c.failLock(op, key, err)
	}
	tellEnded(w, l, err)
	return l, err
}

// acquire is lock without its events and the text of its error.
func (c *Client) acquire(ctx context.Context, share driver.Share, key string, opts []LockOption, try bool, w *trace.Lock) (*Lock, error) {
	cfg, err := c.lockConfig(opts)
	if err != nil {
		return nil, err
	}
	space := spaceOf(share)
	if share, err = cfg.weigh(share); err != nil {
		return nil, err
	}
	if try && cfg.given&fieldWait != 0 {
		return nil, errTryWait
	}
	if ctx.Err() != nil {
		return nil, errs.ContextError(ctx)
	}
	if cfg.wait > 0 && !try {
		bounded, cancel := context.WithTimeoutCause(ctx, cfg.wait, errWaitOver)
		defer cancel()
		ctx = bounded
	}
	of := entryKey{c, space, key}
	l, o, err := c.reenter(ctx, of, cfg, share, try, w)
	if l != nil || err != nil {
		return l, err
	}
	full, err := c.fullKey(key)
	if err != nil {
		return nil, err
	}
	engine := c.locks
	if space != exclusive {
		full, engine = full+suffixes[space], c.shared
	}
	switch {
	case c.state.Load() == stateClosed:
		return nil, ErrClosed
	case engine == nil:
		return nil, ErrUnsupported
	}
	spec := cfg.spec(key, full, o)
	spec.Share = share
	if c.callers {
		spec.Holder = withCaller(spec.Holder)
	}
	if cfg.ofLead {
		spec.Holder += asLeader
	}
	a := &acquisition{}
	t, err := a.attempt.Run(ctx, engine, spec, try, w)
	if err != nil {
		return nil, err
	}
	l = a.handle(c, t, cfg, share)
	if o != nil {
		o.made(of, l)
	}
	return l, nil
}

// acquisition is a lock on its way, and the first handle on it: one allocation for all.
type acquisition struct {
	attempt hold.Attempt
	held    held
	first   Lock
}

// handle is the first handle on what the attempt was granted.
func (a *acquisition) handle(c *Client, t *hold.Tenure, cfg *lockConfig, share driver.Share) *Lock {
	a.held.c, a.held.t, a.held.cfg, a.held.share = c, t, cfg, share
	a.first.h = &a.held
	a.first.writes = share.Mode == driver.Write
	a.held.count(&a.first, 1)
	return &a.first
}
