// Package storecall makes the calls of a client on its store. A panic of the driver becomes the error of the call, so that it
// ends no goroutine of the program and leaves nothing locked. An observer may be told of each call.
package storecall

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/observe"
)

// Calls is what the calls of one client have in common.
type Calls struct {
	Store string // its name
	Log   *slog.Logger
	Clock *clock.Clock
	// Called is told of each call that asks for locks and limits, or that an operator makes of a key; nil: nobody is.
	Called func(context.Context, observe.StoreCall)
}

// begins is when a call begins, if anybody is told.
func (c *Calls) begins() (now time.Duration) {
	if c.Called != nil {
		now = c.Clock.Mono()
	}
	return now
}

// ended is deferred. It tells of a call that began at began.
func (c *Calls) ended(ctx context.Context, op, key string, began time.Duration, err *error) {
	if c.Called != nil {
		c.Called(ctx, observe.StoreCall{Backend: c.Store, Op: op, Key: key, Took: c.Clock.Mono() - began, Err: *err})
	}
}

// catch is deferred, and makes a panic the error of the call. Its outcome is unknown.
func (c *Calls) catch(op string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%s panicked: %v", c.Store, p)
		c.Log.Error("coord: the store panicked", "backend", c.Store, "call", op, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	}
}

// Quietly makes a call that nobody is told of.
func (c *Calls) Quietly(op string, do func() error) (err error) {
	defer c.catch(op, &err)
	return do()
}

// call makes a call that gives something.
func call[T any](ctx context.Context, c *Calls, op, key string, do func() (T, error)) (v T, err error) {
	defer c.ended(ctx, op, key, c.begins(), &err)
	defer c.catch(op, &err)
	return do()
}

// run makes a call that gives an error alone.
func (c *Calls) run(ctx context.Context, op, key string, do func() error) (err error) {
	defer c.ended(ctx, op, key, c.begins(), &err)
	defer c.catch(op, &err)
	return do()
}

// Backend is b whose calls are made so.
func (c *Calls) Backend(b driver.Backend) driver.Backend { return &backend{locker{b, c}, store{b}} }

// backend has the methods of its locker, and of its store those that the locker has not.
type backend struct {
	locker
	store
}

type store struct{ driver.Backend }

func (b *backend) Lock(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
	return call(ctx, b.c, "lock", key, func() (driver.Grant, error) { return b.store.Lock(ctx, key, r, waits) })
}

func (b *backend) Shared() driver.SharedLocker {
	shared := b.store.Shared()
	return &sharedLocker{locker{shared, b.c}, sharedStore{shared}}
}

// Partition is "" where that is not known.
func (b *backend) Partition(key string) (part string) {
	var err error
	defer b.c.catch("partition", &err)
	return b.store.Partition(key)
}

func (b *backend) Inspect(ctx context.Context, key string) (driver.Holder, error) {
	return call(ctx, b.c, "inspect", key, func() (driver.Holder, error) { return b.store.Inspect(ctx, key) })
}

func (b *backend) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return b.c.list(ctx, prefix, b.store.List(ctx, prefix))
}

// list tells, at the end of a list, how long the store took for all keys together. A panic may be that of the loop.
func (c *Calls) list(ctx context.Context, prefix string, keys iter.Seq2[string, error]) iter.Seq2[string, error] {
	if c.Called == nil {
		return keys
	}
	return func(yield func(string, error) bool) {
		sent := c.Clock.Mono()
		var failed error
		for key, err := range keys {
			yielded := c.Clock.Mono()
			failed = err
			more := yield(key, err)
			sent += c.Clock.Mono() - yielded
			if !more {
				break
			}
		}
		c.ended(ctx, "list", prefix, sent, &failed)
	}
}

func (b *backend) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	return call(ctx, b.c, "take", key, func() (driver.Taken, error) { return b.store.Take(ctx, key, l, asks) })
}

func (b *backend) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (driver.TakenOne, error) {
	return call(ctx, b.c, "take", key, func() (driver.TakenOne, error) { return b.store.TakeOne(ctx, key, l, a) })
}

func (b *backend) TakeAll(ctx context.Context, demands []driver.Demand) ([]driver.Taken, error) {
	return call(ctx, b.c, "takeall", "", func() ([]driver.Taken, error) { return b.store.TakeAll(ctx, demands) })
}

func (b *backend) Reset(ctx context.Context, key string, l driver.Limit) error {
	return b.c.run(ctx, "reset", key, func() error { return b.store.Reset(ctx, key, l) })
}

func (b *backend) Refund(ctx context.Context, key string, l driver.Limit, id string, n int) error {
	return b.c.run(ctx, "refund", key, func() error { return b.store.Refund(ctx, key, l, id, n) })
}

func (b *backend) Charge(ctx context.Context, key string, l driver.Limit, n int) (driver.Charged, error) {
	return call(ctx, b.c, "charge", key, func() (driver.Charged, error) { return b.store.Charge(ctx, key, l, n) })
}

// locker makes the calls that exclusive and shared holds have in common.
type locker struct {
	real interface {
		driver.Locker
		driver.Breaker
	}
	c *Calls
}

func (l locker) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return call(ctx, l.c, "trylock", key, func() (driver.Grant, error) { return l.real.TryLock(ctx, key, r) })
}

func (l locker) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return call(ctx, l.c, "renew", key, func() (driver.Grant, error) { return l.real.Renew(ctx, key, r) })
}

func (l locker) Unlock(ctx context.Context, key, id string) error {
	return l.c.run(ctx, "unlock", key, func() error { return l.real.Unlock(ctx, key, id) })
}

func (l locker) UnlockAfter(ctx context.Context, key, id string, after time.Duration) error {
	return l.c.run(ctx, "unlock", key, func() error { return l.real.UnlockAfter(ctx, key, id, after) })
}

func (l locker) RenewAll(ctx context.Context, holds []driver.Hold) []driver.Renewal {
	began := l.c.begins()
	var answers []driver.Renewal
	failed := l.c.Quietly("renewall", func() error {
		answers = l.real.RenewAll(ctx, holds)
		return nil
	})
	switch {
	case failed != nil:
		answers = make([]driver.Renewal, len(holds))
		for i := range answers {
			answers[i].Err = failed
		}
	case answers == nil:
		return nil // it has no such request
	}
	for _, a := range answers { // the first failure, as the request fails as a whole
		if failed == nil && (observe.StoreCall{Err: a.Err}).Failed() {
			failed = a.Err
		}
	}
	l.c.ended(ctx, "renewall", "", began, &failed)
	return answers
}

func (l locker) Break(ctx context.Context, key, id string) error {
	return l.c.run(ctx, "break", key, func() error { return l.real.Break(ctx, key, id) })
}

func (l locker) BreakNow(ctx context.Context, key, id string) error {
	return l.c.run(ctx, "breaknow", key, func() error { return l.real.BreakNow(ctx, key, id) })
}

type sharedLocker struct {
	locker
	sharedStore
}

type sharedStore struct{ driver.SharedLocker }

func (l *sharedLocker) Holders(ctx context.Context, key string) ([]driver.Holder, error) {
	return call(ctx, l.c, "holders", key, func() ([]driver.Holder, error) { return l.sharedStore.Holders(ctx, key) })
}

func (l *sharedLocker) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return l.c.list(ctx, prefix, l.sharedStore.List(ctx, prefix))
}

func (l *sharedLocker) NotifyChanges(ctx context.Context, key string, changed func()) error {
	return l.c.Quietly("notifychanges", func() error { return l.sharedStore.NotifyChanges(ctx, key, changed) })
}
