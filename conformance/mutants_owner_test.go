package conformance_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
)

// Bugs of who holds.
var ownerMutants = []mutant{
	{
		name: "release without comparing the owner", bug: "Unlock deletes whatever is there (the classic DEL)",
		new: on(func(s store) driver.Backend { return blindRelease{s} }), killers: []string{"LOCK-02", "LOCK-32"},
	}, {
		name: "release that always says yes", bug: "Unlock by a stranger changes nothing, and says that it did",
		new: on(func(s store) driver.Backend { return gladUnlock{s} }), killers: []string{"LOCK-02", "LOCK-32", "LOCK-33"},
	}, {
		name: "release of a lapsed hold succeeds", bug: "an Unlock that comes after the lease hides the loss (etcd's Unlock after revocation)",
		new: on(func(s store) driver.Backend { return lateUnlock{s, new(sync.Map)} }), killers: []string{"LOCK-32"},
	}, {
		name: "repeated attempt refused", bug: "a retry after a lost reply is refused by its own hold (go-redis#2985)",
		new: on(func(s store) driver.Backend { return strictTry{s} }), killers: []string{"LOCK-30"},
	}, {
		name: "repeated attempt gets a new token", bug: "the counter is raised before the owner is compared",
		new: on(func(s store) driver.Backend { return countingTry{s} }), killers: []string{"LOCK-30"},
	}, {
		name: "lost reply answered from a cache", bug: "a repeated attempt gets its old grant although that lease is over: two hold",
		new: on(func(s store) driver.Backend { return cachedTry{s, new(sync.Map)} }), killers: []string{"LOCK-31"},
	}, {
		name: "checked, then set", bug: "TryLock reads in one step and writes in another",
		new: on(func(s store) driver.Backend { return twoStepTry{s} }), killers: []string{"LOCK-03"},
	}, {
		name: "lock of one client", bug: "the state is kept in the client, and not in the store",
		new: apart(true), killers: []string{"LOCK-02", "LOCK-03"},
	},
}

type harness = conformance.Harness

// apart gives each client a store of its own, for the locks or for the limits.
func apart(locks bool) func() harness {
	return on(func(s store) driver.Backend {
		own := memory.New()
		if locks {
			return ownLocks{s, own}
		}
		return ownLimits{s, own}
	})
}

type ownLocks struct {
	store
	own store
}

func (b ownLocks) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return b.own.TryLock(ctx, key, r)
}

func (b ownLocks) Lock(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
	return b.own.Lock(ctx, key, r, waits)
}

func (b ownLocks) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return b.own.Renew(ctx, key, r)
}

func (b ownLocks) Unlock(ctx context.Context, key, id string) error {
	return b.own.Unlock(ctx, key, id)
}

func (b ownLocks) Close() error { return errors.Join(b.own.Close(), b.store.Close()) }

type blindRelease struct{ store }

func (b blindRelease) Unlock(ctx context.Context, key, id string) error {
	h, err := b.Inspect(ctx, key)
	if err != nil {
		return err
	}
	return b.store.Unlock(ctx, key, h.ID)
}

type gladUnlock struct{ store }

func (b gladUnlock) Unlock(ctx context.Context, key, id string) error {
	if err := b.store.Unlock(ctx, key, id); !errors.Is(err, driver.ErrNotHeld) {
		return err
	}
	return nil
}

// lateUnlock remembers who was granted and has not unlocked.
type lateUnlock struct {
	store
	granted *sync.Map
}

func (b lateUnlock) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	g, err := b.store.TryLock(ctx, key, r)
	if err == nil {
		b.granted.Store(r.ID, true)
	}
	return g, err
}

func (b lateUnlock) Unlock(ctx context.Context, key, id string) error {
	err := b.store.Unlock(ctx, key, id)
	if _, was := b.granted.LoadAndDelete(id); was && errors.Is(err, driver.ErrNotHeld) {
		return nil
	}
	return err
}

type strictTry struct{ store }

func (b strictTry) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if _, err := b.Inspect(ctx, key); err == nil {
		return driver.Grant{}, driver.ErrLocked
	}
	return b.store.TryLock(ctx, key, r)
}

type countingTry struct{ store }

func (b countingTry) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	h, held := b.Inspect(ctx, key)
	g, err := b.store.TryLock(ctx, key, r)
	if held == nil && h.ID == r.ID {
		g.Token++
	}
	return g, err
}

// cachedTry is of a client library that answers a repeated request by itself.
type cachedTry struct {
	store
	answers *sync.Map // id → driver.Grant
}

func (b cachedTry) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if g, ok := b.answers.Load(r.ID); ok {
		return g.(driver.Grant), nil
	}
	g, err := b.store.TryLock(ctx, key, r)
	if err == nil {
		b.answers.Store(r.ID, g)
	}
	return g, err
}

func (b cachedTry) Unlock(ctx context.Context, key, id string) error {
	b.answers.Delete(id)
	return b.store.Unlock(ctx, key, id)
}

// twoStepTry overwrites a hold that came between its two steps.
type twoStepTry struct{ store }

func (b twoStepTry) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if h, err := b.Inspect(ctx, key); err == nil && h.ID != r.ID {
		return driver.Grant{}, driver.ErrLocked
	}
	time.Sleep(200 * time.Microsecond) // the way to the store and back
	for {
		g, err := b.store.TryLock(ctx, key, r)
		if !errors.Is(err, driver.ErrLocked) {
			return g, err
		}
		if h, err := b.Inspect(ctx, key); err == nil {
			_ = b.Unlock(ctx, key, h.ID) // or it has gone by itself
		}
	}
}
