package coord

import (
	"context"
	"errors"
	"fmt"

	"github.com/coordgo/coord/observe"
)

var (
	errTryWait  = fmt.Errorf("%w: WaitAtMost with TryLock, which does not wait", ErrInvalid)
	errBorrowed = fmt.Errorf("%w: this lock is Do's, which unlocks it", ErrInvalid)
)

// Do holds key while fn runs. fn's ctx ends with cause ErrLost when the hold
// is lost, and carries the lock: a Do or Lock of the same key under it re-enters.
// Goroutines that share ctx take turns inside the key, whether they share fn's or
// the caller's, and wait for each other within it.
// [Held] gives the lock, and so its fencing token, inside fn.
//
// Do returns fn's error. If the hold ended before fn returned, it returns
// errors.Join(fn's error, ErrLost), so that the caller rolls back. If the store
// did not confirm the release, that is logged and is no error: fn had the lock
// to its end. A panic of fn unlocks and goes on.
func Do(ctx context.Context, l Locker, key string, fn func(context.Context) error, opts ...LockOption) error {
	ctx, w := traceOf(l).Call(ctx, observe.Call{Op: "do", Key: key})
	returned, told := false, error(nil)
	defer func() { w.Ended(told, !returned) }()
	lock, err := l.Lock(ofNobody(ctx), key, opts...)
	if err == nil {
		err = lock.do(ctx, fn)
	}
	returned, told = true, err
	return err
}

// TryDo is Do with one attempt. ran is false, with a nil error, when someone
// else holds key; it is true when fn ran, whatever came of it.
func TryDo(ctx context.Context, l Locker, key string, fn func(context.Context) error, opts ...LockOption) (ran bool, err error) {
	ctx, w := traceOf(l).Call(ctx, observe.Call{Op: "trydo", Key: key})
	returned, told := false, error(nil)
	defer func() { w.Ended(told, !returned) }()
	lock, err := l.TryLock(ofNobody(ctx), key, opts...)
	if ran = err == nil; ran {
		err = lock.do(ctx, fn)
	}
	returned, told = true, err
	if !ran && errors.Is(err, ErrLocked) && ctx.Err() == nil {
		told, err = ErrLocked, nil
	}
	return ran, err
}

// do runs fn under l and unlocks.
func (l *Lock) do(ctx context.Context, fn func(context.Context) error) (err error) {
	inner, bound := ctx, (*holdCtx)(nil)
	if !l.binds(ctx) { // an outer Do of this hold may have done it
		bound = l.bind(ctx)
		inner, bound.ofDo = bound, true
	} else {
		c := withLink(ctx)
		c.link.entryKey = l.entryKey()
		c.link.lock.Store(l)
		inner = c
	}
	defer func() {
		if bound != nil {
			l = bound.end(l)
		}
		held := l.Err()
		uerr := l.Unlock(ctx)
		switch {
		case held != nil && errors.Is(held, ErrLost):
			err = errors.Join(err, held)
		case errors.Is(uerr, ErrNotHeld):
			if bound != nil && errors.Is(context.Cause(bound), ErrLost) { // a Wait that failed found the loss
				uerr = context.Cause(bound)
			}
			err = errors.Join(err, uerr)
		case uerr != nil:
			l.warnUnconfirmed(uerr)
		}
	}()
	return fn(inner)
}

func (l *Lock) warnUnconfirmed(err error) {
	l.h.c.log.Warn("coord: the store did not confirm the release of a lock; its lease ends it", "key", l.Key(), "error", err)
}

// Held gives the lock on key that an enclosing [Do] or [TryDo] holds.
// That call unlocks it: Unlock of this Lock is ErrInvalid.
func Held(ctx context.Context, key string) (*Lock, bool) {
	return heldIn(ctx, exclusive, key)
}

func heldIn(ctx context.Context, space space, key string) (*Lock, bool) {
	bound := boundIn(ctx, space, key)
	if bound == nil {
		return nil, false
	}
	l := bound.lock.Load()
	if l == nil {
		return nil, false
	}
	return &Lock{h: l.h, borrowed: true}, true
}
