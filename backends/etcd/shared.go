package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
)

// Shared implements driver.Backend.
func (b *backend) Shared() driver.SharedLocker { return sharedLocker{locker: locker{b, true}} }

// sharedLocker keeps the holds that share a key, on the leases that locks have too.
type sharedLocker struct {
	locker
	others
}

// others are the methods of a Locker that nobody calls of shared holds.
type others struct{ driver.Unimplemented }

var _ driver.SharedLocker = sharedLocker{}

// TryLock makes one attempt: a read of who shares the key, and a transaction.
func (s sharedLocker) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if err := checkShare(key, r); err != nil {
		return driver.Grant{}, err
	}
	b, p := s.store, place{key, r.ID, true}
	call, done, err := b.begin(ctx)
	if err != nil {
		return driver.Grant{}, err
	}
	defer done()
	again := r
	again.Share = driver.Share{} // a repeated attempt makes nothing smaller
	if g, ok, err := b.heldAlready(call, p, again); ok || err != nil {
		return g, err
	}
	unlock, err := b.turns.Lock(call, key)
	if err != nil {
		return driver.Grant{}, err
	}
	defer unlock()
	return b.onLease(call, p, r, func(l *lease) (driver.Grant, error) {
		t := take{b: b, place: p, share: r.Share, again: again, l: l}
		return t.try(call)
	})
}

// Holders reads who holds key: one request, and one for each lease.
func (s sharedLocker) Holders(ctx context.Context, key string) ([]driver.Holder, error) {
	call, done, err := s.store.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	all, err := s.store.sharersOf(call, key)
	if err != nil {
		return nil, err
	}
	left, err := s.store.leasesOf(call, all.list)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all.list, func(x, y record) int { return cmp.Compare(x.create, y.create) })
	var holders []driver.Holder
	for _, rec := range all.list {
		if ttl := left[rec.lease]; !rec.head && ttl > 0 {
			h := driver.NewHolder(rec.id, rec.create, ttl)
			h.Released, h.Slot = rec.released, rec.slot
			h.Mode, h.Weight, h.Of = rec.share.Mode, rec.share.Weight, rec.share.Of
			holders = append(holders, h)
		}
	}
	return holders, nil
}

// leasesOf asks what is left of the leases of entries, all at a time; nothing of those that have ended.
func (b *backend) leasesOf(ctx context.Context, list []record) (map[int64]time.Duration, error) {
	ids := make([]int64, 0, len(list))
	for _, rec := range list {
		ids = append(ids, rec.lease)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	var wg sync.WaitGroup
	found, errs := make([]time.Duration, len(ids)), make([]error, len(ids))
	for i, id := range ids {
		wg.Go(func() { found[i], errs[i] = b.leftOf(ctx, id) })
	}
	wg.Wait()
	left := make(map[int64]time.Duration, len(ids))
	for i, id := range ids {
		left[id] = found[i]
	}
	return left, errors.Join(errs...)
}

// checkShare is check, and how a hold is to share its key.
func checkShare(key string, r driver.Request) error {
	if err := r.Share.Check(); err != nil {
		return err
	}
	if r.Fair {
		return fmt.Errorf("%w: fair: a shared hold has no queue at the store", driver.ErrUnsupported)
	}
	return check(key, r)
}
