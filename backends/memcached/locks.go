package memcached

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/coordgo/coord/driver"
)

// maxRounds bounds how often one call begins again because the lock has changed under it. Each
// time, somebody else has made progress.
const maxRounds = 100

var errRounds = fmt.Errorf("memcached: the lock changed under each of %d attempts", maxRounds)

// TryLock implements driver.Locker. On a free key it makes four commands: add, gets, incr, cas.
func (b *backend) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if err := checkRequest(r); err != nil {
		return driver.Grant{}, err
	}
	n := nameOf(key)
	return run(ctx, b, n, func(c *call) (driver.Grant, error) {
		if err := c.admit(); err != nil {
			return driver.Grant{}, err
		}
		a := acquisition{call: c, name: n, id: r.ID, ttl: ceilSeconds(r.TTL)}
		return a.run()
	})
}

// acquisition is one TryLock.
type acquisition struct {
	*call
	name name
	id   string
	ttl  int64 // seconds
}

// run takes the lock in two steps: the item is added without a token, and then replaced, by
// compare-and-swap, by one with the token. The swap proves that nobody else held the lock from
// when the item was read, before the token was counted: so whoever takes it later counts a
// greater one. An item of this id that is there already, of an attempt whose reply was lost, is
// taken up where that one left it.
func (a *acquisition) run() (driver.Grant, error) {
	for range maxRounds {
		fresh := value{state: taking, ttl: a.ttl, until: a.until(0), id: a.id, full: a.name.full}.bytes()
		err := a.add(a.item(fresh, a.ttl))
		if err == nil {
			a.undo = func() { a.withdraw(fresh) }
		} else if err != memcache.ErrNotStored {
			return driver.Grant{}, err
		}
		g, err := a.confirm()
		if err != memcache.ErrCacheMiss { // it has gone meanwhile: the key is free
			return g, err
		}
	}
	return driver.Grant{}, errRounds
}

// confirm makes a hold of what is there, if it is this id's.
func (a *acquisition) confirm() (driver.Grant, error) {
	for range maxRounds {
		item, err := a.get(a.name.key(lockKind))
		if err != nil {
			return driver.Grant{}, err
		}
		v, err := parseValue(item.Value, a.name)
		switch {
		case err != nil:
			return driver.Grant{}, err
		case v.id != a.id && v.state == held:
			return driver.Grant{}, &driver.LockedError{Holder: v.id} // for how long, only that one knows
		case v.id != a.id || v.state == kept:
			return driver.Grant{}, driver.ErrLocked
		}
		if v.state == taking {
			if v.token, err = a.count(); err != nil {
				return driver.Grant{}, a.uncounted(item, err)
			}
		}
		sent, before := time.Now(), *item
		taken := v.state == taking
		v = v.extended(held, a.ttl, a.until(v.until))
		item.Value, item.Expiration = v.bytes(), lasting(v.ttl, a.b.clock())
		switch err = a.cas(item); {
		case err == nil:
			a.undo = func() { a.withdraw(item.Value) }
			return v.grant(sent), nil
		case taken && refused(err):
			return driver.Grant{}, a.uncounted(&before, notSent(err))
		case err != memcache.ErrCASConflict:
			return driver.Grant{}, err
		}
	}
	return driver.Grant{}, errRounds
}

// until is the end of the lease on this client's clock, for people to read, and greater than
// before: no two versions of an item are the same.
func (a *acquisition) until(before int64) int64 {
	return max(a.b.clock().Add(time.Duration(a.ttl)*time.Second).UnixMicro(), before+1)
}

func (a *acquisition) item(value []byte, seconds int64) *memcache.Item {
	return &memcache.Item{Key: a.name.key(lockKind), Value: value, Expiration: lasting(seconds, a.b.clock())}
}

// withdraw frees the lock if its item is still exactly what this call has written.
func (a *acquisition) withdraw(written []byte) error {
	undo := &call{b: a.b, client: a.client, conn: a.conn} // the caller of a may have gone
	_, err := undo.replace(a.name, func(v value, _ time.Time) (value, int32, error) {
		if !bytes.Equal(v.bytes(), written) {
			return v, 0, driver.ErrNotHeld
		}
		return v, atOnce, nil
	})
	if err == driver.ErrNotHeld {
		return nil
	}
	return err
}

// uncounted is the error of an attempt that has no token. If it is a definite one, nothing may
// be left of the attempt.
func (a *acquisition) uncounted(item *memcache.Item, err error) error {
	if driver.Definite(err) {
		if failed := a.withdraw(item.Value); failed != nil {
			return fmt.Errorf("memcached: take back the lock: %v, after %v", failed, err) // not definite
		}
		a.undo = nil
	}
	return err
}

// extended is v with a lease of at least ttl seconds. A lease is never shortened: as memcached
// does not tell what is left, the longest TTL that the hold has had counts.
func (v value) extended(s state, ttl, until int64) value {
	v.state, v.ttl, v.until = s, max(v.ttl, ttl), until
	return v
}

// grant is what a lease gives whose item was sent then.
func (v value) grant(sent time.Time) driver.Grant {
	return driver.Grant{Token: v.token, TTL: time.Duration(v.ttl) * time.Second, Since: sent}
}

// Renew implements driver.Locker.
func (b *backend) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if err := checkRequest(r); err != nil {
		return driver.Grant{}, err
	}
	n := nameOf(key)
	return run(ctx, b, n, func(c *call) (g driver.Grant, err error) {
		var sent time.Time
		v, err := c.replace(n, func(v value, now time.Time) (value, int32, error) {
			if v.id != r.ID || v.state != held {
				return v, 0, driver.ErrNotHeld
			}
			sent = time.Now()
			v = v.extended(held, ceilSeconds(r.TTL), max(now.Add(r.TTL).UnixMicro(), v.until+1))
			return v, lasting(v.ttl, now), nil
		})
		if err != nil {
			return driver.Grant{}, err
		}
		return v.grant(sent), nil
	})
}

// Unlock implements driver.Locker. It also takes back an attempt of id that got no token.
func (b *backend) Unlock(ctx context.Context, key, id string) error {
	return b.finish(ctx, key, id, func(v value, _ time.Time) (value, int32, error) {
		return v, atOnce, nil
	})
}

// UnlockAfter implements driver.Locker.
func (b *backend) UnlockAfter(ctx context.Context, key, id string, d time.Duration) error {
	if d <= 0 {
		return b.Unlock(ctx, key, id)
	}
	if d > maxTTL {
		return fmt.Errorf("%w: delay %v: want at most %v", driver.ErrInvalid, d, maxTTL)
	}
	return b.finish(ctx, key, id, func(v value, now time.Time) (value, int32, error) {
		if v.state != held {
			return v, 0, driver.ErrNotHeld
		}
		v.state, v.ttl, v.until = kept, ceilSeconds(d), now.Add(d).UnixMicro()
		return v, lasting(v.ttl, now), nil
	})
}

// Break implements driver.Breaker. What is left of the lease only the holder knows, so the key
// stays taken for a whole TTL from now.
func (b *backend) Break(ctx context.Context, key, id string) error {
	return b.finish(ctx, key, id, func(v value, now time.Time) (value, int32, error) {
		if v.state != held {
			return v, 0, driver.ErrNotHeld
		}
		v.state, v.until = kept, now.Add(time.Duration(v.ttl)*time.Second).UnixMicro()
		return v, lasting(v.ttl, now), nil
	})
}

// BreakNow implements driver.Breaker.
func (b *backend) BreakNow(ctx context.Context, key, id string) error {
	return b.change(ctx, key, id, func(v value, _ time.Time) (value, int32, error) {
		return v, atOnce, nil
	})
}

// finish ends what id has on the lock, as fn says.
func (b *backend) finish(ctx context.Context, key, id string, fn change) error {
	return b.change(ctx, key, id, func(v value, now time.Time) (value, int32, error) {
		if v.state == kept {
			return v, 0, driver.ErrNotHeld
		}
		return fn(v, now)
	})
}

// change changes a lock whose id is the given one.
func (b *backend) change(ctx context.Context, key, id string, fn change) error {
	if err := driver.CheckID(id); err != nil {
		return err
	}
	n := nameOf(key)
	_, err := run(ctx, b, n, func(c *call) (value, error) {
		return c.replace(n, func(v value, now time.Time) (value, int32, error) {
			if v.id != id {
				return v, 0, driver.ErrNotHeld
			}
			return fn(v, now)
		})
	})
	return err
}

// change says what becomes of a lock that is there, and for how long.
type change func(v value, now time.Time) (next value, expiration int32, err error)

// replace changes a lock by gets and cas: two commands. ErrNotHeld if there is none. On a server without room
// for the new item beside the old one it makes, in place, those changes that can be made so.
func (c *call) replace(n name, fn change) (value, error) {
	for range maxRounds {
		item, err := c.get(n.key(lockKind))
		if err != nil {
			return value{}, absent(err)
		}
		v, err := parseValue(item.Value, n)
		if err != nil {
			return value{}, err
		}
		v, item.Expiration, err = fn(v, c.b.clock())
		if err != nil {
			return value{}, err
		}
		item.Value = v.bytes()
		switch err = c.cas(item); {
		case err == nil:
			return v, nil
		case full(err) && c.conn != nil:
			return c.replaceInPlace(n, fn, err)
		case err != memcache.ErrCASConflict:
			return value{}, absent(err)
		}
	}
	return value{}, errRounds
}

// absent: a lock that is not there is not held.
func absent(err error) error {
	if err == memcache.ErrCacheMiss || err == memcache.ErrNotStored {
		return driver.ErrNotHeld
	}
	return err
}

// Inspect implements driver.Operator. What is left of the lease is by the clocks of the holder
// and this client. A taker that has no token yet holds nothing: it is shown as Released, with the
// last token that was counted.
func (b *backend) Inspect(ctx context.Context, key string) (driver.Holder, error) {
	n := nameOf(key)
	return run(ctx, b, n, func(c *call) (driver.Holder, error) {
		item, err := c.get(n.key(lockKind))
		if err != nil {
			return driver.Holder{}, absent(err)
		}
		v, err := parseValue(item.Value, n)
		if err != nil {
			return driver.Holder{}, err
		}
		if v.state == taking {
			if v.token, err = c.lastToken(n); err != nil {
				return driver.Holder{}, err
			}
		}
		left := time.UnixMicro(v.until).Sub(b.clock())
		h := driver.NewHolder(v.id, v.token, min(max(left, 0), time.Duration(v.ttl)*time.Second))
		h.Released = v.state != held
		return h, nil
	})
}

func checkRequest(r driver.Request) error {
	switch {
	case r.Fair:
		return fmt.Errorf("%w: fair waiting", driver.ErrUnsupported)
	case r.TTL <= 0 || r.TTL > maxTTL:
		return fmt.Errorf("%w: TTL %v: want above 0, at most %v", driver.ErrInvalid, r.TTL, maxTTL)
	}
	return driver.CheckID(r.ID)
}
