package etcd

import (
	"context"
	"errors"
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

// Break implements driver.Breaker: the entry becomes nobody's where it is, on the same
// lease. Its client removes it at the hold's deadline; if that client is dead, the lease
// ends. Nobody comes before the first in the queue, so that the two requests are as good as one.
func (b *backend) Break(ctx context.Context, key, id string) error {
	call, done, err := b.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	rec, _, err := b.firstOf(call, key)
	if err != nil {
		return err
	}
	if rec.id != id || rec.released {
		return driver.ErrNotHeld
	}
	there, err := b.replace(call, rec, releasedValue(id))
	if err == nil && !there {
		err = driver.ErrNotHeld
	}
	return err
}

// BreakNow implements driver.Breaker: the entry of id goes, also as nobody's.
func (b *backend) BreakNow(ctx context.Context, key, id string) error {
	return b.breakNow(ctx, place{key: key, id: id})
}

func (b *backend) breakNow(ctx context.Context, p place) error {
	call, done, err := b.begin(ctx)
	if err != nil {
		return err
	}
	freed, err := b.freeKept(call, p)
	done()
	if err != nil || freed && !p.shared {
		return err
	}
	if err = b.unlock(ctx, p); freed && errors.Is(err, driver.ErrNotHeld) {
		return nil
	}
	return err
}

// freeKept removes the entries that keep taken what p held.
func (b *backend) freeKept(ctx context.Context, p place) (freed bool, err error) {
	prefix := b.names.prefix(p)
	found, err := b.get(ctx, allUnder(prefix))
	if err != nil {
		return false, err
	}
	for _, kv := range found.Kvs {
		rec, err := b.names.read(p, kv)
		if err != nil || rec.id != p.id || !rec.released {
			continue // Unlock tells of what is not coord's
		}
		there, err := b.delete(ctx, rec)
		if err != nil {
			return freed, err
		}
		freed = freed || there
	}
	return freed, nil
}

// delete removes an entry. there is false if it has changed since it was read.
func (b *backend) delete(ctx context.Context, rec record) (there bool, err error) {
	return b.changeAsRead(ctx, rec, deletionOf(rec.name))
}

// replace gives an entry another value, on the lease that it has. there is false if it has changed since it was read.
func (b *backend) replace(ctx context.Context, rec record, value string) (there bool, err error) {
	return b.changeAsRead(ctx, rec, put(&pb.PutRequest{Key: []byte(rec.name), Value: []byte(value), IgnoreLease: true}))
}

func (b *backend) changeAsRead(ctx context.Context, rec record, op *pb.RequestOp) (there bool, err error) {
	resp, err := b.txn(ctx, &pb.TxnRequest{
		Compare: []*pb.Compare{madeAt(rec.name, rec.create), hasValue(rec.name, rec.value)},
		Success: []*pb.RequestOp{op},
	})
	return err == nil && resp.Succeeded, err
}
