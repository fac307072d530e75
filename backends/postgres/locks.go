package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/coordgo/coord/driver"
)

// TryLock implements driver.Locker.
func (b *backend) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if err := checkRequest(r); err != nil {
		return driver.Grant{}, err
	}
	a, err := b.ask(ctx, b.sql.take, key, r, 0)
	return a.Grant, err
}

// asked is the answer to a request for a lock.
type asked struct {
	driver.Grant
	granted bool
	left    time.Duration // of the lease in the way
	holder  string        // its id, if anybody holds it
	ahead   *int64        // how many are ahead in the queue; nil: it has no place there
}

// ask sends a request for a lock. A refusal is ErrLocked, beside which the answer says more to one that waits, whose place lasts
// so long.
func (b *backend) ask(ctx context.Context, sql, key string, r driver.Request, place time.Duration) (asked, error) {
	if err := b.beReady(ctx); err != nil {
		return asked{}, err
	}
	a, err := runWithin(ctx, b, ordinary, b.options.timeout, b.asks.Begin(r.ID), func(ctx context.Context, c conn) (a asked, err error) {
		var left int64
		args, to := []any{[]byte(key), r.ID, ceil(r.TTL)}, []any{&a.granted, &a.Token, &left, &a.holder}
		if place > 0 {
			args, to = append(args, place), append(to, &a.ahead)
		}
		_, err = c.row(ctx, sql, args, to...)
		a.left = max(0, micro(left))
		return a, err
	})
	switch {
	case err != nil:
		return asked{}, err
	case !a.granted:
		return a, &driver.LockedError{Remaining: a.left, Holder: a.holder}
	}
	a.TTL = max(r.TTL, a.left)
	b.sweep()
	return a, nil
}

// Unlock implements driver.Locker.
func (b *backend) Unlock(ctx context.Context, key, id string) error {
	return b.unlock(ctx, key, id, 0)
}

// UnlockAfter implements driver.Locker.
func (b *backend) UnlockAfter(ctx context.Context, key, id string, d time.Duration) error {
	if d > maxTTL {
		return fmt.Errorf("%w: delay %v: want at most %v", driver.ErrInvalid, d, maxTTL)
	}
	return b.unlock(ctx, key, id, max(d, 0))
}

func (b *backend) unlock(ctx context.Context, key, id string, d time.Duration) error {
	return b.endBy(ctx, id, b.sql.unlock, []byte(key), id, ceil(d))
}

// BreakNow implements driver.Breaker.
func (b *backend) BreakNow(ctx context.Context, key, id string) error {
	return b.endBy(ctx, id, b.sql.breakNow, []byte(key), id)
}

// endBy ends what id has, by a statement that reports whether there was anything.
func (b *backend) endBy(ctx context.Context, id, statement string, args ...any) error {
	if err := b.asks.Await(ctx, id); err != nil {
		return err
	}
	_, err := runWithin(ctx, b, ending, b.options.timeout, func() {}, func(ctx context.Context, c conn) (struct{}, error) {
		var ended bool
		_, err := c.row(ctx, statement, args, &ended)
		if err == nil && !ended {
			err = driver.ErrNotHeld
		}
		return struct{}{}, err
	})
	return err
}

// Break implements driver.Breaker.
func (b *backend) Break(ctx context.Context, key, id string) error {
	return b.breaks(ctx, b.sql.breakHold, key, id)
}

func (b *backend) breaks(ctx context.Context, sql, key, id string) error {
	_, err := run(ctx, b, func(ctx context.Context, c conn) (struct{}, error) {
		n, err := c.count(ctx, sql, []byte(key), id)
		if err == nil && n == 0 {
			err = driver.ErrNotHeld
		}
		return struct{}{}, err
	})
	return err
}

// Inspect implements driver.Operator.
func (b *backend) Inspect(ctx context.Context, key string) (driver.Holder, error) {
	return run(ctx, b, func(ctx context.Context, c conn) (h driver.Holder, err error) {
		var id string
		var token, left int64
		var kept bool
		var waiters int
		found, err := c.row(ctx, b.sql.inspect, []any{[]byte(key)}, &id, &token, &kept, &left, &waiters)
		switch {
		case err != nil:
			return h, notSent(err)
		case !found:
			return h, driver.ErrNotHeld
		}
		h = driver.NewHolder(id, token, max(0, micro(left)))
		h.Released, h.Waiters = kept, waiters
		return h, nil
	})
}

func checkRequest(r driver.Request) error {
	switch {
	case r.Share != driver.Share{}:
		return fmt.Errorf("%w: a lock is not shared", driver.ErrUnsupported)
	case r.Floor != 0:
		return fmt.Errorf("%w: a floor under the token", driver.ErrUnsupported)
	case r.TTL <= 0 || r.TTL > maxTTL:
		return fmt.Errorf("%w: TTL %v: want above 0, at most %v", driver.ErrInvalid, r.TTL, maxTTL)
	}
	return driver.CheckID(r.ID)
}

// ceil is d rounded up to what the server counts, microseconds.
func ceil(d time.Duration) time.Duration {
	return (d + time.Microsecond - 1).Truncate(time.Microsecond)
}

func micro(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
