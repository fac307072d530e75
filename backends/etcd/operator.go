package etcd

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord/driver"
)

// Inspect implements driver.Inspector: two requests.
func (b *backend) Inspect(ctx context.Context, key string) (driver.Holder, error) {
	if err := checkKey(key); err != nil {
		return driver.Holder{}, err
	}
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
	found, err := b.get(ctx, clientv3.OpGet(queue, clientv3.WithFirstCreate()...))
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
	if err := checkHold(key, id); err != nil {
		return err
	}
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

// replace gives an entry another value, on the lease that it has. there is false if it has changed since it was read.
func (b *backend) replace(ctx context.Context, rec record, value string) (there bool, err error) {
	resp, err := b.txn(ctx, []clientv3.Cmp{
		clientv3.Compare(clientv3.CreateRevision(rec.name), "=", rec.create),
		clientv3.Compare(clientv3.Value(rec.name), "=", rec.value),
	}, []clientv3.Op{clientv3.OpPut(rec.name, value, clientv3.WithIgnoreLease())}, nil)
	if err != nil {
		return false, err
	}
	return resp.Succeeded, nil
}
