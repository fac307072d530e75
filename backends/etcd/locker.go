package etcd

import (
	"context"

	"github.com/coordgo/coord/driver"
)

// locker is what locks and shared holds have in common.
type locker struct {
	store  *backend
	shared bool
}

func (l locker) place(key, id string) place { return place{key, id, l.shared} }

// Renew implements driver.Locker: a keepalive, unless one was sent just now, and a
// proof that the entry is there. A shared hold that is to be smaller is read, and changed in place.
func (l locker) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	out := l.RenewAll(ctx, []driver.Hold{{Key: key, Request: r}})
	return out[0].Grant, out[0].Err
}

// RenewAll implements driver.Locker: one keepalive for each TTL among the holds,
// and one request for each hundred of them.
func (l locker) RenewAll(ctx context.Context, holds []driver.Hold) []driver.Renewal {
	call, done, err := l.store.begin(ctx)
	if err != nil {
		out := make([]driver.Renewal, len(holds))
		for i := range out {
			out[i].Err = err
		}
		return out
	}
	defer done()
	return l.store.renew(call, l.shared, holds)
}

// Unlock implements driver.Locker: one request, and a read of the queue before it if this client does not know the
// entry. Of the head of a shared key's queue it ends the headship.
func (l locker) Unlock(ctx context.Context, key, id string) error {
	call, done, err := l.store.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	_, err = l.store.leave(call, l.place(key, id), deletionOf)
	return err
}

// Break implements driver.Breaker: the entry becomes nobody's where it is, on the same
// lease. Its client removes it at the hold's deadline; if that client is dead, the lease ends.
func (l locker) Break(ctx context.Context, key, id string) error {
	call, done, err := l.store.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	for {
		rec, err := l.store.heldBy(call, l.place(key, id))
		if err != nil {
			return err
		}
		broken, err := l.store.replace(call, rec, rec.releasedValue(id))
		if broken || err != nil {
			return err
		}
	}
}

// BreakNow implements driver.Breaker: the entry of id goes, also as nobody's.
func (l locker) BreakNow(ctx context.Context, key, id string) error {
	call, done, err := l.store.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	p := l.place(key, id)
	e, _, _ := l.store.leaving(p)
	if err = l.store.removeAll(call, p); err == nil {
		l.store.left(e, true)
	}
	return err
}
