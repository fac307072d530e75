package coordtest

import (
	"context"

	"github.com/coordgo/coord/driver"
)

// Shared gives the part that shares keys: read/write locks and semaphores meet the same faults, and are looked for at the end
// of the test.
func (l *lossy) Shared() driver.SharedLocker { return sharedLossy{l: l, real: l.real.Shared()} }

type sharedLossy struct {
	driver.Unimplemented
	l    *lossy
	real driver.SharedLocker
}

var _ driver.SharedLocker = sharedLossy{}

func (s sharedLossy) NotifyLost(fn func(key, id string, cause error)) { s.l.lostShare = fn }

func (s sharedLossy) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	g, err := through(ctx, s.l.faults, func() (driver.Grant, error) { return s.real.TryLock(ctx, key, r) })
	s.l.note(key, r.ID, err)
	return g, err
}

func (s sharedLossy) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return through(ctx, s.l.faults, func() (driver.Grant, error) { return s.real.Renew(ctx, key, r) })
}

func (s sharedLossy) Unlock(ctx context.Context, key, id string) error {
	s.l.forget(key, id)
	return s.l.faults.try(ctx, func() error { return s.real.Unlock(ctx, key, id) })
}

func (s sharedLossy) Break(ctx context.Context, key, id string) error {
	return s.l.faults.try(ctx, func() error { return s.real.Break(ctx, key, id) })
}

func (s sharedLossy) BreakNow(ctx context.Context, key, id string) error {
	return s.l.faults.try(ctx, func() error { return s.real.BreakNow(ctx, key, id) })
}

func (s sharedLossy) Holders(ctx context.Context, key string) ([]driver.Holder, error) {
	return through(ctx, s.l.faults, func() ([]driver.Holder, error) { return s.real.Holders(ctx, key) })
}

// NotifyChanges ends when the store is cut off: then the head of the queue polls.
func (s sharedLossy) NotifyChanges(ctx context.Context, key string, changed func()) error {
	reach, err := s.l.faults.arrive(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(reach, cancel)()
	return s.real.NotifyChanges(ctx, key, changed)
}

// shares reports whether the store still has h as one of those who share its key.
func (l *lossy) shares(h hold) bool {
	holders, err := l.real.Shared().Holders(context.Background(), h.key)
	if err != nil {
		return false
	}
	for _, now := range holders {
		if now.ID == h.id && !now.Released {
			return true
		}
	}
	return false
}
