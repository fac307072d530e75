package conformance_test

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/coordgo/coord"
)

// Bugs of DoAll and TryDoAll. Their store is sound.
var severalKeysMutants = []mutant{
	{
		name: "keys unsorted", bug: "several keys are taken in the order in which each caller names them (Redisson 1160)",
		new: holding(unsorted), killers: []string{"LOCK-261"},
	}, {
		name: "owner of a context", bug: "whoever shares a context is one holder: goroutines enter each other's lock", sound: "sharing",
		new: holding(ownerOfContext), killers: []string{"LOCK-358"},
	}, {
		name: "earlier keys kept", bug: "when one of several keys is refused, those taken before it stay taken (Redisson 4456)",
		new: holding(earlierKept), killers: []string{"LOCK-262", "LOCK-266"},
	}, {
		name: "keys released too early", bug: "several keys are given back at a cancellation or a loss, while their function still runs",
		new: holding(releasedEarly), killers: []string{"LOCK-262"},
	}, {
		name: "loss of the first key unseen", bug: "only the last of several keys ends the function's context, or the wait",
		new: holding(firstLossUnseen), killers: []string{"LOCK-263"},
	}, {
		name: "several keys of another owner", bug: "one of several keys that its caller holds already is waited for, by the caller",
		new: holding(otherOwner), killers: []string{"LOCK-264"},
	}, {
		name: "wait bounded for each key", bug: "several keys may be waited for as often as there are keys",
		new: holding(waitForEach), killers: []string{"LOCK-265"},
	},
}

type doAllFunc = func(ctx context.Context, try bool, l coord.Locker, keys []string, fn func(context.Context) error, opts ...coord.LockOption) (bool, error)

// holding makes a harness of a sound store with a DoAll.
func holding(doAll doAllFunc) func() harness {
	sound := sharing(sharedBug{})
	return func() harness { return sound().Holding(doAll) }
}

// soundDoAll is what the broken ones are made of.
func soundDoAll(ctx context.Context, try bool, l coord.Locker, keys []string, fn func(context.Context) error, opts ...coord.LockOption) (bool, error) {
	if try {
		return coord.TryDoAll(ctx, l, keys, fn, opts...)
	}
	return true, coord.DoAll(ctx, l, keys, fn, opts...)
}

// nested takes keys in their order, each by a DoAll of its own, inside whose function the others are taken under the
// context that inner makes.
func nested(inner func(context.Context) context.Context) doAllFunc {
	var next doAllFunc
	next = func(ctx context.Context, try bool, l coord.Locker, keys []string, fn func(context.Context) error, opts ...coord.LockOption) (bool, error) {
		if len(keys) == 0 {
			return true, fn(ctx)
		}
		all := false
		ran, err := soundDoAll(ctx, try, l, keys[:1], func(ctx context.Context) (err error) {
			all, err = next(inner(ctx), try, l, keys[1:], fn, opts...)
			return err
		}, opts...)
		return ran && all, err
	}
	return next
}

func plain(ctx context.Context) context.Context { return ctx }

// sorted has doAll take each key once, in their order.
func sorted(doAll doAllFunc) doAllFunc {
	return func(ctx context.Context, try bool, l coord.Locker, keys []string, fn func(context.Context) error, opts ...coord.LockOption) (bool, error) {
		return doAll(ctx, try, l, slices.Compact(slices.Sorted(slices.Values(keys))), fn, opts...)
	}
}

var (
	unsorted        = nested(plain)
	waitForEach     = sorted(nested(plain))
	firstLossUnseen = sorted(nested(context.WithoutCancel))
)

// twice takes each key twice for its owner: the second hold stays when the first is given back.
type twice struct {
	*coord.Client
	mu     sync.Mutex
	second []*coord.Lock
}

func (t *twice) Lock(ctx context.Context, key string, opts ...coord.LockOption) (*coord.Lock, error) {
	return t.again(ctx, key)(t.Client.Lock(ctx, key, opts...))
}

func (t *twice) TryLock(ctx context.Context, key string, opts ...coord.LockOption) (*coord.Lock, error) {
	return t.again(ctx, key)(t.Client.TryLock(ctx, key, opts...))
}

func (t *twice) again(ctx context.Context, key string) func(*coord.Lock, error) (*coord.Lock, error) {
	return func(first *coord.Lock, err error) (*coord.Lock, error) {
		if err != nil {
			return nil, err
		}
		inner, cancel := first.Context(ctx)
		defer cancel()
		second, err := t.Client.TryLock(inner, key)
		if err == nil {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.second = append(t.second, second)
		}
		return first, nil
	}
}

// earlierKept gives back everything only after a success.
func earlierKept(ctx context.Context, try bool, l coord.Locker, keys []string, fn func(context.Context) error, opts ...coord.LockOption) (bool, error) {
	t := &twice{Client: l.(*coord.Client)}
	ran, err := soundDoAll(ctx, try, t, keys, fn, opts...)
	if ran && err == nil {
		for _, l := range t.second {
			_ = l.Unlock(ctx)
		}
	}
	return ran, err
}

// owners are of contexts.
var owners sync.Map

// ownerOfContext takes the one key that there is by hand, for all goroutines of a context.
func ownerOfContext(ctx context.Context, try bool, l coord.Locker, keys []string, fn func(context.Context) error, opts ...coord.LockOption) (bool, error) {
	if try || len(keys) > 1 {
		return soundDoAll(ctx, try, l, keys, fn, opts...)
	}
	owner, _ := owners.LoadOrStore(ctx, coord.WithOwner(ctx))
	lock, err := l.Lock(owner.(context.Context), keys[0], opts...)
	if err != nil {
		return false, err
	}
	return true, errors.Join(fn(ctx), lock.Unlock(ctx))
}

func otherOwner(ctx context.Context, try bool, l coord.Locker, keys []string, fn func(context.Context) error, opts ...coord.LockOption) (bool, error) {
	return soundDoAll(coord.WithOwner(ctx), try, l, keys, fn, opts...)
}

func releasedEarly(ctx context.Context, try bool, l coord.Locker, keys []string, fn func(context.Context) error, opts ...coord.LockOption) (bool, error) {
	return soundDoAll(ctx, try, l, keys, unwaited(fn), opts...)
}
