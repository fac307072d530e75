package cas

import (
	"context"
	"fmt"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/holders"
)

// TryLock makes one attempt, without waiting.
func (b *Backend) TryLock(ctx context.Context, key string, r driver.Request) (grant driver.Grant, err error) {
	if err := b.checkRequest(ctx, key, r); err != nil {
		return driver.Grant{}, err
	}
	err = b.update(ctx, key, func(rec record, now time.Time) (record, error) {
		at := now.UnixMicro()
		switch {
		case rec.heldBy(r.ID, at):
			rec, grant = b.extend(rec, r.TTL, now)
			return rec, nil
		case rec.live(at):
			return rec, &driver.LockedError{Remaining: remaining(rec, now), Holder: rec.holder()}
		}
		token := max(rec.token+1, at)
		if r.Floor > 0 {
			token = r.NewToken(rec.token, at)
		}
		if token > driver.MaxToken {
			return rec, fmt.Errorf("%w: token %d: want at most %d", driver.ErrUnsupported, token, int64(driver.MaxToken))
		}
		grant = driver.Grant{Token: token, TTL: r.TTL}
		return record{state: held, token: token, ttl: ceilMicros(r.TTL), until: b.end(r.TTL, now), id: r.ID}, nil
	})
	return result(grant, err)
}

// Renew extends the lease of r.ID.
func (b *Backend) Renew(ctx context.Context, key string, r driver.Request) (grant driver.Grant, err error) {
	if err := b.checkRequest(ctx, key, r); err != nil {
		return driver.Grant{}, err
	}
	err = b.update(ctx, key, func(rec record, now time.Time) (record, error) {
		if !rec.heldBy(r.ID, now.UnixMicro()) {
			return rec, driver.ErrNotHeld
		}
		rec.token = max(rec.token, r.Floor)
		rec, grant = b.extend(rec, r.TTL, now)
		return rec, nil
	})
	return result(grant, err)
}

// Unlock ends the hold of id.
func (b *Backend) Unlock(ctx context.Context, key, id string) error {
	return b.UnlockAfter(ctx, key, id, 0)
}

// UnlockAfter ends the hold of id and keeps the key taken for d.
func (b *Backend) UnlockAfter(ctx context.Context, key, id string, d time.Duration) error {
	if err := b.checkHold(ctx, key, id); err != nil {
		return err
	}
	if d > 0 {
		if err := b.checkTTL(d); err != nil {
			return err
		}
	}
	return b.update(ctx, key, func(rec record, now time.Time) (record, error) {
		if !rec.heldBy(id, now.UnixMicro()) {
			return rec, driver.ErrNotHeld
		}
		if d <= 0 {
			return record{state: free, token: rec.token}, nil
		}
		rec.state, rec.ttl, rec.until = kept, ceilMicros(d), holders.Until(now, d)
		return rec, nil
	})
}

// Break takes the hold from id and keeps the key taken until its lease lapses.
func (b *Backend) Break(ctx context.Context, key, id string) error {
	if err := b.checkHold(ctx, key, id); err != nil {
		return err
	}
	return b.update(ctx, key, func(rec record, now time.Time) (record, error) {
		if !rec.heldBy(id, now.UnixMicro()) {
			return rec, driver.ErrNotHeld
		}
		rec.state = kept
		return rec, nil
	})
}

// BreakNow ends the hold of id, and frees a key that is kept taken for it.
func (b *Backend) BreakNow(ctx context.Context, key, id string) error {
	if err := b.checkHold(ctx, key, id); err != nil {
		return err
	}
	return b.update(ctx, key, func(rec record, now time.Time) (record, error) {
		if rec.id != id || !rec.live(now.UnixMicro()) {
			return rec, driver.ErrNotHeld
		}
		return record{state: free, token: rec.token}, nil
	})
}

// Inspect reads the holder.
func (b *Backend) Inspect(ctx context.Context, key string) (holder driver.Holder, err error) {
	if err := b.checkKey(ctx, key); err != nil {
		return driver.Holder{}, err
	}
	err = b.update(ctx, key, func(rec record, now time.Time) (record, error) {
		if !rec.live(now.UnixMicro()) {
			return rec, driver.ErrNotHeld
		}
		holder = driver.NewHolder(rec.id, rec.token, remaining(rec, now))
		holder.Released = rec.state == kept
		return rec, nil
	})
	if err != nil {
		return driver.Holder{}, err
	}
	return holder, nil
}

// update replaces the record of key by what fn makes of it, or leaves it as it is where fn fails. It is written if it has
// changed: also where fn fails, if a clock that was set back has left a lease that ends too late.
func (b *Backend) update(ctx context.Context, key string, fn func(record, time.Time) (record, error)) error {
	var answer error
	err := b.cells.Update(ctx, Name{Kind: Lock, Key: key}, func(old []byte, now time.Time) (Change, error) {
		stored, err := parseRecord(old)
		if err != nil {
			return Change{}, err
		}
		before := stored.shortened(now, b.skew)
		after, err := fn(before, now)
		if answer = err; err != nil {
			after = before
		}
		if after == stored {
			return Change{}, nil
		}
		return Change{Write: true, Value: after.append(nil), Keep: after.keep(now)}, nil
	})
	if err != nil {
		return err
	}
	return answer
}

// holder is the id that holds, "" if the key is only kept taken.
func (r record) holder() string {
	if r.state != held {
		return ""
	}
	return r.id
}

// keep is how long the cell of r is needed: through its lease, and a while
// longer for its token.
func (r record) keep(now time.Time) time.Duration {
	if r.state == free {
		return TokenMemory
	}
	return TokenMemory + max(0, remaining(r, now))
}

// extend prolongs the lease, and never shortens it.
func (b *Backend) extend(r record, ttl time.Duration, now time.Time) (record, driver.Grant) {
	if until := b.end(ttl, now); until > r.until {
		r.until, r.ttl = until, ceilMicros(ttl)
	}
	return r, driver.Grant{Token: r.token, TTL: max(ttl, remaining(r, now)-b.skew)}
}

// end is when a lease that begins now is over by every client's clock.
func (b *Backend) end(ttl time.Duration, now time.Time) int64 {
	return holders.Until(now, ttl+b.skew)
}

func ceilMicros(d time.Duration) int64 { return (d + time.Microsecond - 1).Microseconds() }

// remaining is what is left of the lease.
func remaining(r record, now time.Time) time.Duration { return time.UnixMicro(r.until).Sub(now) }

func result(g driver.Grant, err error) (driver.Grant, error) {
	if err != nil {
		return driver.Grant{}, err
	}
	return g, nil
}

// The core has checked the arguments already; a caller of the bare driver has
// not.

func (b *Backend) checkKey(ctx context.Context, key string) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	if key == "" {
		return fmt.Errorf("%w: key is empty: want at least 1 byte", driver.ErrInvalid)
	}
	return nil
}

func (b *Backend) checkHold(ctx context.Context, key, id string) error {
	if err := b.checkKey(ctx, key); err != nil {
		return err
	}
	return driver.CheckID(id)
}

func (b *Backend) checkTTL(ttl time.Duration) error {
	longest := b.info.MaxTTL
	if longest == 0 {
		longest = driver.MaxPer
	}
	if ttl <= 0 || ttl > longest {
		return fmt.Errorf("%w: TTL %v: want more than 0, at most %v", driver.ErrInvalid, ttl, longest)
	}
	return nil
}

func (b *Backend) checkRequest(ctx context.Context, key string, r driver.Request) error {
	if err := b.checkHold(ctx, key, r.ID); err != nil {
		return err
	}
	if r.Fair {
		return fmt.Errorf("%w: fair: this store has no queue", driver.ErrUnsupported)
	}
	if r.Floor < 0 || r.Floor > driver.MaxToken {
		return fmt.Errorf("%w: floor %d: want 0 to %d", driver.ErrInvalid, r.Floor, int64(driver.MaxToken))
	}
	return b.checkTTL(r.TTL)
}
