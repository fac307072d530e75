package fault

import (
	"context"

	"github.com/coordgo/coord/driver"
)

// Shared implements [driver.Sharer]. The calls are recorded as "Shared.TryLock" and so on; where the backend shares no
// keys, they are ErrUnsupported.
func (f *faulty) Shared() driver.SharedLocker {
	inner := driver.SharedLocker(unshared{})
	if s, ok := f.inner.(driver.Sharer); ok {
		inner = s.Shared()
	}
	base := faultyShared{f.in, inner}
	_, breaks := inner.(driver.Breaker)
	_, notifies := inner.(driver.ChangeNotifier)
	switch {
	case breaks && notifies:
		return struct {
			faultyShared
			faultyBreaker
			faultyNotifier
		}{base, faultyBreaker(base), faultyNotifier(base)}
	case breaks:
		return struct {
			faultyShared
			faultyBreaker
		}{base, faultyBreaker(base)}
	case notifies:
		return struct {
			faultyShared
			faultyNotifier
		}{base, faultyNotifier(base)}
	}
	return base
}

// faultyShared is the part of the backend that shares keys, behind an Injector.
type faultyShared struct {
	in     *Injector
	locker driver.SharedLocker
}

func (f faultyShared) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return f.in.granted(ctx, "Shared.TryLock", key, r.ID, func(ctx context.Context) (driver.Grant, error) {
		return f.locker.TryLock(ctx, key, r)
	})
}

func (f faultyShared) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return f.in.granted(ctx, "Shared.Renew", key, r.ID, func(ctx context.Context) (driver.Grant, error) {
		return f.locker.Renew(ctx, key, r)
	})
}

func (f faultyShared) Unlock(ctx context.Context, key, id string) error {
	return f.in.do(ctx, "Shared.Unlock", key, id, func(ctx context.Context) error { return f.locker.Unlock(ctx, key, id) })
}

func (f faultyShared) Holders(ctx context.Context, key string) (all []driver.Holder, err error) {
	err = f.in.do(ctx, "Shared.Holders", key, "", func(ctx context.Context) (err error) {
		all, err = f.locker.Holders(ctx, key)
		return err
	})
	return all, err
}

// NotifyLost hands on the losses that the store knows of.
func (f faultyShared) NotifyLost(fn func(key, id string, cause error)) {
	if n, ok := f.locker.(driver.LossNotifier); ok {
		n.NotifyLost(fn)
	}
}

type faultyBreaker faultyShared

func (f faultyBreaker) Break(ctx context.Context, key, id string) error {
	return f.in.do(ctx, "Shared.Break", key, id, func(ctx context.Context) error {
		return f.locker.(driver.Breaker).Break(ctx, key, id)
	})
}

func (f faultyBreaker) BreakNow(ctx context.Context, key, id string) error {
	return f.in.do(ctx, "Shared.BreakNow", key, id, func(ctx context.Context) error {
		return f.locker.(driver.Breaker).BreakNow(ctx, key, id)
	})
}

type faultyNotifier faultyShared

func (f faultyNotifier) NotifyChanges(ctx context.Context, key string, changed func()) error {
	return f.in.do(ctx, "Shared.NotifyChanges", key, "", func(ctx context.Context) error {
		return f.locker.(driver.ChangeNotifier).NotifyChanges(ctx, key, changed)
	})
}

// unshared is what shares no keys.
type unshared struct{}

func (unshared) TryLock(context.Context, string, driver.Request) (driver.Grant, error) {
	return driver.Grant{}, driver.ErrUnsupported
}

func (unshared) Renew(context.Context, string, driver.Request) (driver.Grant, error) {
	return driver.Grant{}, driver.ErrUnsupported
}

func (unshared) Unlock(context.Context, string, string) error { return driver.ErrUnsupported }

func (unshared) Holders(context.Context, string) ([]driver.Holder, error) {
	return nil, driver.ErrUnsupported
}
