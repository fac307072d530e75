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
	lease, err := b.timeToLive(call, rec.lease)
	switch {
	case err != nil:
		return driver.Holder{}, err
	case lease.TTL < 0: // it has expired in between
		return driver.Holder{}, driver.ErrNotHeld
	}
	// The server rounds down what is left.
	left := min(lease.TTL+1, lease.GrantedTTL)
	h := driver.NewHolder(rec.id, rec.create, time.Duration(left)*time.Second)
	h.Released, h.Waiters = rec.released, int(count)-1
	return h, nil
}

// firstOf reads the first in the queue, and how many there are. ErrNotHeld if there is none.
func (b *backend) firstOf(ctx context.Context, key string) (record, int64, error) {
	queue := b.names.queue(key)
	found, err := b.get(ctx, first(queue))
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
	resp, err := b.txn(call, []clientv3.Cmp{
		clientv3.Compare(clientv3.CreateRevision(rec.name), "=", rec.create),
		clientv3.Compare(clientv3.Value(rec.name), "=", heldValue(id)),
	}, []clientv3.Op{clientv3.OpPut(rec.name, releasedValue(id), clientv3.WithIgnoreLease())}, nil)
	switch {
	case err != nil:
		return err
	case !resp.Succeeded:
		return driver.ErrNotHeld
	}
	return nil
}
