package adapter

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/cas"
	"github.com/coordgo/coord/internal/repo/docsnippets/adapter/kv"
)

// OwnClaims are what the locks in the store's own idiom promise.
var OwnClaims = driver.Claims{
	driver.PerHoldTTL, driver.Inspect,
	driver.TokenProcess, driver.TokenClockSeeded,
	driver.NoEviction, driver.ServerClock, driver.Reserve, driver.Charge, driver.ScopeHosts,
}

// own has locks in the store's own idiom: a key that is there is held, and goes when its
// time is over. Its limits are those of package cas.
type own struct {
	limits
	others
	v    versions
	info driver.Info
}

// limits are the methods of *cas.Backend that this backend wants. Embedding *cas.Backend itself
// would bring its UnlockAfter and Break as well, which know nothing of these locks.
type limits interface {
	driver.Limiter
	Ping(context.Context) error
	Close() error
}

// others answers for what this backend has neither by itself nor from limits. It is a struct of its
// own, so that the methods of limits come before those of Unimplemented.
type others struct{ driver.Unimplemented }

// NewOwn opens the store at addr.
func NewOwn(addr string) driver.Backend {
	v := versions{newClient(addr)}
	info := driver.Info{
		Name: "kv-own", MinTTL: 10 * time.Millisecond, TTLStep: time.Millisecond,
		MaxTTL: driver.MaxPer, Claims: OwnClaims,
	}
	return &own{limits: cas.New(info, cas.Optimistic(v)), v: v, info: info}
}

// Info describes the store.
func (o *own) Info() driver.Info { return o.info }

// hold is what is stored under the key of a lock: "ID", or "ID TOKEN" after a renewal. The token is
// the revision at which the key was created; a renewal moves the revision, and so keeps the token.
type hold struct {
	id       string
	token    int64
	revision uint64
	left     time.Duration
}

// read gives the hold on key; its revision is 0 if there is none.
func (o *own) read(ctx context.Context, key string) (hold, error) {
	if ctx.Err() != nil {
		return hold{}, driver.NotSent(ctx.Err())
	}
	r, err := o.v.get(ctx, lockKey(key))
	switch {
	case err != nil: // a read has changed nothing
		return hold{}, driver.NotSent(err)
	case r.Revision == 0:
		return hold{}, nil
	}
	h := hold{token: int64(r.Revision), revision: r.Revision, left: r.TTL}
	id, token, renewed := strings.Cut(string(r.Value), " ")
	h.id = id
	if renewed {
		if h.token, err = strconv.ParseInt(token, 10, 64); err != nil || h.token <= 0 {
			return hold{}, fmt.Errorf("%w: lock %.80q", driver.ErrCorrupt, r.Value)
		}
	}
	return h, nil
}

// lockKey shares no key with the limits, which package cas keeps under "limit/…".
func lockKey(key string) string { return "own/" + key }

// swap changes the key if it still has the revision.
func (o *own) swap(ctx context.Context, key, value string, revision uint64, ttl time.Duration) (kv.Reply, error) {
	return o.v.c.call(ctx, kv.Request{Op: "swap", Key: lockKey(key), Value: []byte(value), Revision: revision, TTL: ttl})
}

// TryLock creates the key, unless it is there.
func (o *own) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if r.Fair {
		return driver.Grant{}, fmt.Errorf("%w: fair", driver.ErrUnsupported)
	}
	for {
		h, err := o.read(ctx, key)
		switch {
		case err != nil:
			return driver.Grant{}, err
		case h.revision != 0 && h.id == r.ID: // an earlier attempt did it, and its reply was lost
			g, err := o.Renew(ctx, key, r)
			if errors.Is(err, driver.ErrNotHeld) { // and now it has lapsed
				continue
			}
			return g, err
		case h.revision != 0:
			return driver.Grant{}, &driver.LockedError{Remaining: h.left, Holder: h.id}
		}
		created, err := o.swap(ctx, key, r.ID, 0, r.TTL)
		switch {
		case err != nil: // who knows: the error is passed on as it is
			return driver.Grant{}, err
		case created.Swapped:
			return driver.Grant{Token: int64(created.Revision), TTL: r.TTL}, nil
		} // somebody was faster: see who
	}
}

// Renew writes the hold again, with a new time to live.
func (o *own) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	for {
		h, err := o.read(ctx, key)
		switch {
		case err != nil:
			return driver.Grant{}, err
		case h.id != r.ID:
			return driver.Grant{}, driver.ErrNotHeld
		case h.left >= r.TTL: // never shorter
			return driver.Grant{Token: h.token, TTL: h.left}, nil
		}
		renewed, err := o.swap(ctx, key, h.id+" "+strconv.FormatInt(h.token, 10), h.revision, r.TTL)
		switch {
		case err != nil:
			return driver.Grant{}, err
		case renewed.Swapped:
			return driver.Grant{Token: h.token, TTL: r.TTL}, nil
		}
	}
}

// Unlock removes the key at the revision at which the hold was seen: never a successor's.
func (o *own) Unlock(ctx context.Context, key, id string) error {
	for {
		h, err := o.read(ctx, key)
		switch {
		case err != nil:
			return err
		case h.id != id:
			return driver.ErrNotHeld
		}
		if removed, err := o.swap(ctx, key, "", h.revision, 0); err != nil || removed.Swapped {
			return err
		}
	}
}

// Inspect reads the holder.
func (o *own) Inspect(ctx context.Context, key string) (driver.Holder, error) {
	h, err := o.read(ctx, key)
	switch {
	case err != nil:
		return driver.Holder{}, err
	case h.revision == 0:
		return driver.Holder{}, driver.ErrNotHeld
	}
	return driver.NewHolder(h.id, h.token, h.left), nil
}
