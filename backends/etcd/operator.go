package etcd

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/coordgo/coord/driver"
)

// Inspect implements driver.Operator: two requests.
func (b *backend) Inspect(ctx context.Context, key string) (driver.Holder, error) {
	call, done, err := b.begin(ctx)
	if err != nil {
		return driver.Holder{}, err
	}
	defer done()
	rec, count, err := b.firstOf(call, key)
	if err != nil {
		return driver.Holder{}, err
	}
	left, err := b.leftOf(call, rec.lease)
	switch {
	case err != nil:
		return driver.Holder{}, err
	case left < 0: // it has expired in between
		return driver.Holder{}, driver.ErrNotHeld
	}
	h := driver.NewHolder(rec.id, rec.create, left)
	h.Released, h.Waiters = rec.released, int(count)-1
	return h, nil
}

// leftOf asks what is left of a lease. It is below zero if the lease has ended.
func (b *backend) leftOf(ctx context.Context, lease int64) (time.Duration, error) {
	resp, err := b.timeToLive(ctx, lease)
	if err != nil {
		return 0, err
	}
	left := resp.TTL
	if left >= 0 {
		left = min(left+1, resp.GrantedTTL) // the server rounds down
	}
	return time.Duration(left) * time.Second, nil
}

// firstOf reads the first in the queue, and how many there are. ErrNotHeld if there is none.
func (b *backend) firstOf(ctx context.Context, key string) (record, int64, error) {
	queue := b.names.queue(key)
	found, err := b.get(ctx, firstOfQueue(queue))
	if err != nil {
		return record{}, 0, err
	}
	if len(found.Kvs) == 0 {
		return record{}, 0, driver.ErrNotHeld
	}
	rec, err := readRecord(queue, found.Kvs[0])
	return rec, found.Count, err
}

// removeAll removes the entries of p, also those that are nobody's. ErrNotHeld if there is none.
func (b *backend) removeAll(ctx context.Context, p place) error {
	freed, absent := false, driver.ErrNotHeld
	for changed := true; changed; {
		changed = false
		found, err := b.get(ctx, allUnder(b.names.prefix(p)))
		if err != nil {
			return err
		}
		for _, kv := range found.Kvs {
			rec, err := b.names.read(p, kv)
			if err != nil {
				absent = err // who knows whose that is
			}
			if err != nil || rec.id != p.id {
				continue
			}
			removed, err := b.changeAsRead(ctx, rec, deletionOf(rec.name))
			if err != nil {
				return err
			}
			freed, changed = freed || removed, changed || !removed
		}
	}
	if freed {
		return nil
	}
	return absent
}

// replace gives an entry another value, on the lease that it has. there is false if it has changed since it was read.
func (b *backend) replace(ctx context.Context, rec record, value string) (there bool, err error) {
	return b.changeAsRead(ctx, rec, put(&pb.PutRequest{Key: []byte(rec.name), Value: []byte(value), IgnoreLease: true}))
}

// changeAsRead makes op of an entry. there is false if it has changed since it was read.
func (b *backend) changeAsRead(ctx context.Context, rec record, op *pb.RequestOp) (there bool, err error) {
	resp, err := b.txn(ctx, &pb.TxnRequest{
		Compare: []*pb.Compare{madeAt(rec.name, rec.create), hasValue(rec.name, rec.value)},
		Success: []*pb.RequestOp{op},
	})
	return err == nil && resp.Succeeded, err
}
