package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord/driver"
)

// Shared implements driver.Sharer.
func (b *backend) Shared() driver.SharedLocker { return sharedLocker{b} }

// sharedLocker keeps the holds that share a key, on the leases that locks have too.
type sharedLocker struct{ b *backend }

var _ interface {
	driver.SharedLocker
	driver.BatchRenewer
	driver.LossNotifier
	driver.Breaker
	driver.ChangeNotifier
} = sharedLocker{}

// NotifyLost implements driver.LossNotifier.
func (s sharedLocker) NotifyLost(fn func(key, id string, cause error)) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.b.lostShare = fn
}

// TryLock makes one attempt: one request if nobody else holds key, or this client alone, else two. A refusal is one, and one
// more to become the head.
func (s sharedLocker) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if err := checkOf(ofShare, key, r); err != nil {
		return driver.Grant{}, err
	}
	b := s.b
	call, done, err := b.begin(ctx)
	if err != nil {
		return driver.Grant{}, err
	}
	defer done()
	t := &sharing{b: b, place: place{key, r.ID, ofShare}, Request: r}
	k, free := b.useShared(key)
	defer free()
	t.k = k
	if r.Share.Mode != driver.Read {
		unlock, err := k.turn.lock(call)
		if err != nil {
			return driver.Grant{}, err
		}
		defer unlock()
	}
	r.Share = driver.Share{} // an attempt makes nothing smaller
	if g, ok, err := b.heldAlready(call, t.place, r); ok || err != nil {
		return g, err
	}
	if _, _, err := b.heldAlready(call, place{key, r.ID, ofHead}, r); err != nil {
		return driver.Grant{}, err
	}
	return b.onLease(call, r, func(l *lease) (driver.Grant, error) {
		t.l = l
		return t.try(call)
	})
}

// Renew keeps the lease alive, proves that the entry is there, and makes it smaller in place if r asks for less.
func (s sharedLocker) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if err := checkOf(ofShare, key, r); err != nil {
		return driver.Grant{}, err
	}
	call, done, err := s.b.begin(ctx)
	if err != nil {
		return driver.Grant{}, err
	}
	defer done()
	return s.b.renewOne(call, place{key, r.ID, ofShare}, r)
}

// RenewAll implements driver.BatchRenewer, as for locks.
func (s sharedLocker) RenewAll(ctx context.Context, holds []driver.Hold) []driver.Renewal {
	return s.b.renewAll(ctx, ofShare, holds)
}

// Unlock ends the hold of id, or its headship: one request for what this client knows.
func (s sharedLocker) Unlock(ctx context.Context, key, id string) error {
	if err := checkHold(key, id); err != nil {
		return err
	}
	b := s.b
	call, done, err := b.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	kinds := [...]kind{ofShare, ofHead}
	b.mu.Lock()
	hold, head := b.entries[place{key, id, ofShare}], b.entries[place{key, id, ofHead}]
	known := hold != nil && hold.create > 0
	if hold == nil && head != nil {
		slices.Reverse(kinds[:])
	}
	b.mu.Unlock()
	for _, of := range kinds {
		_, err = b.leave(call, place{key, id, of}, deletionOf)
		if !errors.Is(err, driver.ErrNotHeld) || known && head == nil {
			return err
		}
	}
	return err
}

// Break makes the hold of id nobody's where it is, on the same lease, as that of a lock.
func (s sharedLocker) Break(ctx context.Context, key, id string) error {
	if err := checkHold(key, id); err != nil {
		return err
	}
	call, done, err := s.b.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	for {
		rec, err := s.b.find(call, place{key, id, ofShare})
		if err != nil {
			return err
		}
		resp, err := s.b.txn(call, []clientv3.Cmp{
			clientv3.Compare(clientv3.CreateRevision(rec.name), "=", rec.create),
			clientv3.Compare(clientv3.Value(rec.name), "=", rec.value),
		}, []clientv3.Op{clientv3.OpPut(rec.name, brokenValue(rec.share, id), clientv3.WithIgnoreLease())}, nil)
		if err != nil || resp.Succeeded {
			return err
		}
	}
}

// Holders reads who holds key: one request, and one for each lease.
func (s sharedLocker) Holders(ctx context.Context, key string) ([]driver.Holder, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	b := s.b
	call, done, err := b.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	k, free := b.useShared(key)
	defer free()
	m, err := b.listSharers(call, k, key)
	if err != nil {
		return nil, err
	}
	left, err := b.leasesOf(call, m.list)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(m.list, func(x, y record) int { return cmp.Compare(x.create, y.create) })
	var holders []driver.Holder
	for _, rec := range m.list {
		if ttl := left[rec.lease]; rec.kind == ofShare && ttl > 0 {
			h := driver.NewHolder(rec.id, rec.create, ttl)
			h.Released, h.Slot = rec.released, rec.slot
			h.Mode, h.Weight, h.Of = rec.share.Mode, rec.share.Weight, rec.share.Of
			holders = append(holders, h)
		}
	}
	return holders, nil
}

// maxLeaseCalls is how many leases are asked for at a time.
const maxLeaseCalls = 8

// leasesOf asks what is left of the leases of entries; nothing of those that have ended.
func (b *backend) leasesOf(ctx context.Context, list []record) (map[int64]time.Duration, error) {
	left := make(map[int64]time.Duration)
	for _, rec := range list {
		left[rec.lease] = 0
	}
	var (
		mu    sync.Mutex
		wg    sync.WaitGroup
		errs  []error
		slots = make(chan struct{}, maxLeaseCalls)
	)
	ids := make([]int64, 0, len(left))
	for id := range left {
		ids = append(ids, id)
	}
	for _, id := range ids {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			resp, err := b.timeToLive(ctx, id)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
			} else if resp.TTL >= 0 {
				left[id] = time.Duration(min(resp.TTL+1, resp.GrantedTTL)) * time.Second // the server rounds down
			}
		})
	}
	wg.Wait()
	return left, errors.Join(errs...)
}

// checkRenewal is check, and for shared holds what they are to be made, if anything.
func checkRenewal(of kind, h driver.Hold) error {
	if of == ofShare && h.Share != (driver.Share{}) {
		return checkOf(of, h.Key, h.Request)
	}
	return check(h.Key, h.Request)
}

// checkOf is check, and for shared holds how they share their key.
func checkOf(of kind, key string, r driver.Request) error {
	if of == ofLock {
		return check(key, r)
	}
	if err := r.Share.Check(); err != nil {
		return err
	}
	if r.Fair {
		return fmt.Errorf("%w: fair: a shared hold has no queue at the store", driver.ErrUnsupported)
	}
	return check(key, r)
}
