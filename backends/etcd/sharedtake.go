package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/coordgo/coord/driver"
)

// take is an attempt to get a shared hold.
type take struct {
	b *backend
	place
	share driver.Share
	again driver.Request // the request without its share, for a hold that exists
	l     *lease
}

// try reads who shares the key, and makes an entry on the condition that nobody has come since. If somebody has, or what an earlier
// attempt left has changed, it begins again.
func (t *take) try(ctx context.Context) (driver.Grant, error) {
	for defeats := 0; ; defeats++ {
		asked := time.Now()
		all, err := t.b.sharersOf(ctx, t.key)
		if err != nil {
			return driver.Grant{}, err
		}
		t.b.backoff.Observe(time.Since(asked))
		v := all.judge(t.id, t.share)
		switch {
		case v.own != nil: // the reply to an earlier attempt was lost, or another client has made it
			if g, err := t.b.adopt(ctx, t.place, t.again, *v.own, nil); !errors.Is(err, errChanged) {
				return g, err
			}
			continue
		case !v.fits:
			return driver.Grant{}, t.refused(ctx, v.head)
		case v.slot >= maxHolders:
			return driver.Grant{}, fmt.Errorf("%w: more than %d holders of one key", driver.ErrUnsupported, maxHolders)
		}
		g, granted, err := t.grant(ctx, all.revision, v)
		if granted || err != nil {
			return g, err
		}
		if err := t.b.backoff.Pause(ctx, defeats); err != nil {
			return driver.Grant{}, err
		}
	}
}

// grant makes the entry of a hold that fits beside those who shared the key at a revision, and removes the head if that is the
// same id's. granted is false if somebody has come since.
func (t *take) grant(ctx context.Context, revision int64, v verdict) (g driver.Grant, granted bool, err error) {
	share := t.share
	share.Head = false
	prefix := t.b.names.shared(t.key)
	e := &entry{place: t.place, name: prefix + shareName(share.Mode, v.slot), sharedPart: sharedPart{share: share, slot: v.slot}}
	txn := &pb.TxnRequest{Success: []*pb.RequestOp{putOf(e.name, e.value(e.id), t.l.id)}}
	if share.Mode == driver.Read { // other readers may come, but to another slot
		txn.Compare = []*pb.Compare{noneSince(prefix+writersDir, revision), madeAt(e.name, 0)}
	} else {
		txn.Compare = []*pb.Compare{noneSince(prefix, revision)}
	}
	if v.head != nil {
		txn.Compare = append(txn.Compare, madeAt(v.head.name, v.head.create))
		txn.Success = append(txn.Success, deletionOf(v.head.name))
	}
	resp, _, err := t.b.makeEntry(ctx, e, t.l, txn)
	if err != nil || !resp.Succeeded {
		return g, false, err
	}
	g, err = t.b.created(e, t.l)
	g.Of = v.bound
	return g, true, err
}

// refused answers a request for which there is no room. One from the head of the queue becomes the key's head, if it has none,
// or stays it, on a lease of driver.HeadFor: a head that dies is gone with that, however long its hold would be.
func (t *take) refused(ctx context.Context, head *record) error {
	if !t.share.Head || head != nil && head.id != t.id {
		return driver.ErrLocked
	}
	short := driver.Request{ID: t.id, TTL: t.b.headFor}
	if head != nil { // its lease may be another client's, or tainted
		l, there, err := t.b.rebound(ctx, t.place, short, head)
		if err == nil && there {
			t.b.lead(t.place, *head, l)
		}
		return cmp.Or(err, driver.ErrLocked)
	}
	_, err := t.b.onLease(ctx, t.place, short, func(l *lease) (driver.Grant, error) {
		return driver.Grant{}, (&take{b: t.b, place: t.place, l: l}).head(ctx)
	})
	return err
}

// head makes the head's entry, unless there is one.
func (t *take) head(ctx context.Context) error {
	e := &entry{place: t.place, name: t.b.names.shared(t.key) + headName, sharedPart: sharedPart{head: true}}
	resp, _, err := t.b.makeEntry(ctx, e, t.l, &pb.TxnRequest{
		Compare: []*pb.Compare{madeAt(e.name, 0)},
		Success: []*pb.RequestOp{putOf(e.name, e.value(e.id), t.l.id)},
	})
	if err == nil && resp.Succeeded {
		t.b.lead(t.place, record{name: e.name, create: e.create, sharedPart: e.sharedPart}, t.l)
	}
	return cmp.Or(err, driver.ErrLocked)
}

// lead keeps the head's entry until its lease ends, unless that is kept alive for it.
func (b *backend) lead(p place, rec record, l *lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.lost {
		return
	}
	e := b.known(p, rec, l)
	e.state, e.deadline = waiting, l.until()
	b.plan(e)
}
