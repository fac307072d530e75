// Package wrap makes of a function one that takes a lock or a permit before it runs.
//
//	ship := wrap.Locked(client, orderKey, db.ship, coord.TTL(20*time.Second))
//	shipped, err := ship(ctx, order)
//
// The wrappers nest: Locked of a Limited function takes the lock first, Limited of a Locked
// one the permit. The function may be a method value, or [NoResult] of one that gives none.
package wrap

import (
	"context"
	"fmt"
	"time"

	"github.com/coordgo/coord"
)

// Locked makes of fn a function that runs under a lock, one call per key at a
// time over all clients of the store. key names the lock from the argument. fn's
// ctx ends when the lock is lost; [coord.Held] gives the lock inside it, and a call under that
// ctx re-enters. The errors are those of [coord.Do]; with coord.ErrLost and fn's own comes fn's
// result too.
func Locked[A, R any](l coord.Locker, key func(A) string, fn func(context.Context, A) (R, error), opts ...coord.LockOption) func(context.Context, A) (R, error) {
	return func(ctx context.Context, arg A) (result R, err error) {
		err = coord.Do(ctx, l, key(arg), func(ctx context.Context) (err error) {
			result, err = fn(ctx, arg)
			return err
		}, opts...)
		return result, err
	}
}

// TryLocked is Locked with one attempt: while someone else holds the key, fn does not run
// and the error is coord.ErrLocked.
func TryLocked[A, R any](l coord.Locker, key func(A) string, fn func(context.Context, A) (R, error), opts ...coord.LockOption) func(context.Context, A) (R, error) {
	return func(ctx context.Context, arg A) (result R, err error) {
		k := key(arg)
		ran, err := coord.TryDo(ctx, l, k, func(ctx context.Context) (err error) {
			result, err = fn(ctx, arg)
			return err
		}, opts...)
		if !ran && err == nil {
			err = &coord.Error{Op: "trylock", Key: k, Err: coord.ErrLocked}
		}
		return result, err
	}
}

// Limited makes of fn a function that takes a permit before it runs. Without a
// permit it does not run: the error is coord.ErrLimited, a *coord.Error with RetryAfter.
func Limited[A, R any](l coord.Limiter, key func(A) string, limit coord.Limit, fn func(context.Context, A) (R, error)) func(context.Context, A) (R, error) {
	return func(ctx context.Context, arg A) (none R, err error) {
		k := key(arg)
		r, err := l.Allow(ctx, k, limit)
		if err == nil && !r.Allowed {
			err = &coord.Error{Op: "limited", Key: k, RetryAfter: r.RetryAfter, Err: coord.ErrLimited}
		}
		if err != nil {
			return none, err
		}
		return fn(ctx, arg)
	}
}

// LimitedWait is Limited that waits for its permit: as long as ctx allows, and at most for
// wait unless that is 0. A wait that cannot end in time fails at once, with coord.ErrLimited. fn has
// the whole of ctx.
func LimitedWait[A, R any](l coord.Limiter, key func(A) string, limit coord.Limit, wait time.Duration, fn func(context.Context, A) (R, error)) func(context.Context, A) (R, error) {
	return func(ctx context.Context, arg A) (none R, err error) {
		if err := waitAtMost(ctx, l, key(arg), limit, wait); err != nil {
			return none, err
		}
		return fn(ctx, arg)
	}
}

// waitAtMost is Wait for a bounded time, where wait is not 0.
func waitAtMost(ctx context.Context, l coord.Limiter, key string, limit coord.Limit, wait time.Duration) error {
	switch {
	case wait < 0:
		return &coord.Error{Op: "limited", Key: key, Err: fmt.Errorf("%w: a wait of %v: want 0 or above", coord.ErrInvalid, wait)}
	case wait > 0:
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	return l.Wait(ctx, key, limit)
}

// NoResult makes a function without a result one for the wrappers.
func NoResult[A any](fn func(context.Context, A) error) func(context.Context, A) (struct{}, error) {
	return func(ctx context.Context, arg A) (struct{}, error) { return struct{}{}, fn(ctx, arg) }
}
