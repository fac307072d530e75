package redis

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coordgo/coord/driver"
)

// Shared implements driver.Backend.
func (b *backend) Shared() driver.SharedLocker { return sharedLocker{b: b} }

// sharedLocker keeps shared holds: a hash for each key, see lua/shared.lua, and a script for each step.
type sharedLocker struct {
	driver.Unimplemented
	b *backend
}

var _ driver.SharedLocker = sharedLocker{}

// TryLock makes one attempt, without waiting.
func (l sharedLocker) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if err := checkShared(r); err != nil {
		return driver.Grant{}, err
	}
	hash := sharedKey(key)
	reply := l.b.runGrant(ctx, l.b.shared.take, hash, r.ID, takeNumbers(r))
	g, err := sharedTaken(reply)
	if err == nil && reply.short != nil {
		return driver.Grant{}, l.b.giveBack(ctx, l.b.shared.unlock, hash, r.ID, reply.short)
	}
	return g, err
}

// takeNumbers are the numbers that the script reads.
func takeNumbers(r driver.Request) []byte {
	var head int64
	if r.Share.Head {
		head = 1
	}
	return make(packed, 0, 8*5).append(ceil(r.TTL, time.Microsecond), int64(r.Share.Mode), r.Share.Weight, r.Share.Of, head)
}

// sharedTaken reads the reply to an attempt.
func sharedTaken(r reply) (driver.Grant, error) {
	p, err := r.packed(5)
	switch {
	case err != nil:
		return driver.Grant{}, err
	case p.at(0) == 0:
		return driver.Grant{}, &driver.LockedError{Remaining: micros(p.at(1))}
	case p.at(0) < 0:
		return driver.Grant{}, fmt.Errorf("%w: more than %d holders of one key", driver.ErrUnsupported, driver.MaxHolders)
	}
	return sharedGrant(p)
}

func sharedGrant(p packedReply) (driver.Grant, error) {
	g, err := newGrant(0, p.at(2))
	g.TTL, g.Slot, g.Of = micros(p.at(1)), int(p.at(3)), p.at(4)
	return g, err
}

// Renew extends the lease of r.ID, and makes the hold smaller if r asks for less.
func (l sharedLocker) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if err := checkShared(r); err != nil {
		return driver.Grant{}, err
	}
	return sharedRenewed(l.b.runGrant(ctx, l.b.shared.renew, sharedKey(key), r.ID, renewNumbers(r)))
}

// RenewAll implements driver.Locker as for locks.
func (l sharedLocker) RenewAll(ctx context.Context, holds []driver.Hold) []driver.Renewal {
	return l.b.renewAll(ctx, holds, func(h driver.Hold) (*command, error) {
		return l.b.shared.renew.command(ctx, sharedKey(h.Key), h.ID, renewNumbers(h.Request)), checkShared(h.Request)
	}, sharedRenewed)
}

func renewNumbers(r driver.Request) []byte {
	return make(packed, 0, 8*3).append(ceil(r.TTL, time.Microsecond), int64(r.Share.Mode), r.Share.Weight)
}

// sharedRenewed is renewed for shared holds.
func sharedRenewed(r reply) (driver.Grant, error) {
	p, err := r.packed(5)
	switch {
	case err != nil:
		return driver.Grant{}, err
	case p.at(0) == 0:
		return driver.Grant{}, driver.ErrNotHeld
	case r.short != nil:
		return driver.Grant{}, r.short
	}
	return sharedGrant(p)
}

// Unlock ends the hold of id, or its headship.
func (l sharedLocker) Unlock(ctx context.Context, key, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	return l.b.runOwned(ctx, l.b.shared.unlock, sharedKey(key), id)
}

// Break takes the hold from id. It counts until its lease ends.
func (l sharedLocker) Break(ctx context.Context, key, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	return l.b.runOwned(ctx, l.b.shared.breaks, sharedKey(key), id)
}

// BreakNow ends the hold of id, or its headship, also a hold that was broken.
func (l sharedLocker) BreakNow(ctx context.Context, key, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	return l.b.runOwned(ctx, l.b.shared.unlock, sharedKey(key), id, 1)
}

// Holders shows who holds key.
func (l sharedLocker) Holders(ctx context.Context, key string) ([]driver.Holder, error) {
	hash := sharedKey(key)
	return sharedHolders(hash, l.b.run(ctx, l.b.shared.holders.command(ctx, hash)))
}

// sharedHolders reads the live holds of a hash, in the order of their grants.
func sharedHolders(hash string, r reply) ([]driver.Holder, error) {
	if r.err != nil {
		return nil, r.err
	}
	reply, _ := r.value.([]any)
	if len(reply) != 2 {
		return nil, fmt.Errorf("script replied %d values, want 2", len(reply))
	}
	now, _ := reply[0].(int64)
	fields, _ := reply[1].([]any)
	var live []driver.Holder
	for i := 0; i+1 < len(fields); i += 2 {
		field, _ := fields[i].(string)
		value, _ := fields[i+1].(string)
		h, ok := sharedHolder(field, value, now)
		if !ok {
			return nil, fmt.Errorf("%w: %s has %.80q in its field %.80q", driver.ErrCorrupt, hash, value, field)
		}
		if h.TTL > 0 {
			live = append(live, h)
		}
	}
	slices.SortFunc(live, func(a, b driver.Holder) int { return cmp.Compare(a.Token, b.Token) })
	return live, nil
}

// sharedVersion is the first byte of all that the hash has.
const sharedVersion = 2

// sharedHolder reads a field of the hash, see lua/shared.lua. One that is not a hold has no TTL.
func sharedHolder(field, value string, now int64) (h driver.Holder, ok bool) {
	const size = 2 + 6*8
	switch {
	case value == "" || value[0] != sharedVersion:
		return h, false
	case field == " token", field == " head", field == " watch", field == " sums":
		return h, true
	case len(value) != size:
		return h, false
	}
	id, _, broken := strings.Cut(field, " broken ")
	p := packedReply(value[2:]) // until, ttl, slot, token, weight, of
	h = driver.NewHolder(id, p.at(3), micros(p.at(0)-now))
	h.Released, h.Mode = broken, driver.Mode(value[1])
	h.Weight, h.Of, h.Slot = p.at(4), p.at(5), int(p.at(2))
	return h, driver.Read <= h.Mode && h.Mode <= driver.Permits
}

func checkShared(r driver.Request) error {
	if err := checkRequest(r); err != nil {
		return err
	}
	if r.Fair {
		return fmt.Errorf("%w: fair: a shared hold has no queue at the store", driver.ErrUnsupported)
	}
	return r.Share.Check()
}
