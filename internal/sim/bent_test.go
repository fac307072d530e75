package sim

import (
	"context"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
)

// bent is a store of which some answers are changed. A nil field changes nothing. Those of locks are also asked for keys that
// several hold, with their part of the store as next.
type bent struct {
	store
	tryLock     func(next driver.Locker, key string, r driver.Request) (driver.Grant, error)
	lock        func(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error)
	renew       func(next driver.Locker, key string, r driver.Request) (driver.Grant, error)
	unlock      func(next driver.Locker, key, id string) error
	unlockAfter func(key, id string, d time.Duration) error
	breaks      func(key, id string) error
	holders     func([]driver.Holder) []driver.Holder
	take        func(key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error)
	takeAll     func(demands []driver.Demand) ([]driver.Taken, error)
	refund      func(key string, l driver.Limit, id string, n int) error
	charge      func(key string, l driver.Limit, n int) (driver.Charged, error)
}

var bg = context.Background()

func (b *bent) TryLock(_ context.Context, key string, r driver.Request) (driver.Grant, error) {
	if b.tryLock == nil {
		return b.store.TryLock(bg, key, r)
	}
	return b.tryLock(b.store, key, r)
}

func (b *bent) Lock(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
	if b.lock == nil {
		return b.store.Lock(ctx, key, r, waits)
	}
	return b.lock(ctx, key, r, waits)
}

func (b *bent) Renew(_ context.Context, key string, r driver.Request) (driver.Grant, error) {
	if b.renew == nil {
		return b.store.Renew(bg, key, r)
	}
	return b.renew(b.store, key, r)
}

func (b *bent) Unlock(_ context.Context, key, id string) error {
	if b.unlock == nil {
		return b.store.Unlock(bg, key, id)
	}
	return b.unlock(b.store, key, id)
}

func (b *bent) UnlockAfter(_ context.Context, key, id string, d time.Duration) error {
	if b.unlockAfter == nil {
		return b.store.UnlockAfter(bg, key, id, d)
	}
	return b.unlockAfter(key, id, d)
}

func (b *bent) Break(_ context.Context, key, id string) error {
	if b.breaks == nil {
		return b.store.Break(bg, key, id)
	}
	return b.breaks(key, id)
}

func (b *bent) BreakNow(_ context.Context, key, id string) error {
	return b.store.BreakNow(bg, key, id)
}

func (b *bent) Take(_ context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	if b.take == nil {
		return b.store.Take(bg, key, l, asks)
	}
	return b.take(key, l, asks)
}

func (b *bent) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (driver.TakenOne, error) {
	return driver.One(b.Take(ctx, key, l, []driver.Ask{a}))
}

func (b *bent) TakeAll(_ context.Context, demands []driver.Demand) ([]driver.Taken, error) {
	if b.takeAll == nil {
		return b.store.TakeAll(bg, demands)
	}
	return b.takeAll(demands)
}

func (b *bent) Refund(_ context.Context, key string, l driver.Limit, id string, n int) error {
	if b.refund == nil {
		return b.store.Refund(bg, key, l, id, n)
	}
	return b.refund(key, l, id, n)
}

func (b *bent) Charge(_ context.Context, key string, l driver.Limit, n int) (driver.Charged, error) {
	if b.charge == nil {
		return b.store.Charge(bg, key, l, n)
	}
	return b.charge(key, l, n)
}

func (b *bent) Shared() driver.SharedLocker { return bentShared{b.store.Shared(), b} }

// bentShared is the part of it for keys that several hold.
type bentShared struct {
	driver.SharedLocker
	b *bent
}

func (s bentShared) TryLock(_ context.Context, key string, r driver.Request) (driver.Grant, error) {
	if s.b.tryLock == nil {
		return s.SharedLocker.TryLock(bg, key, r)
	}
	return s.b.tryLock(s.SharedLocker, key, r)
}

func (s bentShared) Renew(_ context.Context, key string, r driver.Request) (driver.Grant, error) {
	if s.b.renew == nil {
		return s.SharedLocker.Renew(bg, key, r)
	}
	return s.b.renew(s.SharedLocker, key, r)
}

func (s bentShared) Unlock(_ context.Context, key, id string) error {
	if s.b.unlock == nil {
		return s.SharedLocker.Unlock(bg, key, id)
	}
	return s.b.unlock(s.SharedLocker, key, id)
}

func (s bentShared) Holders(_ context.Context, key string) ([]driver.Holder, error) {
	all, err := s.SharedLocker.Holders(bg, key)
	if s.b.holders != nil {
		all = s.b.holders(all)
	}
	return all, err
}

func (s bentShared) NotifyChanges(ctx context.Context, key string, changed func()) error {
	return s.SharedLocker.NotifyChanges(ctx, key, changed)
}

// notes is what a mutant remembers, over all clients.
type notes struct {
	mu    sync.Mutex
	began time.Time
	n     map[string]int64
	names map[string]string
}

func (m *notes) add(key string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.n[key]++
	return m.n[key]
}

// once reports whether it is called first for key after d.
func (m *notes) once(key string, d time.Duration) bool {
	return time.Since(m.began) > d && m.add(key) == 1
}

// swap gives the name that was noted for key, and notes another one.
func (m *notes) swap(key, name string) (last string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, m.names[key] = m.names[key], name
	return last
}
