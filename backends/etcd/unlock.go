package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/coordgo/coord/driver"
)

// errWithdrawn ends a wait whose id was unlocked.
var errWithdrawn = fmt.Errorf("%w: the wait was withdrawn", driver.ErrNotHeld)

// leave ends the hold or the wait of p by op, and gives its entry.
func (b *backend) leave(ctx context.Context, p place, op func(name string) *pb.RequestOp) (record, error) {
	e, rec, lapsed := b.leaving(p)
	var err error
	if rec.create > 0 {
		err = b.conclude(ctx, p, rec, op)
	}
	// A head's grant, of which the reply was lost, has another entry.
	if rec.create == 0 || p.shared && errors.Is(err, driver.ErrNotHeld) {
		if rec, err = b.find(ctx, p); err == nil {
			err = b.conclude(ctx, p, rec, op)
		}
	}
	switch {
	case errors.Is(err, driver.ErrNotHeld):
		b.left(e, false)
	case err == nil:
		b.left(e, true)
		if lapsed {
			err = driver.ErrNotHeld
		}
	}
	return rec, err
}

// leaving looks up what this client knows of an entry that is to end. rec.create is 0 if the entry is not known.
func (b *backend) leaving(p place) (e *entry, rec record, lapsed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e = b.entries[p]; e == nil {
		return nil, record{}, false
	}
	lapsed = e.state == held && !time.Now().Before(e.deadline)
	return e, record{name: e.name, create: e.create, value: e.value(e.id)}, lapsed
}

// find reads the queue, or all who share the key, for the entry of p.
func (b *backend) find(ctx context.Context, p place) (record, error) {
	prefix := b.names.prefix(p)
	resp, err := b.get(ctx, allUnder(prefix))
	if err != nil {
		return record{}, err
	}
	absent := driver.ErrNotHeld
	for _, kv := range resp.Kvs {
		rec, err := b.names.read(p, kv)
		switch {
		case err != nil:
			absent = err // who knows whose that is
		case rec.id == p.id && !rec.released:
			return rec, nil
		}
	}
	return record{}, absent
}

// conclude makes op of an entry that is p's still, and as it was made.
func (b *backend) conclude(ctx context.Context, p place, rec record, op func(name string) *pb.RequestOp) error {
	for {
		resp, err := b.perform(ctx, b.names.prefix(p), &pb.TxnRequest{
			Compare: []*pb.Compare{madeAt(rec.name, rec.create), hasValue(rec.name, rec.value)},
			Success: []*pb.RequestOp{op(rec.name)},
			Failure: []*pb.RequestOp{getOf(rec.name)},
		})
		if err != nil || resp.Succeeded {
			return err
		}
		found := kvsOf(resp, 0)
		if len(found) == 0 {
			return driver.ErrNotHeld
		}
		there, err := b.names.read(p, found[0])
		switch {
		case err != nil:
			return err // who knows whose that is
		case there.create != rec.create, there.released, there.id != p.id:
			return driver.ErrNotHeld
		}
		rec.value = there.value // it was made smaller, and the reply to that was lost
	}
}

// left takes in that the hold or wait of e has ended, or that it was not there. What
// was broken is still to be removed when its time is over.
func (b *backend) left(e *entry, removed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case e == nil || e.state == dropped || e.state == removing:
	case !removed && e.state == unsure: // it may yet come
	case !removed && e.state == held:
		e.state = kept
	case e.state != kept:
		b.gone(e, errWithdrawn)
	}
}

// UnlockAfter implements driver.Locker: the entry stays, as nobody's, on a lease
// of its own, which ends by itself. While this client lives it removes the entry to the
// moment.
func (b *backend) UnlockAfter(ctx context.Context, key, id string, d time.Duration) error {
	if d <= 0 {
		return b.Unlock(ctx, key, id)
	}
	call, done, err := b.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	until := time.Now().Add(d)
	l, err := b.newLease(call, b.seconds(d))
	if err != nil {
		return err
	}
	rec, err := b.leave(call, place{key: key, id: id}, func(name string) *pb.RequestOp {
		return putOf(name, releasedValue(id), l.id)
	})
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e := &entry{place: place{key: key, id: id}, name: rec.name, create: rec.create, state: kept, deadline: until}
	b.add(e, l)
	b.plan(e)
	return nil
}
