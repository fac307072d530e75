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
	return b.ask(ctx, key, r, false)
}

// ask asks for the lock. With waits set, whoever is refused has a place in the queue.
func (b *backend) ask(ctx context.Context, key string, r driver.Request, waits bool) (driver.Grant, error) {
	if err := b.beReady(ctx); err != nil {
		return driver.Grant{}, err
	}
	g, err := runWithin(ctx, b, b.options.timeout, b.asks.begin(r.ID), func(ctx context.Context, c conn) (g driver.Grant, err error) {
		var granted bool
		var left int64
		_, err = c.row(ctx, b.sql.lock, []any{[]byte(key), r.ID, ceil(r.TTL), waits, ceil(placeLasts(r.TTL))}, &granted, &g.Token, &left)
		switch {
		case err != nil:
			return g, err
		case !granted:
			return g, &driver.LockedError{Remaining: max(0, micro(left))}
		}
		g.TTL = max(r.TTL, micro(left))
		return g, nil
	})
	if err == nil {
		b.sweep()
	}
	return g, err
}

// Unlock implements driver.Locker.
func (b *backend) Unlock(ctx context.Context, key, id string) error {
	return b.unlock(ctx, key, id, 0)
}

// UnlockAfter implements driver.DelayedUnlocker.
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
	if err := b.asks.wait(ctx, id); err != nil {
		return err
	}
	_, err := run(ctx, b, func(ctx context.Context, c conn) (struct{}, error) {
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
	_, err := run(ctx, b, func(ctx context.Context, c conn) (struct{}, error) {
		n, err := c.count(ctx, b.sql.breakHold, []byte(key), id)
		if err == nil && n == 0 {
			err = driver.ErrNotHeld
		}
		return struct{}{}, err
	})
	return err
}

// Inspect implements driver.Inspector.
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
