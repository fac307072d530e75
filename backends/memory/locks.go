package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/coordgo/coord/driver"
)

// slot is the state of one locked key. A key that is free and has no waiters
// has no slot, or one that the next sweep forgets.
type slot struct {
	id       string // the last holder
	token    int64
	until    instant // the key is taken before this moment
	released bool    // nobody holds: the key is only kept taken
	queue    queue
}

// slotIdle reports whether the slot says no more than its absence would.
func slotIdle(sl *slot, now instant) bool { return sl.until <= now && sl.queue.empty() }

// heldBy reports whether id has a live hold.
func (sl *slot) heldBy(id string, now instant) bool {
	return sl.id == id && !sl.released && now < sl.until
}

// take starts a new hold.
func (s *Store) take(sl *slot, r driver.Request, now instant) driver.Grant {
	token := int64(0)
	if r.Floor == 0 {
		token = s.tokens.Add(1)
	} else {
		token = s.countFrom(r, now)
	}
	sl.id, sl.token, sl.until, sl.released = r.ID, token, now+r.TTL, false
	return driver.Grant{Token: sl.token, TTL: r.TTL}
}

// countFrom counts the token of a hold with a Floor.
func (s *Store) countFrom(r driver.Request, now instant) int64 {
	for {
		last := s.tokens.Load()
		token := r.NewToken(last, s.clock.micro+now.Microseconds())
		if s.tokens.CompareAndSwap(last, token) {
			return token
		}
	}
}

// raise makes token the least of the hold, and of what later ones are counted from.
func (s *Store) raise(sl *slot, token int64) {
	sl.token = max(sl.token, token)
	for last := s.tokens.Load(); last < token && !s.tokens.CompareAndSwap(last, token); last = s.tokens.Load() {
	}
}

// extend prolongs the hold, and never shortens it.
func (sl *slot) extend(ttl time.Duration, now instant) driver.Grant {
	sl.until = max(sl.until, now+ttl)
	return driver.Grant{Token: sl.token, TTL: sl.until - now}
}

// lockKey locks the shard of key and brings its slot up to date: a waiter whose
// turn has come is granted first, whatever the caller is about to do. The slot
// is nil where there is none.
func (s *Store) lockKey(key string) (*shard[slot], *slot, instant) {
	sh := &s.locks.shards[s.locks.index(key)]
	sh.Lock()
	now := s.clock.now()
	if now >= sh.due {
		s.locks.tidy(sh, now)
	}
	sl := sh.get(key)
	if sl != nil {
		s.advance(sl, now)
	}
	return sh, sl, now
}

// TryLock makes one attempt, without waiting.
func (b *backend) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if err := b.check(ctx, key, r); err != nil {
		return driver.Grant{}, err
	}
	sh, sl, now := b.store.lockKey(key)
	defer sh.Unlock()
	return b.attempt(sh, sl, key, r, now)
}

// attempt takes the key if it is free.
func (b *backend) attempt(sh *shard[slot], sl *slot, key string, r driver.Request, now instant) (driver.Grant, error) {
	s := b.store
	if sl == nil {
		sl = sh.fresh()
		s.locks.add(sh, key, sl, now)
		return s.take(sl, r, now), nil
	}
	if sl.heldBy(r.ID, now) {
		return sl.extend(r.TTL, now), nil
	}
	// While there are waiters one of them holds, or the key is kept taken for
	// the holder before them: lockKey saw to that. So this overtakes nobody.
	if now < sl.until {
		locked := &driver.LockedError{Remaining: sl.until - now}
		if !sl.released {
			locked.Holder = sl.id
		}
		return driver.Grant{}, locked
	}
	return s.take(sl, r, now), nil
}

// Renew extends the lease of r.ID.
func (b *backend) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if err := b.check(ctx, key, r); err != nil {
		return driver.Grant{}, err
	}
	sh, sl, now := b.store.lockKey(key)
	defer sh.Unlock()
	if sl == nil || !sl.heldBy(r.ID, now) {
		return driver.Grant{}, driver.ErrNotHeld
	}
	b.store.raise(sl, r.Floor)
	return sl.extend(r.TTL, now), nil
}

// Unlock ends the hold of id, or its place in the queue.
func (b *backend) Unlock(ctx context.Context, key, id string) error {
	return b.UnlockAfter(ctx, key, id, 0)
}

// UnlockAfter ends the hold of id and keeps the key taken for d.
func (b *backend) UnlockAfter(ctx context.Context, key, id string, d time.Duration) error {
	if err := b.readyFor(ctx, key, id); err != nil {
		return err
	}
	if d > 0 {
		if err := checkTTL(d); err != nil {
			return err
		}
	}
	sh, sl, now := b.store.lockKey(key)
	defer sh.Unlock()
	if sl == nil {
		return driver.ErrNotHeld
	}
	if !sl.heldBy(id, now) {
		return sl.queue.withdraw(id)
	}
	b.store.end(sh, sl, key, now+max(d, 0), now)
	return nil
}

// end ends the hold on key; the key stays taken until the given moment.
func (s *Store) end(sh *shard[slot], sl *slot, key string, until, now instant) {
	sl.released, sl.until = true, until
	s.advance(sl, now)
	if !sl.queue.empty() {
		s.arm(sh, sl, now)
	} else if slotIdle(sl, now) {
		sh.set(key, nil)
		if sl.queue.timer == nil { // else it may look at the slot once more
			*sl = slot{}
			sh.spare = sl
		}
	}
}

// Inspect reads the holder.
func (b *backend) Inspect(ctx context.Context, key string) (driver.Holder, error) {
	if err := b.ready(ctx); err != nil {
		return driver.Holder{}, err
	}
	if err := checkKey(key); err != nil {
		return driver.Holder{}, err
	}
	sh, sl, now := b.store.lockKey(key)
	defer sh.Unlock()
	if sl == nil || sl.until <= now {
		return driver.Holder{}, driver.ErrNotHeld
	}
	h := driver.NewHolder(sl.id, sl.token, sl.until-now)
	h.Waiters = sl.queue.len()
	h.Released = sl.released
	return h, nil
}

// readyFor refuses, besides what ready does, what names no hold.
func (b *backend) readyFor(ctx context.Context, key, id string) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	return checkHold(key, id)
}

// Break takes the hold from id and keeps the key taken until its lease lapses.
func (b *backend) Break(ctx context.Context, key, id string) error {
	if err := b.readyFor(ctx, key, id); err != nil {
		return err
	}
	sh, sl, now := b.store.lockKey(key)
	defer sh.Unlock()
	if sl == nil || !sl.heldBy(id, now) {
		return driver.ErrNotHeld
	}
	sl.released = true
	return nil
}

// BreakNow ends the hold of id, or its place in the queue, and frees a key that is kept taken for it.
func (b *backend) BreakNow(ctx context.Context, key, id string) error {
	if err := b.readyFor(ctx, key, id); err != nil {
		return err
	}
	sh, sl, now := b.store.lockKey(key)
	defer sh.Unlock()
	switch {
	case sl == nil:
		return driver.ErrNotHeld
	case sl.id != id || now >= sl.until:
		return sl.queue.withdraw(id)
	}
	b.store.end(sh, sl, key, now, now)
	return nil
}

func (b *backend) check(ctx context.Context, key string, r driver.Request) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	if err := checkHold(key, r.ID); err != nil {
		return err
	}
	if r.Floor < 0 || r.Floor > driver.MaxToken {
		return fmt.Errorf("%w: floor %d: want 0 to %d", driver.ErrInvalid, r.Floor, int64(driver.MaxToken))
	}
	return checkTTL(r.TTL)
}
