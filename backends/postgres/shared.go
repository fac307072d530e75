package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/coordgo/coord/driver"
)

// Shared implements driver.Backend.
func (b *backend) Shared() driver.SharedLocker { return sharers{b: b} }

// sharers are those who share a key, each in a row of its own. A key has a row as well, which is locked while somebody is granted
// it, and not by renewals.
type sharers struct {
	driver.Unimplemented
	b *backend
}

var _ driver.SharedLocker = sharers{}

// TryLock implements driver.SharedLocker.
func (s sharers) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if err := checkShare(r); err != nil {
		return driver.Grant{}, err
	}
	if err := s.b.beReady(ctx); err != nil {
		return driver.Grant{}, err
	}
	g, err := runWithin(ctx, s.b, ordinary, s.b.options.timeout, s.b.asks.Begin(r.ID), func(ctx context.Context, c conn) (g driver.Grant, err error) {
		var granted bool
		var left int64
		args := []any{[]byte(key), r.ID, ceil(r.TTL), r.Share.Mode.String(), r.Share.Weight, r.Share.Of, r.Share.Head}
		_, err = c.row(ctx, s.b.sql.share, args, &granted, &g.Token, &left, &g.Slot, &g.Of)
		switch {
		case err != nil:
		case g.Slot < 0:
			err = fmt.Errorf("%w: more than %d holders of one key", driver.ErrUnsupported, driver.MaxHolders)
		case !granted:
			err = &driver.LockedError{Remaining: max(0, micro(left))}
		}
		g.TTL = max(r.TTL, micro(left))
		return g, err
	})
	if err == nil {
		s.b.sweep()
	}
	return g, err
}

// Renew implements driver.SharedLocker.
func (s sharers) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	renewed := s.RenewAll(ctx, []driver.Hold{{Key: key, Request: r}})[0]
	return renewed.Grant, renewed.Err
}

// RenewAll implements driver.Locker.
func (s sharers) RenewAll(ctx context.Context, holds []driver.Hold) []driver.Renewal {
	return s.b.renewHolds(ctx, shares, holds)
}

// Unlock implements driver.SharedLocker.
func (s sharers) Unlock(ctx context.Context, key, id string) error {
	return s.b.endBy(ctx, id, s.b.sql.unshare, []byte(key), id, false)
}

// BreakNow implements driver.Breaker.
func (s sharers) BreakNow(ctx context.Context, key, id string) error {
	return s.b.endBy(ctx, id, s.b.sql.unshare, []byte(key), id, true)
}

// Break implements driver.Breaker.
func (s sharers) Break(ctx context.Context, key, id string) error {
	return s.b.breaks(ctx, s.b.sql.breakShare, key, id)
}

// Holders implements driver.SharedLocker.
func (s sharers) Holders(ctx context.Context, key string) ([]driver.Holder, error) {
	live, err := run(ctx, s.b, func(ctx context.Context, c conn) (live []driver.Holder, err error) {
		var id, mode string
		var token, left int64
		var h driver.Holder
		to := []any{&id, &token, &left, &h.Released, &mode, &h.Weight, &h.Of, &h.Slot}
		err = c.rows(ctx, s.b.sql.holders, []any{[]byte(key)}, to, func() error {
			seen := driver.NewHolder(id, token, max(0, micro(left)))
			seen.Released, seen.Weight, seen.Of, seen.Slot = h.Released, h.Weight, h.Of, h.Slot
			for _, m := range []driver.Mode{driver.Read, driver.Write, driver.Permits} {
				if m.String() == mode {
					seen.Mode = m
				}
			}
			live = append(live, seen)
			return nil
		})
		return live, notSent(err)
	})
	if errors.Is(err, driver.ErrNotHeld) { // there are no tables yet
		return nil, nil
	}
	return live, err
}

func checkShare(r driver.Request) error {
	if err := r.Share.Check(); err != nil {
		return err
	}
	if r.Fair {
		return fmt.Errorf("%w: fair: a shared hold has no queue at the store", driver.ErrUnsupported)
	}
	r.Share = driver.Share{}
	return checkRequest(r)
}
