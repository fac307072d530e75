package conformance

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

// What cases do with whole clients.

// client opens a whole Client.
func (e *env) client(opts ...coord.Option) *coord.Client { return e.clientOn(e.open(), opts...) }

func (e *env) plain() *coord.Client { return e.client() }

func (e *env) clientOn(b driver.Backend, opts ...coord.Option) *coord.Client {
	opts = append([]coord.Option{coord.WithLogger(slog.New(slog.DiscardHandler))}, opts...)
	c, err := coord.New(e.under(b), opts...)
	if err != nil {
		e.Fatalf("coord.New: saw %v, want a client", err)
	}
	e.Cleanup(func() { e.close(c) })
	return c
}

// under is what a Client is opened on for b: b itself, but where a mutant is to look like a bug of package coord.
func (e *env) under(b driver.Backend) driver.Backend {
	if under := e.r.suite.Harness.under; under != nil {
		return under(b)
	}
	return b
}

// lock takes a lock that is free, or ends the case. A short lease may be over before its grant is seen, on a machine
// that runs neither this process nor the store in time: then it is asked for again.
func (e *env) lock(c coord.Locker, key string, opts ...coord.LockOption) *coord.Lock {
	return e.lockIn(e.ctx, c, key, opts...)
}

// lockIn is lock in a context of the case, such as an owner's.
func (e *env) lockIn(ctx context.Context, c coord.Locker, key string, opts ...coord.LockOption) *coord.Lock {
	ctx, cancel := context.WithTimeout(ctx, e.bound(soon))
	defer cancel()
	for n := 1; ; n++ {
		start := time.Now()
		l, err := c.Lock(ctx, key, opts...)
		if err == nil {
			return l
		}
		late := time.Since(start) > e.ttl/2 || errors.Is(err, driver.ErrNotSent)
		if e.timely() || ctx.Err() != nil || !errors.Is(err, coord.ErrUnavailable) || !late {
			e.Fatalf("Lock of a free key, attempt %d: saw %v, want a lock", n, err)
		}
	}
}

// given is the error of an Unlock or a Close. On a machine it may be that the store did not answer in time, which is
// told: what was held is freed in the background then, which the case sees at its end.
func (e *env) given(err error) error {
	if errors.Is(err, coord.ErrUnavailable) && !e.timely() {
		e.unconfirmed.Store(true)
		return nil
	}
	return err
}

// gaveBack fails the case on an error of an Unlock.
func (e *env) gaveBack(err error, what string) {
	if err := e.given(err); err != nil {
		e.Errorf("%s: saw %v, want nil", what, err)
	}
}

// lockFunc is Lock or TryLock of a Locker.
type lockFunc func(context.Context, string, ...coord.LockOption) (*coord.Lock, error)

func bothWays(l coord.Locker) map[string]lockFunc {
	return map[string]lockFunc{"Lock": l.Lock, "TryLock": l.TryLock}
}

// visit takes a lock and gives it back, in a goroutine.
func (e *env) visit(ctx context.Context, c coord.Locker, key string, opts ...coord.LockOption) <-chan error {
	return e.visitAs(ctx, func() {}, c, key, opts...)
}

// visitAs is visit that tells when it was granted.
func (e *env) visitAs(ctx context.Context, granted func(), c coord.Locker, key string, opts ...coord.LockOption) <-chan error {
	return async(func() error {
		l, err := c.Lock(ctx, key, opts...)
		if err != nil {
			return err
		}
		granted()
		return e.given(l.Unlock(e.ctx))
	})
}

// panics fails the case unless a panic of the function of op goes on.
func (e *env) panics(op string, call func(fn func(context.Context) error) error) {
	const bug = "a bug of the caller's"
	defer func() {
		if p := recover(); p != bug {
			e.Errorf("panic of the function of %s: saw %v, want it to go on", op, p)
		}
	}()
	err := call(func(context.Context) error { panic(bug) })
	e.Errorf("%s whose function panics: saw it return %v", op, err)
}
