package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/coordgo/coord/driver"
)

// TryLock implements driver.Locker: one transaction, and a request for the lease once
// in a third of its time.
func (b *backend) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if err := check(key, r); err != nil {
		return driver.Grant{}, err
	}
	call, done, err := b.begin(ctx)
	if err != nil {
		return driver.Grant{}, err
	}
	defer done()
	p := place{key: key, id: r.ID}
	if g, ok, err := b.heldAlready(call, p, r); ok || err != nil {
		return g, err
	}
	return b.onLease(call, p, r, func(l *lease) (g driver.Grant, err error) {
		// If what an earlier attempt left changes under this one, the key may be free then.
		for err = errChanged; errors.Is(err, errChanged); {
			g, err = b.tryOn(call, key, r, l)
		}
		return g, err
	})
}

// onLease tries on a lease for r, and once more on another one if the server does not know that any more.
func (b *backend) onLease(ctx context.Context, p place, r driver.Request, try func(*lease) (driver.Grant, error)) (driver.Grant, error) {
	began := time.Now()
	for again := true; ; again = false {
		l, err := b.leaseFor(ctx, b.seconds(r.TTL))
		if err == nil && r.Whole {
			err = b.keepAlive(ctx, l, began)
		}
		switch {
		case again && errors.Is(err, errLeaseLost):
			continue
		case errors.Is(err, errLeaseLost):
			return driver.Grant{}, fmt.Errorf("%w: %w", driver.ErrNotSent, err)
		case err != nil:
			return driver.Grant{}, err
		}
		g, err := try(l)
		if err == nil && g.Token > 0 && b.outdated(l) { // it may end early; if it cannot be moved, it is as short as it is
			if moved, err := b.renewOne(ctx, p, r); err == nil {
				return moved, nil
			}
		}
		if !again || !b.leaseRefused(l, err) {
			return g, err
		}
	}
}

// heldAlready answers a repeated attempt of an id that holds, as this client knows,
// and clears away what is left of one that has lapsed.
func (b *backend) heldAlready(ctx context.Context, p place, r driver.Request) (driver.Grant, bool, error) {
	if err := b.awaitMade(ctx, p); err != nil {
		return driver.Grant{}, false, err
	}
	holds, err := b.lapsed(ctx, p)
	if err != nil || !holds {
		return driver.Grant{}, false, err
	}
	g, err := b.renewOne(ctx, p, r)
	if errors.Is(err, driver.ErrNotHeld) {
		_, err = b.lapsed(ctx, p)
		return driver.Grant{}, false, err
	}
	return g, err == nil, err
}

// leaseRefused reports whether a request failed because the server does not know l any
// more: then nothing was applied, and another lease will do.
func (b *backend) leaseRefused(l *lease, err error) bool {
	if !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return false
	}
	b.loseLease(l)
	return true
}

// tryOn sends the transaction: it makes an entry if the queue is empty. Otherwise it reads the first
// entry, which may be that of an earlier attempt.
func (b *backend) tryOn(ctx context.Context, key string, r driver.Request, l *lease) (driver.Grant, error) {
	queue := b.names.queue(key)
	e := &entry{place: place{key: key, id: r.ID}, name: b.names.entry(key, 0)}
	resp, _, err := b.makeEntry(ctx, e, l, &pb.TxnRequest{
		Compare: []*pb.Compare{emptyQueue(queue)},
		Success: []*pb.RequestOp{putOf(e.name, heldValue(r.ID), l.id)},
		Failure: []*pb.RequestOp{read(firstOfQueue(queue))},
	})
	switch {
	case err != nil:
		return driver.Grant{}, err
	case resp.Succeeded:
		return b.created(e, l)
	}
	rec, err := readRecord(queue, kvsOf(resp, 0)[0])
	switch {
	case err != nil:
		return driver.Grant{}, err
	case rec.released:
		return driver.Grant{}, driver.ErrLocked
	case rec.id != r.ID:
		return driver.Grant{}, &driver.LockedError{Holder: rec.id} // for how long, another request would tell
	}
	return b.adopt(ctx, e.place, r, rec, nil)
}

// created notes a hold whose entry was created on l just now.
func (b *backend) created(e *entry, l *lease) (driver.Grant, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.supersede(b.entries[e.place])
	b.add(e, l)
	if l.lost {
		// It was gone before we knew of the entry.
		b.drop(e)
		return driver.Grant{}, errLeaseLost
	}
	return b.hold(e), nil
}

// check refuses what no store could do. The core has checked the arguments already; a
// caller of the bare driver has not.
func check(key string, r driver.Request) error {
	if r.TTL <= 0 || r.TTL > maxTTL {
		return fmt.Errorf("%w: TTL %v: want above 0, at most %v", driver.ErrInvalid, r.TTL, maxTTL)
	}
	if key == "" || len(key) > maxKey {
		return fmt.Errorf("%w: key of %d bytes: want 1 to %d", driver.ErrInvalid, len(key), maxKey)
	}
	return driver.CheckID(r.ID)
}
