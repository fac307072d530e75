package coord

import "context"

// Locked makes of fn a function that runs under a lock, one call per key at a
// time over all clients of the store. key names the lock from the argument. fn's
// ctx ends when the lock is lost; [Held] gives the lock inside it. The errors are
// those of [Do].
func Locked[A, R any](l Locker, key func(A) string, fn func(context.Context, A) (R, error), opts ...LockOption) func(context.Context, A) (R, error) {
	return func(ctx context.Context, arg A) (result R, err error) {
		err = Do(ctx, l, key(arg), func(ctx context.Context) (err error) {
			result, err = fn(ctx, arg)
			return err
		}, opts...)
		return result, err
	}
}

// Limited makes of fn a function that takes a permit before it runs. Without a
// permit it does not run: the error is ErrLimited, an *Error with RetryAfter.
func Limited[A, R any](l Limiter, key func(A) string, limit Limit, fn func(context.Context, A) (R, error)) func(context.Context, A) (R, error) {
	return func(ctx context.Context, arg A) (R, error) {
		k := key(arg)
		r, err := l.Allow(ctx, k, limit)
		if err == nil && !r.Allowed {
			err = &Error{Op: "limited", Key: k, RetryAfter: r.RetryAfter, Err: ErrLimited}
		}
		if err != nil {
			var none R
			return none, err
		}
		return fn(ctx, arg)
	}
}
