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
	e, err := b.lapsed(ctx, p)
	if err != nil || e == nil {
		return driver.Grant{}, false, err
	}
	b.mu.Lock()
	holds := e.state == held
	b.mu.Unlock()
	if !holds {
		return driver.Grant{}, false, nil
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
	before := kvsOf(resp, 0)
	if len(before) == 0 {
		return driver.Grant{}, errors.New("etcd: a queue that is neither empty nor has a first")
	}
	rec, err := readRecord(queue, before[0])
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
	ours := l.usable(time.Now()) && l.seconds >= seconds
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

// Unlock implements driver.Locker: one request, and a read of the queue before it if this client does not know the
// entry.
func (b *backend) Unlock(ctx context.Context, key, id string) error {
	return b.unlock(ctx, place{key: key, id: id})
}

func (b *backend) unlock(ctx context.Context, p place) error {
	call, done, err := b.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	_, err = b.leave(call, p, deletionOf)
	return err
}

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
