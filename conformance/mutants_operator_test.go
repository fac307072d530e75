package conformance_test

import (
	"context"
	"errors"
	"iter"
	"strings"
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
		name: "kept key that stays", bug: "BreakNow is Unlock, and a key that is only kept taken has no holder",
		new: on(func(s store) driver.Backend { return keptStays{s} }), killers: []string{"LOCK-288"},
	}, {
		name: "break now of whatever is kept", bug: "BreakNow frees a key that is kept, and does not compare the id",
		new: on(func(s store) driver.Backend { return keptFreed{s} }), killers: []string{"LOCK-288"},
	}, {
		name: "break now of whoever holds", bug: "BreakNow does not compare the id, so that the next holder is hit",
		new: on(func(s store) driver.Backend { return anyoneFreed{s} }), killers: []string{"LOCK-97", "LOCK-288"},
	}, {
		name: "dead holder shown", bug: "Inspect reads the entry, and not whether it has ended",
		new: on(func(s store) driver.Backend { return ghost{s, new(sync.Map)} }), killers: []string{"LOCK-95"},
	}, {
		name: "another token shown", bug: "Inspect reads the counter, which the holder's token may be behind",
		new: on(func(s store) driver.Backend { return counterShown{s} }), killers: []string{"LOCK-95"},
	}, {
		name: "list of one page", bug: "List ends after the first page of keys",
		new: on(func(s store) driver.Backend { return firstPage{s} }), killers: []string{"LOCK-286"},
	}, {
		name: "list of the wrong prefix", bug: "List takes the prefix without the last byte, as a directory is listed",
		new: on(func(s store) driver.Backend { return directoryListed{s} }), killers: []string{"LOCK-286"},
	}, {
		name: "list of names as they are stored", bug: "List gives the keys as the store encodes them",
		new: on(func(s store) driver.Backend { return encodedListed{s} }), killers: []string{"LOCK-286"},
	}, {
		name: "list without what is kept", bug: "List leaves out a key that is kept taken and has no holder",
		new: on(func(s store) driver.Backend { return keptUnlisted{s} }), killers: []string{"LOCK-286"},
	}, {
		name: "list of locks alone", bug: "keys that several hold are not listed",
		new: on(func(s store) driver.Backend { return sharesUnlisted{s} }), killers: []string{"LOCK-286"},
	}, {
		name: "list of what has gone", bug: "a key stays listed when one of those who share it has gone",
		new: on(func(s store) driver.Backend { return goneListed{s, new(sync.Map)} }), killers: []string{"LOCK-286"},
	}, {
		name: "refusal that names who asks", bug: "the id of the request is put where the holder's belongs",
		new: on(func(s store) driver.Backend { return selfNamed{s} }), killers: []string{"LOCK-287"},
	}, {
		name: "refusal that names the holder before", bug: "the holder is remembered and not read",
		new: on(func(s store) driver.Backend { return longNamed{s, new(sync.Map)} }), killers: []string{"LOCK-287"},
	}, {
		name: "refusal that names whose hold was broken", bug: "a key that is only kept taken is said to be held",
		new: on(func(s store) driver.Backend { return keptNamed{s} }), killers: []string{"LOCK-287"},
	},
}

type selfNamed struct{ store }

func (b selfNamed) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	g, err := b.store.TryLock(ctx, key, r)
	return g, named(err, func(*driver.LockedError) string { return r.ID })
}

type longNamed struct {
	store
	first *sync.Map // key → id
}

func (b longNamed) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	g, err := b.store.TryLock(ctx, key, r)
	return g, named(err, func(l *driver.LockedError) string {
		id, _ := b.first.LoadOrStore(key, l.Holder)
		return id.(string)
	})
}

type keptNamed struct{ store }

func (b keptNamed) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	g, err := b.store.TryLock(ctx, key, r)
	return g, named(err, func(*driver.LockedError) string {
		h, _ := b.Inspect(ctx, key)
		return h.ID
	})
}

// named is a refusal with another holder.
func named(err error, holder func(*driver.LockedError) string) error {
	var locked *driver.LockedError
	if !errors.As(err, &locked) {
		return err
	}
	return &driver.LockedError{Remaining: locked.Remaining, Holder: holder(locked)}
}

type freeingBreak struct{ store }

func (b freeingBreak) Break(ctx context.Context, key, id string) error { return b.Unlock(ctx, key, id) }

type keptStays struct{ store }

func (b keptStays) BreakNow(ctx context.Context, key, id string) error { return b.Unlock(ctx, key, id) }

type keptFreed struct{ store }

func (b keptFreed) BreakNow(ctx context.Context, key, id string) error {
	if h, err := b.Inspect(ctx, key); err == nil && h.Released {
		id = h.ID
	}
	return b.store.BreakNow(ctx, key, id)
}

type anyoneFreed struct{ store }

func (b anyoneFreed) BreakNow(ctx context.Context, key, id string) error {
	if h, err := b.Inspect(ctx, key); err == nil {
		id = h.ID
	}
	return b.store.BreakNow(ctx, key, id)
}

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

type firstPage struct{ store }

func (b firstPage) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		n := 0
		for key, err := range b.store.List(ctx, prefix) {
			if n++; n > 10 || !yield(key, err) {
				return
			}
		}
	}
}

type directoryListed struct{ store }

func (b directoryListed) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return b.store.List(ctx, strings.TrimSuffix(prefix, "/"))
}

type encodedListed struct{ store }

func (b encodedListed) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for key, err := range b.store.List(ctx, prefix) {
			if !yield(strings.ReplaceAll(key, "%", "%25"), err) {
				return
			}
		}
	}
}

type keptUnlisted struct{ store }

func (b keptUnlisted) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for key, err := range b.store.List(ctx, prefix) {
			if h, _ := b.Inspect(ctx, key); !h.Released && !yield(key, err) {
				return
			}
		}
	}
}

type sharesUnlisted struct{ store }

func (b sharesUnlisted) Shared() driver.SharedLocker { return noneListed{b.store.Shared()} }

type noneListed struct{ driver.SharedLocker }

func (noneListed) List(context.Context, string) iter.Seq2[string, error] {
	return func(func(string, error) bool) {}
}

type goneListed struct {
	store
	taken *sync.Map
}

func (b goneListed) Shared() driver.SharedLocker { return everListed{b.store.Shared(), b.taken} }

type everListed struct {
	driver.SharedLocker
	taken *sync.Map
}

func (b everListed) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	g, err := b.SharedLocker.TryLock(ctx, key, r)
	if err == nil {
		b.taken.Store(key, nil)
	}
	return g, err
}

func (b everListed) List(_ context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		b.taken.Range(func(key, _ any) bool { return !strings.HasPrefix(key.(string), prefix) || yield(key.(string), nil) })
	}
}
