package redis

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/coordgo/coord/driver"
)

// The value of a lock begins with its version. No id contains a space.
const (
	// held is before the id of the holder.
	held = "1 "
	// released marks, before the id, a lock that nobody holds any more but that stays taken.
	released = "1 released "
	// offered marks likewise one that only the waiter of that id can take, for a moment.
	offered = "1 offered "
)

// TryLock implements driver.Locker.
func (b *backend) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if err := checkRequest(r); err != nil {
		return driver.Grant{}, err
	}
	if r.Floor != 0 {
		return b.acquireFloor(ctx, key, r)
	}
	lock, fence := lockKeys(key)
	return b.acquire(ctx, lock, fence, r.ID, b.ttl(r.TTL))
}

func (b *backend) acquire(ctx context.Context, lock, fence, id string, ttl *boxedTTL) (driver.Grant, error) {
	args := []any{lock, fence, id, ttl.lease, "", ttl.fence}
	if ttl.fence == nil {
		args = args[:4] // what goes without saying takes the server a fifth of a microsecond
	}
	r := b.runGrant(ctx, acquireScript, args...)
	ms := millis(ttl.d)
	token, fresh := r.value.(int64)
	if !fresh {
		if err := refusal(lock, r); err != nil {
			return driver.Grant{}, err
		}
		found, err := r.integers(3)
		if err != nil {
			return driver.Grant{}, err
		}
		if found.at(0) == 0 {
			_, refusal := lockedFor(lock, found)
			return driver.Grant{}, refusal
		}
		ms, token = found.at(1), found.at(2)
	}
	if r.short != nil {
		return driver.Grant{}, b.giveBack(ctx, unlockScript, lock, id, r.short)
	}
	return newGrant(ms, token)
}

// lockedFor is how long a lock stays taken, and the refusal that says so. If that is for
// ever, it is zero, and an error that says why.
func lockedFor(lock string, reply integers) (time.Duration, error) {
	if len(reply) < 2 || reply.at(1) < 0 {
		return 0, fmt.Errorf("%w: %s has no expiry", driver.ErrCorrupt, lock)
	}
	left := leaseEnds(reply.at(1))
	return left, &driver.LockedError{Remaining: left}
}

// refusal is the error of a reply of {0, ms left of the lease in the way, value of the lock}, nil of any other.
func refusal(lock string, r reply) error {
	several, _ := r.value.([]any)
	if len(several) != 3 {
		return nil
	}
	value, isText := several[2].(string)
	if !isText {
		return nil
	}
	numbers, err := reply{value: several[:2]}.integers(2)
	if err != nil {
		return err
	}
	left, err := lockedFor(lock, numbers)
	if left > 0 {
		err = &driver.LockedError{Remaining: left, Holder: holderIn(value)}
	}
	return err
}

// holderIn is the id that holds a lock of this value, "" if it is only kept taken.
func holderIn(value string) string {
	id, known := strings.CutPrefix(value, held)
	if !known || strings.Contains(id, " ") {
		return ""
	}
	return id
}

// leaseEnds is after how long a key is gone that has ms left: Redis drops it in the
// millisecond after its last.
func leaseEnds(ms int64) time.Duration { return time.Duration(ms+1) * time.Millisecond }

func granted(reply integers) (driver.Grant, error) {
	return newGrant(reply.at(1), reply.at(2))
}

func newGrant(ms, token int64) (driver.Grant, error) {
	if token <= 0 || token > driver.MaxToken {
		return driver.Grant{}, fmt.Errorf("%w: fencing token %d: want 1 to %d", driver.ErrCorrupt, token, int64(driver.MaxToken))
	}
	return driver.Grant{Token: token, TTL: time.Duration(ms) * time.Millisecond}, nil
}

func checkRequest(r driver.Request) error {
	if r.TTL <= 0 || r.TTL > maxTTL {
		return fmt.Errorf("%w: TTL %v: want above 0, at most %v", driver.ErrInvalid, r.TTL, maxTTL)
	}
	if r.Floor < 0 || r.Floor > driver.MaxToken {
		return fmt.Errorf("%w: floor %d: want 0 to %d", driver.ErrInvalid, r.Floor, int64(driver.MaxToken))
	}
	return checkID(r.ID)
}

// checkID is wider than driver.CheckID: an operator can break the hold of an id that another program has written.
func checkID(id string) error {
	if id == "" || len(id) > driver.MaxID || strings.ContainsAny(id, " \r\n") {
		return fmt.Errorf("%w: id %q: want 1 to %d bytes without spaces", driver.ErrInvalid, id, driver.MaxID)
	}
	return nil
}

// ceil is d in units, rounded up.
func ceil(d, unit time.Duration) int64 { return int64((d + unit - 1) / unit) }

func millis(d time.Duration) int64 { return ceil(d, time.Millisecond) }

const (
	// fenceOutlives is how long a fence outlives its lease, at least. A clock that steps back
	// by less than that does not make tokens fall.
	fenceOutlives = time.Hour
	// fenceLife is how long acquire.lua lets it live where that is enough.
	fenceLife = 2 * time.Hour
)

// ttl is the lease of d, and the life of its fence, as arguments. Most holds of a
// client have one TTL: they are boxed once.
func (b *backend) ttl(d time.Duration) *boxedTTL {
	if last := b.lastTTL.Load(); last != nil && last.d == d {
		return last
	}
	t := &boxedTTL{d: d, lease: millis(d)}
	if life := d + fenceOutlives; life > fenceLife {
		t.fence = millis(life)
	}
	b.lastTTL.Store(t)
	return t
}

// boxedTTL is a TTL as arguments, in milliseconds.
type boxedTTL struct {
	d     time.Duration
	lease any
	fence any // nil, if fenceLife is enough
}

// Renew implements driver.Locker.
func (b *backend) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if err := checkRequest(r); err != nil {
		return driver.Grant{}, err
	}
	if r.Floor != 0 {
		return b.renewFloor(ctx, key, r)
	}
	lock, fence := lockKeys(key)
	return renewed(b.runGrant(ctx, renewScript, lock, fence, r.ID, b.ttl(r.TTL).lease))
}

// renewed reads the reply of the script. A lease that was extended at the master
// alone is not one to rely on: the former one still is.
func renewed(r reply) (driver.Grant, error) {
	numbers, err := r.integers(3)
	switch {
	case err != nil:
		return driver.Grant{}, err
	case numbers.at(0) == 0:
		return driver.Grant{}, driver.ErrNotHeld
	case r.short != nil:
		return driver.Grant{}, r.short
	}
	return granted(numbers)
}

// Unlock implements driver.Locker.
func (b *backend) Unlock(ctx context.Context, key, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	return b.runOwned(ctx, unlockScript, lockKey(key), id)
}

// UnlockAfter implements driver.Locker.
func (b *backend) UnlockAfter(ctx context.Context, key, id string, d time.Duration) error {
	if d <= 0 {
		return b.Unlock(ctx, key, id)
	}
	if d > maxTTL {
		return fmt.Errorf("%w: delay %v: want at most %v", driver.ErrInvalid, d, maxTTL)
	}
	if err := checkID(id); err != nil {
		return err
	}
	return b.runOwned(ctx, unlockAfterScript, lockKey(key), id, millis(d))
}

// Break implements driver.Breaker.
func (b *backend) Break(ctx context.Context, key, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	return b.runOwned(ctx, breakScript, lockKey(key), id)
}

// BreakNow implements driver.Breaker.
func (b *backend) BreakNow(ctx context.Context, key, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	return b.runOwned(ctx, unlockScript, lockKey(key), id, released)
}

// runOwned runs a script that replies 1, or 0 to an id that does not hold.
func (b *backend) runOwned(ctx context.Context, s *script, keysAndArgs ...any) error {
	n, err := b.run(ctx, s.command(ctx, keysAndArgs...)).integer()
	if err == nil && n == 0 {
		return driver.ErrNotHeld
	}
	return err
}

// Inspect implements driver.Operator.
func (b *backend) Inspect(ctx context.Context, key string) (driver.Holder, error) {
	lock, fence := lockKeys(key)
	r := b.run(ctx, inspectScript.command(ctx, lock, fence))
	if r.err != nil {
		return driver.Holder{}, r.err
	}
	reply, _ := r.value.([]any)
	return holder(lock, fence, reply)
}

func holder(lock, fence string, reply []any) (driver.Holder, error) {
	if len(reply) != 4 {
		return driver.Holder{}, fmt.Errorf("script replied %d values, want 4", len(reply))
	}
	value, _ := reply[0].(string)
	ttl, _ := reply[1].(int64)
	last, _ := reply[2].(string)
	waiting, _ := reply[3].(int64)
	if ttl == -2 {
		return driver.Holder{}, driver.ErrNotHeld
	}
	if ttl < 0 {
		return driver.Holder{}, fmt.Errorf("%w: %s has no expiry", driver.ErrCorrupt, lock)
	}
	id, isReleased := strings.CutPrefix(value, released)
	if !isReleased {
		id, isReleased = strings.CutPrefix(value, offered)
	}
	if !isReleased {
		if id = holderIn(value); id == "" {
			return driver.Holder{}, fmt.Errorf("%w: %s holds %.80q", driver.ErrCorrupt, lock, value)
		}
	}
	var token int64
	if last != "" {
		var err error
		if token, err = strconv.ParseInt(last, 10, 64); err != nil {
			return driver.Holder{}, fmt.Errorf("%w: %s holds %q", driver.ErrCorrupt, fence, last)
		}
	}
	h := driver.NewHolder(id, token, time.Duration(min(ttl, math.MaxInt64/int64(time.Millisecond)))*time.Millisecond)
	h.Released, h.Waiters = isReleased, int(waiting)
	return h, nil
}
