// Package storetrace tells of every call on a store.
package storetrace

import (
	"context"
	"iter"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/internal/errs"
)

// Trace is told of calls.
type Trace struct {
	Clock  *clock.Clock
	Called func(ctx context.Context, op, key string, took time.Duration, err error)
}

func (t *Trace) now() time.Duration { return t.Clock.Mono() }

// called reports a call that was made at sent.
func (t *Trace) called(ctx context.Context, op, key string, sent time.Duration, err error) {
	t.Called(ctx, op, key, t.now()-sent, err)
}

// call makes a call that gives something, and tells of it.
func call[T any](ctx context.Context, t *Trace, op, key string, do func() (T, error)) (T, error) {
	sent := t.now()
	v, err := do()
	t.called(ctx, op, key, sent, err)
	return v, err
}

// run makes a call that gives an error alone, and tells of it.
func (t *Trace) run(ctx context.Context, op, key string, do func() error) error {
	sent := t.now()
	err := do()
	t.called(ctx, op, key, sent, err)
	return err
}

// Backend reports the calls of b that ask the store for locks and limits, and of those that an operator makes of keys.
func (t *Trace) Backend(b driver.Backend) driver.Backend { return &backend{locker{b, t}, store{b}} }

// backend has the methods of its locker, and of its store those that the locker has not.
type backend struct {
	locker
	store
}

type store struct{ driver.Backend }

func (b *backend) Lock(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
	return call(ctx, b.t, "lock", key, func() (driver.Grant, error) { return b.store.Lock(ctx, key, r, waits) })
}

func (b *backend) Shared() driver.SharedLocker {
	shared := b.store.Shared()
	return &sharedLocker{locker{shared, b.t}, sharedStore{shared}}
}

func (b *backend) Inspect(ctx context.Context, key string) (driver.Holder, error) {
	return call(ctx, b.t, "inspect", key, func() (driver.Holder, error) { return b.store.Inspect(ctx, key) })
}

// List tells, at its end, how long the store took for all keys together.
func (b *backend) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		sent := b.t.now()
		var failed error
		for key, err := range b.store.List(ctx, prefix) {
			yielded := b.t.now()
			failed = err
			more := yield(key, err)
			sent += b.t.now() - yielded
			if !more {
				break
			}
		}
		b.t.called(ctx, "list", prefix, sent, failed)
	}
}

func (b *backend) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	return call(ctx, b.t, "take", key, func() (driver.Taken, error) { return b.store.Take(ctx, key, l, asks) })
}

func (b *backend) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (driver.TakenOne, error) {
	return call(ctx, b.t, "take", key, func() (driver.TakenOne, error) { return b.store.TakeOne(ctx, key, l, a) })
}

func (b *backend) TakeAll(ctx context.Context, demands []driver.Demand) ([]driver.Taken, error) {
	return call(ctx, b.t, "takeall", "", func() ([]driver.Taken, error) { return b.store.TakeAll(ctx, demands) })
}

func (b *backend) Reset(ctx context.Context, key string, l driver.Limit) error {
	return b.t.run(ctx, "reset", key, func() error { return b.store.Reset(ctx, key, l) })
}

func (b *backend) Refund(ctx context.Context, key string, l driver.Limit, id string, n int) error {
	return b.t.run(ctx, "refund", key, func() error { return b.store.Refund(ctx, key, l, id, n) })
}

func (b *backend) Charge(ctx context.Context, key string, l driver.Limit, n int) (driver.Charged, error) {
	return call(ctx, b.t, "charge", key, func() (driver.Charged, error) { return b.store.Charge(ctx, key, l, n) })
}

// locker reports the calls that exclusive and shared holds have in common.
type locker struct {
	real interface {
		driver.Locker
		driver.Breaker
	}
	t *Trace
}

func (l locker) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return call(ctx, l.t, "trylock", key, func() (driver.Grant, error) { return l.real.TryLock(ctx, key, r) })
}

func (l locker) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return call(ctx, l.t, "renew", key, func() (driver.Grant, error) { return l.real.Renew(ctx, key, r) })
}

func (l locker) Unlock(ctx context.Context, key, id string) error {
	return l.t.run(ctx, "unlock", key, func() error { return l.real.Unlock(ctx, key, id) })
}

func (l locker) UnlockAfter(ctx context.Context, key, id string, after time.Duration) error {
	return l.t.run(ctx, "unlock", key, func() error { return l.real.UnlockAfter(ctx, key, id, after) })
}

func (l locker) RenewAll(ctx context.Context, holds []driver.Hold) []driver.Renewal {
	sent := l.t.now()
	answers := l.real.RenewAll(ctx, holds)
	if answers == nil {
		return nil // it has no such request
	}
	var err error // the first failure, as the request fails as a whole
	for _, a := range answers {
		if errs.StoreFailed(a.Err) {
			err = a.Err
			break
		}
	}
	l.t.called(ctx, "renewall", "", sent, err)
	return answers
}

func (l locker) Break(ctx context.Context, key, id string) error {
	return l.t.run(ctx, "break", key, func() error { return l.real.Break(ctx, key, id) })
}

func (l locker) BreakNow(ctx context.Context, key, id string) error {
	return l.t.run(ctx, "breaknow", key, func() error { return l.real.BreakNow(ctx, key, id) })
}

type sharedLocker struct {
	locker
	sharedStore
}

type sharedStore struct{ driver.SharedLocker }

func (l *sharedLocker) Holders(ctx context.Context, key string) ([]driver.Holder, error) {
	return call(ctx, l.t, "holders", key, func() ([]driver.Holder, error) { return l.sharedStore.Holders(ctx, key) })
}
