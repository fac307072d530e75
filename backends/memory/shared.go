package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/holders"
)

// sharedKey is a key that several hold, and those who want to know of its changes.
type sharedKey struct {
	record   holders.Record
	watchers map[*watcher]struct{}
}

// watcher is one call of NotifyChanges.
type watcher struct{ changed func() }

var sharedRules = holders.Rules{MaxHolders: driver.MaxHolders}

// sharedIdle reports whether the key says no more than its absence would: tokens come from the store.
func (s *Store) sharedIdle(k *sharedKey, now instant) bool {
	return len(k.watchers) == 0 && !s.clock.at(now).Before(k.record.End())
}

// Shared implements driver.Backend.
func (b *backend) Shared() driver.SharedLocker { return sharedLocker{b: b} }

type sharedLocker struct {
	driver.Unimplemented
	b *backend
}

var _ driver.SharedLocker = sharedLocker{}

// TryLock makes one attempt, without waiting.
func (l sharedLocker) TryLock(ctx context.Context, key string, r driver.Request) (g driver.Grant, err error) {
	if err = l.check(ctx, key, r); err != nil {
		return g, err
	}
	l.change(key, func(k *sharedKey, now time.Time) {
		k.record.Token = l.b.store.tokens.Add(1) // the key's own may have been forgotten
		g, err = k.record.TryLock(r, now, sharedRules)
	})
	return g, err
}

// Renew extends the lease of r.ID, and makes the hold smaller if r asks for less.
func (l sharedLocker) Renew(ctx context.Context, key string, r driver.Request) (g driver.Grant, err error) {
	if err = l.check(ctx, key, r); err != nil {
		return g, err
	}
	l.change(key, func(k *sharedKey, now time.Time) {
		if g, err = k.record.Renew(r, now, sharedRules); err == nil {
			k.tell()
		}
	})
	return g, err
}

// Unlock ends the hold of id, or its headship.
func (l sharedLocker) Unlock(ctx context.Context, key, id string) error {
	return l.withdraw(ctx, key, id, (*holders.Record).Unlock)
}

// Break takes the hold from id. It counts until its lease ends.
func (l sharedLocker) Break(ctx context.Context, key, id string) error {
	return l.withdraw(ctx, key, id, (*holders.Record).Break)
}

// BreakNow ends the hold of id, or its headship, also a hold that was broken.
func (l sharedLocker) BreakNow(ctx context.Context, key, id string) error {
	return l.withdraw(ctx, key, id, (*holders.Record).BreakNow)
}

func (l sharedLocker) withdraw(ctx context.Context, key, id string, step func(*holders.Record, string, time.Time, holders.Rules) error) (err error) {
	if err := l.b.ready(ctx); err != nil {
		return err
	}
	if err := checkHold(key, id); err != nil {
		return err
	}
	l.change(key, func(k *sharedKey, now time.Time) {
		if err = step(&k.record, id, now, sharedRules); err == nil {
			k.tell()
		}
	})
	return err
}

// Holders shows who holds key.
func (l sharedLocker) Holders(ctx context.Context, key string) (live []driver.Holder, err error) {
	if err := l.b.ready(ctx); err != nil {
		return nil, err
	}
	if err := checkKey(key); err != nil {
		return nil, err
	}
	l.change(key, func(k *sharedKey, now time.Time) { live = k.record.Live(now) })
	return live, nil
}

// NotifyChanges implements driver.SharedLocker.
func (l sharedLocker) NotifyChanges(ctx context.Context, key string, changed func()) error {
	w := &watcher{changed}
	l.change(key, func(k *sharedKey, _ time.Time) {
		if k.watchers == nil {
			k.watchers = make(map[*watcher]struct{})
		}
		k.watchers[w] = struct{}{}
	})
	defer l.change(key, func(k *sharedKey, _ time.Time) { delete(k.watchers, w) })
	changed()
	select {
	case <-ctx.Done():
		return driver.NotSent(ctx.Err())
	case <-l.b.done:
		return driver.ErrClosed
	}
}

// tell tells the watchers that the key has changed. The shard is locked.
func (k *sharedKey) tell() {
	for w := range k.watchers {
		w.changed()
	}
}

// change has fn look at key and change it, in one step. A key that says nothing any more is forgotten.
func (l sharedLocker) change(key string, fn func(k *sharedKey, now time.Time)) {
	s := l.b.store
	sh := &s.shared.shards[s.shared.index(key)]
	sh.Lock()
	defer sh.Unlock()
	now := s.clock.now()
	if now >= sh.due {
		s.shared.tidy(sh, now)
	}
	k := sh.get(key)
	if k == nil {
		k = sh.fresh()
		s.shared.add(sh, key, k, now)
	}
	fn(k, s.clock.at(now))
	if s.sharedIdle(k, now) {
		sh.set(key, nil)
	}
}

func (l sharedLocker) check(ctx context.Context, key string, r driver.Request) error {
	if err := r.Share.Check(); err != nil {
		return err
	}
	if r.Fair {
		return fmt.Errorf("%w: fair: a shared hold has no queue at the store", driver.ErrUnsupported)
	}
	return l.b.check(ctx, key, r)
}
