package conformance_test

import (
	"context"
	"sync"

	"github.com/coordgo/coord/driver"
)

// Bugs of what an operator sees and does.
var operatorMutants = []mutant{
	{
		name: "break that frees at once", bug: "the next one is granted while the broken holder still works",
		new: on(func(s store) driver.Backend { return freeingBreak{s} }), killers: []string{"LOCK-96"},
	}, {
		name: "break of whoever holds", bug: "the id is not compared, so that the successor is hit",
		new: on(func(s store) driver.Backend { return blindBreak{s} }), killers: []string{"LOCK-96"},
	}, {
		name: "break that breaks nothing", bug: "it says that the hold is revoked, and the holder renews on",
		new: on(func(s store) driver.Backend { return idleBreak{s} }), killers: []string{"LOCK-96"},
	}, {
		name: "dead holder shown", bug: "Inspect reads the entry, and not whether it has ended",
		new: on(func(s store) driver.Backend { return ghost{s, new(sync.Map)} }), killers: []string{"LOCK-95"},
	}, {
		name: "another token shown", bug: "Inspect reads the counter, which the holder's token may be behind",
		new: on(func(s store) driver.Backend { return counterShown{s} }), killers: []string{"LOCK-95"},
	},
}

type freeingBreak struct{ store }

func (b freeingBreak) Break(ctx context.Context, key, id string) error { return b.Unlock(ctx, key, id) }

type blindBreak struct{ store }

func (b blindBreak) Break(ctx context.Context, key, _ string) error {
	h, err := b.Inspect(ctx, key)
	if err != nil {
		return err
	}
	return b.store.Break(ctx, key, h.ID)
}

type idleBreak struct{ store }

func (b idleBreak) Break(ctx context.Context, key, id string) error {
	if h, err := b.Inspect(ctx, key); err != nil || h.ID != id || h.Released {
		return driver.ErrNotHeld
	}
	return nil
}

// ghost remembers whom it has shown.
type ghost struct {
	store
	seen *sync.Map // key → driver.Holder
}

func (b ghost) Inspect(ctx context.Context, key string) (driver.Holder, error) {
	h, err := b.store.Inspect(ctx, key)
	if err == nil {
		b.seen.Store(key, h)
	} else if last, ok := b.seen.Load(key); ok {
		return last.(driver.Holder), nil
	}
	return h, err
}

type counterShown struct{ store }

func (b counterShown) Inspect(ctx context.Context, key string) (driver.Holder, error) {
	h, err := b.store.Inspect(ctx, key)
	h.Token++
	return h, err
}
