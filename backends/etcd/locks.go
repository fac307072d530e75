package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord/driver"
)

// maxToken is the first token that is out of range.
const maxToken = 1 << 53

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
	if g, ok, err := b.heldAlready(call, key, r); ok || err != nil {
		return g, err
	}
	for again := true; ; again = false {
		l, err := b.leaseFor(call, b.seconds(r.TTL))
		if err != nil {
			return driver.Grant{}, err
		}
		g, err := b.tryOn(call, key, r, l)
		if !again || !b.leaseRefused(l, err) {
			return g, err
		}
	}
}

// heldAlready answers a repeated attempt of an id that holds, as this client knows,
// and clears away what is left of one that has lapsed.
func (b *backend) heldAlready(ctx context.Context, key string, r driver.Request) (driver.Grant, bool, error) {
	e, err := b.lapsed(ctx, b.names.entry(key, r.ID))
	if err != nil || e == nil {
		return driver.Grant{}, false, err
	}
	b.mu.Lock()
	holds := e.state == held
	b.mu.Unlock()
	if !holds {
		return driver.Grant{}, false, nil
	}
	g, err := b.renewOne(ctx, key, r)
	if errors.Is(err, driver.ErrNotHeld) {
		_, err = b.lapsed(ctx, b.names.entry(key, r.ID))
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

// tryOn makes the transaction: if the line is empty, stand in it, and hold. Otherwise
// the first in line is read, and our own entry.
func (b *backend) tryOn(ctx context.Context, key string, r driver.Request, l *lease) (driver.Grant, error) {
	line, name := b.names.line(key), b.names.entry(key, r.ID)
	resp, err := b.txn(ctx,
		[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(line), "=", 0).WithPrefix()},
		[]clientv3.Op{clientv3.OpPut(name, heldValue(r.ID), clientv3.WithLease(clientv3.LeaseID(l.id)))},
		[]clientv3.Op{clientv3.OpGet(name), first(line)})
	if err != nil {
		if !driver.Definite(err) {
			b.taint(l)
		}
		return driver.Grant{}, err
	}
	if resp.Succeeded {
		return b.created(key, r.ID, resp.Header.Revision, l)
	}
	own, rest := kvsOf(resp, 0), kvsOf(resp, 1)
	if len(rest) == 0 {
		return driver.Grant{}, errors.New("etcd: a line that is neither empty nor has a first")
	}
	if len(own) > 0 {
		rec, err := readRecord(line, own[0])
		switch {
		case err != nil:
			return driver.Grant{}, err
		case rec.released || own[0].CreateRevision != rest[0].CreateRevision:
			return driver.Grant{}, driver.ErrLocked
		}
		return b.adopt(ctx, key, r, rec)
	}
	if _, err := readRecord(line, rest[0]); err != nil {
		return driver.Grant{}, err
	}
	return driver.Grant{}, driver.ErrLocked
}

// first reads the first in line.
func first(line string) clientv3.Op {
	return clientv3.OpGet(line, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend), clientv3.WithLimit(1))
}

// kvsOf is what the i-th operation of a transaction, a read, has found.
func kvsOf(resp *clientv3.TxnResponse, i int) []*mvccpb.KeyValue {
	return resp.Responses[i].GetResponseRange().GetKvs()
}

// created notes a hold that was created on l just now.
func (b *backend) created(key, id string, revision int64, l *lease) (driver.Grant, error) {
	if revision >= maxToken {
		return driver.Grant{}, fmt.Errorf("etcd: revision %d is above what a token can be, %d", revision, int64(maxToken)-1)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e := &entry{name: b.names.entry(key, id), key: key, id: id, create: revision}
	b.add(e, l)
	if l.lost {
		// It was gone before we knew of the entry.
		b.drop(e)
		return driver.Grant{}, errLeaseLost
	}
	return b.hold(e), nil
}

// adopt takes over a hold of r.ID that this client does not know: a repeated attempt
// after a lost reply, or through another client.
func (b *backend) adopt(ctx context.Context, key string, r driver.Request, rec record) (driver.Grant, error) {
	l, err := b.moveTo(ctx, rec, b.seconds(r.TTL))
	if err != nil {
		return driver.Grant{}, err
	}
	name := b.names.entry(key, r.ID)
	if l.id != rec.lease {
		resp, err := b.txn(ctx, nil, []clientv3.Op{rebinding(name, r.ID, rec.create, l)}, nil)
		switch {
		case err != nil:
			if !driver.Definite(err) {
				b.taint(l)
			}
			return driver.Grant{}, err
		case !resp.Responses[0].GetResponseTxn().Succeeded:
			return driver.Grant{}, driver.ErrLocked // it has changed meanwhile
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[name]
	if e == nil || e.state != held || e.create != rec.create {
		e = &entry{name: name, key: key, id: r.ID, create: rec.create}
		b.add(e, l)
	} else {
		b.bind(e, l)
	}
	return b.hold(e), nil
}

// moveTo gives the lease that an entry is to be bound to: one of ours, of at least
// so many seconds, that ends no earlier than the one it has.
func (b *backend) moveTo(ctx context.Context, rec record, seconds int64) (*lease, error) {
	b.mu.Lock()
	l := b.granted[rec.lease]
	ours := l.usable(time.Now()) && l.seconds >= seconds
	b.mu.Unlock()
	if ours {
		return l, b.keepAlive(ctx, l, b.ago(l, 3))
	}
	asked := time.Now()
	resp, err := b.lease.TimeToLive(ctx, clientv3.LeaseID(rec.lease))
	if err != nil {
		return nil, readOnly(ctx, err)
	}
	if resp.TTL > 0 {
		seconds = max(seconds, resp.TTL+1) // the server rounds down
	}
	if l, err = b.leaseFor(ctx, seconds); err != nil {
		return nil, err
	}
	return l, b.keepAlive(ctx, l, asked)
}

// rebinding binds an entry of ours to another lease, unless it has changed hands or
// was broken. It keeps its place.
func rebinding(name, id string, create int64, l *lease) clientv3.Op {
	return clientv3.OpTxn([]clientv3.Cmp{
		clientv3.Compare(clientv3.CreateRevision(name), "=", create),
		clientv3.Compare(clientv3.Value(name), "=", heldValue(id)),
	}, []clientv3.Op{
		clientv3.OpPut(name, heldValue(id), clientv3.WithLease(clientv3.LeaseID(l.id))),
	}, []clientv3.Op{clientv3.OpGet(name)})
}

// Unlock implements driver.Locker: one transaction.
func (b *backend) Unlock(ctx context.Context, key, id string) error {
	_, err := b.leave(ctx, key, id, clientv3.OpDelete(b.names.entry(key, id)))
	return err
}

// errWithdrawn ends a wait whose id was unlocked.
var errWithdrawn = fmt.Errorf("%w: the wait was withdrawn", driver.ErrNotHeld)

// leave ends the hold or the wait of id by op. An entry is found by its name, and told
// by its value and, as far as we know it, the revision of its creation.
func (b *backend) leave(ctx context.Context, key, id string, op clientv3.Op) (*clientv3.TxnResponse, error) {
	if err := checkHold(key, id); err != nil {
		return nil, err
	}
	call, done, err := b.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	name := b.names.entry(key, id)
	e, lapsed, cmps := b.leaving(name)
	cmps = append(cmps, clientv3.Compare(clientv3.Value(name), "=", heldValue(id)))
	resp, err := b.txn(call, cmps, []clientv3.Op{op}, []clientv3.Op{clientv3.OpGet(name)})
	if err != nil {
		return nil, err
	}
	b.left(e, resp.Succeeded)
	if !resp.Succeeded {
		if own := kvsOf(resp, 0); len(own) > 0 {
			if _, err := readRecord(b.names.line(key), own[0]); err != nil {
				return nil, err
			}
		}
		return nil, driver.ErrNotHeld
	}
	if lapsed {
		return nil, driver.ErrNotHeld
	}
	return resp, nil
}

// leaving looks up what this client knows of an entry that is to end, and ceases to
// watch it: that it goes now is no loss.
func (b *backend) leaving(name string) (e *entry, lapsed bool, known []clientv3.Cmp) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e = b.entries[name]; e == nil {
		return nil, false, nil
	}
	if e.state == held && e.unguard != nil {
		e.unguard()
	}
	lapsed = e.state == held && !time.Now().Before(e.deadline)
	return e, lapsed, []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(name), "=", e.create)}
}

// left takes in that the hold or wait of e has ended, or that it was not there. What
// was broken is still to be removed when its time is over.
func (b *backend) left(e *entry, removed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case e == nil || e.state == dropped || e.state == doomed:
	case !removed && e.state == held:
		e.state = kept
	case e.state != kept:
		b.drop(e)
		b.tell(e, waiting, errWithdrawn)
	}
}

// UnlockAfter implements driver.DelayedUnlocker: the entry stays, as nobody's, on a lease
// of its own, which ends by itself. While this client lives it removes the entry to the
// moment.
func (b *backend) UnlockAfter(ctx context.Context, key, id string, d time.Duration) error {
	switch {
	case d <= 0:
		return b.Unlock(ctx, key, id)
	case d > maxTTL:
		return fmt.Errorf("%w: delay %v: want at most %v", driver.ErrInvalid, d, maxTTL)
	}
	if err := checkHold(key, id); err != nil {
		return err
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
	name := b.names.entry(key, id)
	resp, err := b.leave(call, key, id,
		clientv3.OpPut(name, releasedValue(id), clientv3.WithLease(clientv3.LeaseID(l.id)), clientv3.WithPrevKV()))
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e := &entry{
		name: name, key: key, id: id, state: kept, deadline: until,
		create: resp.Responses[0].GetResponsePut().GetPrevKv().GetCreateRevision(),
	}
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
	return checkHold(key, r.ID)
}

func checkHold(key, id string) error {
	if !validID(id) {
		return fmt.Errorf("%w: id %.140q: want 1 to %d bytes of printable ASCII without spaces", driver.ErrInvalid, id, driver.MaxID)
	}
	return checkKey(key)
}

func checkKey(key string) error {
	if key == "" || len(key) > maxKey {
		return fmt.Errorf("%w: key of %d bytes: want 1 to %d", driver.ErrInvalid, len(key), maxKey)
	}
	return nil
}
