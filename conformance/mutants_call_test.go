package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/driver"
)

// Bugs of how calls end.
var callMutants = []mutant{
	{
		name: "unknown outcome told as a refusal", bug: "any error of an attempt becomes ErrLocked",
		new: on(func(s store) driver.Backend { return deafContext{s} }), killers: []string{"CORE-03"},
	}, {
		name: "applied, and told as not sent", bug: "a call whose context has ended is made all the same, and denied",
		new: on(func(s store) driver.Backend { return liar{s} }), killers: []string{"CORE-03"},
	}, {
		name: "context ignored", bug: "calls go on after their context has ended",
		new: on(func(s store) driver.Backend { return ignorant{s} }), killers: []string{"CORE-03"},
	}, {
		name: "goroutine left by Close", bug: "each client leaves one that nobody ends",
		new: on(leave), killers: []string{"LOCK-94"},
	}, {
		name: "Close that hangs", bug: "Close waits for holds that nobody can end any more",
		new: on(func(s store) driver.Backend { return &slowClose{store: s} }), killers: []string{"LOCK-92"},
	}, {
		name: "Close that can be called once", bug: "the second Close is an error",
		new: on(func(s store) driver.Backend { return &closeOnce{store: s} }), killers: []string{"CORE-04"},
	}, {
		name: "calls after Close succeed", bug: "Close closes nothing",
		new: on(func(s store) driver.Backend { return undead{s} }), killers: []string{"CORE-04"},
	},
}

type deafContext struct{ store }

func (b deafContext) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	g, err := b.store.TryLock(ctx, key, r)
	if errors.Is(err, context.Canceled) {
		err = driver.ErrLocked
	}
	return g, err
}

type liar struct{ store }

func (b liar) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	g, err := b.store.TryLock(context.WithoutCancel(ctx), key, r)
	if ctx.Err() != nil {
		return driver.Grant{}, fmt.Errorf("%w: %w", driver.ErrNotSent, ctx.Err())
	}
	return g, err
}

type ignorant struct{ store }

func (b ignorant) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return b.store.TryLock(context.WithoutCancel(ctx), key, r)
}

func (b ignorant) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	return b.store.Take(context.WithoutCancel(ctx), key, l, asks)
}

func leave(s store) driver.Backend {
	go time.Sleep(forever)
	return s
}

type slowClose struct {
	store
	holds atomic.Int32
}

func (b *slowClose) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	g, err := b.store.TryLock(ctx, key, r)
	if err == nil {
		b.holds.Add(1)
	}
	return g, err
}

func (b *slowClose) Unlock(ctx context.Context, key, id string) error {
	err := b.store.Unlock(ctx, key, id)
	if err == nil {
		b.holds.Add(-1)
	}
	return err
}

func (b *slowClose) Close() error {
	for start := time.Now(); b.holds.Load() > 0 && time.Since(start) < 6*time.Second; { // of for ever
		time.Sleep(10 * time.Millisecond)
	}
	b.holds.Store(0)
	return b.store.Close()
}

type closeOnce struct {
	store
	closed atomic.Bool
}

func (b *closeOnce) Close() error {
	if b.closed.Swap(true) {
		return driver.ErrClosed
	}
	return b.store.Close()
}

type undead struct{ store }

func (undead) Close() error { return nil }
