package conformance_test

import (
	"context"
	"strings"
	"time"

	"github.com/coordgo/coord/driver"
)

// Bugs of how keys are encoded.
var keyMutants = []mutant{
	{
		name: "keys cut at a slash", bug: "the last part of a path is taken for a name",
		new: keyed(func(key string) string {
			if i := strings.LastIndexByte(key, '/'); i > 0 {
				return key[i:]
			}
			return key
		}), killers: []string{"LOCK-80", "LIMIT-33"},
	}, {
		name: "keys folded in case", bug: "a store whose collation ignores case (MySQL)",
		new: keyed(strings.ToLower), killers: []string{"LOCK-80", "LIMIT-33"},
	}, {
		name: "keys cut at their length", bug: "what is longer than the store's column is cut",
		new: keyed(func(key string) string { return key[:min(len(key), 250)] }), killers: []string{"LOCK-80", "LIMIT-33"},
	}, {
		name: "keys normalised", bug: "composed and decomposed letters are one (a file system of macOS)",
		new: keyed(strings.NewReplacer("e\u0301", "é").Replace), killers: []string{"LOCK-80", "LIMIT-33"},
	}, {
		name: "keys cleaned as paths", bug: "a//b is a/b",
		new: keyed(func(key string) string { return strings.ReplaceAll(key, "//", "/") }), killers: []string{"LOCK-80", "LIMIT-33"},
	}, {
		name: "lock and limit in one cell", bug: "a lock and a limit of the same name share a key of the store",
		new: on(func(s store) driver.Backend { return sharedCell{s} }), killers: []string{"CORE-05"},
	},
}

// keyed encodes keys so that different ones become the same.
func keyed(encode func(string) string) func() harness {
	return on(func(s store) driver.Backend { return collider{s, encode} })
}

type collider struct {
	store
	encode func(string) string
}

func (b collider) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return b.store.TryLock(ctx, b.encode(key), r)
}

func (b collider) Lock(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
	return b.store.Lock(ctx, b.encode(key), r, waits)
}

func (b collider) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return b.store.Renew(ctx, b.encode(key), r)
}

func (b collider) Unlock(ctx context.Context, key, id string) error {
	return b.store.Unlock(ctx, b.encode(key), id)
}

func (b collider) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	return b.store.Take(ctx, b.encode(key), l, asks)
}

// sharedCell deletes the limit together with the lock.
type sharedCell struct{ store }

func (b sharedCell) Unlock(ctx context.Context, key, id string) error {
	if err := b.Reset(ctx, key, driver.Limit{Rate: 2, Per: time.Hour, Algorithm: driver.SlidingWindow}); err != nil {
		return err
	}
	return b.store.Unlock(ctx, key, id)
}
