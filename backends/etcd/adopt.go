package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/coordgo/coord/driver"
)

// errChanged tells that an entry that was read is there no more as it was: its lease has ended, or another call was faster.
var errChanged = fmt.Errorf("%w: it has changed meanwhile", driver.ErrLocked)

// adopt takes over a hold of r.ID that this client does not know: a repeated attempt
// after a lost reply, or through another client. After errChanged one reads it again.
func (b *backend) adopt(ctx context.Context, p place, r driver.Request, rec record, was *entry) (driver.Grant, error) {
	l, there, err := b.rebound(ctx, p, r, &rec)
	switch {
	case err != nil:
		return driver.Grant{}, err
	case !there:
		return driver.Grant{}, errChanged
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if was != nil && (was.state == removing || was.state == dropped) && was.create == rec.create && was.lease == l {
		return driver.Grant{}, errChanged // its deadline came meanwhile: it is removed, or about to be
	}
	return b.hold(b.known(p, rec, l)), nil
}

// known gives the entry of p that was read as rec, on lease l, which is new if this client did not know it. backend.mu is held.
func (b *backend) known(p place, rec record, l *lease) *entry {
	e := b.entries[p]
	if e == nil || e.state != held || e.create != rec.create {
		b.supersede(e)
		e = &entry{place: p, name: rec.name, create: rec.create, sharedPart: rec.sharedPart}
		b.add(e, l)
	} else {
		b.bind(e, l)
	}
	e.share = rec.share
	return e
}

// supersede ends what was unsure, or the head, now that another entry of its id is known. backend.mu is held.
func (b *backend) supersede(old *entry) {
	if old != nil && (old.state == unsure || old.head) {
		b.drop(old)
	}
}

// rebound binds an entry that an earlier call left at the store to a lease that we keep alive, and makes a shared hold smaller
// if r asks for less. there is false if it has changed meanwhile.
func (b *backend) rebound(ctx context.Context, p place, r driver.Request, rec *record) (l *lease, there bool, err error) {
	wants := rec.value
	if share := rec.share.Shrunk(r.Share); share != rec.share {
		rec.share = share
		wants = rec.sharedPart.value(rec.id)
	}
	l, err = b.moveTo(ctx, *rec, b.seconds(r.TTL))
	switch {
	case err != nil:
		return nil, false, err
	case l.id == rec.lease && wants == rec.value:
		return l, true, b.confirm(ctx, l)
	}
	there, err = b.rebind(ctx, p, *rec, wants, l)
	return l, there, err
}

// moveTo gives the lease that an entry is to be bound to: one of ours, of at least
// so many seconds, that ends no earlier than the one it has.
func (b *backend) moveTo(ctx context.Context, rec record, seconds int64) (*lease, error) {
	b.mu.Lock()
	l := b.granted[rec.lease]
	ours := l.usable() && l.seconds >= seconds
	b.mu.Unlock()
	if ours {
		if err := b.keepAlive(ctx, l, b.ago(l, 3)); !errors.Is(err, errLapsed) {
			return l, err
		}
	}
	asked := time.Now()
	resp, err := b.timeToLive(ctx, rec.lease)
	if err != nil {
		return nil, err
	}
	if resp.TTL > 0 {
		seconds = max(seconds, resp.TTL+1) // the server rounds down
	}
	if l, err = b.leaseFor(ctx, seconds); err != nil {
		return nil, err
	}
	return l, b.keepAlive(ctx, l, asked)
}

// rebinding binds an entry of ours to another lease, and gives it another value, unless it has changed hands, was broken
// or has been moved since. It keeps its place.
func rebinding(rec record, wants string, l *lease) *pb.RequestOp {
	return nested(&pb.TxnRequest{
		Compare: []*pb.Compare{madeAt(rec.name, rec.create), hasValue(rec.name, rec.value), onLease(rec.name, rec.lease)},
		Success: []*pb.RequestOp{putOf(rec.name, wants, l.id)},
		Failure: []*pb.RequestOp{getOf(rec.name)},
	})
}

// rebind makes the request of rebinding. there is false if the entry has changed hands, was broken or is gone.
func (b *backend) rebind(ctx context.Context, p place, rec record, wants string, l *lease) (there bool, err error) {
	for {
		answered := b.confirming(l)
		resp, err := b.txnAgain(ctx, rebinding(rec, wants, l))
		if err != nil {
			if !driver.Definite(err) {
				b.strays(p, l)
			}
			return false, err
		}
		answered()
		made := resp.Responses[0].GetResponseTxn()
		if made.Succeeded {
			return true, nil
		}
		found := kvsOf(made, 0)
		switch {
		case len(found) == 0 || found[0].CreateRevision != rec.create:
			return false, nil
		case found[0].Lease == l.id: // the request may have been made twice
			return string(found[0].Value) == wants, nil
		case string(found[0].Value) != rec.value || found[0].Lease == rec.lease:
			return false, nil
		}
		rec.lease = found[0].Lease // an earlier move has arrived
	}
}

// strays notes that the entry of p, if this client knows it, may be bound to l, now or later. l is tainted, so that it ends,
// and the entry with it. Therefore the entry is relied on for no longer than it is already, until it is on a third lease: then
// the request finds it on another one than it compares.
func (b *backend) strays(p place, l *lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l.tainted = true
	if e := b.entries[p]; e != nil && e.lease != l {
		e.moving, e.lease.tainted = true, true
	}
}
