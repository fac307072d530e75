package etcd

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord/driver"
)

// What is not ours in a queue is told, and left as it is: a value that is not coord's, an
// entry that would never end, a name that is no id.
func TestForeignEntries(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	ctx := t.Context()
	lease := must[*clientv3.LeaseGrantResponse](t)(b.client.Grant(ctx, 600)).ID
	id := newID("a")
	for name, foreign := range map[string]struct {
		entry, value string
		lease        clientv3.LeaseID
	}{
		"another value":   {id, "something else", lease},
		"without a lease": {id, heldValue(id), 0},
		"no id":           {"two words", heldValue("two words"), lease},
	} {
		t.Run(name, func(t *testing.T) {
			queue := b.names.queue(name)
			must[*clientv3.PutResponse](t)(b.client.Put(ctx, queue+foreign.entry, foreign.value, clientv3.WithLease(foreign.lease)))
			short, cancel := context.WithTimeout(ctx, hung)
			defer cancel()
			for op, call := range map[string]func() error{
				"TryLock": func() error { _, err := b.TryLock(short, name, request("c", time.Hour)); return err },
				"Lock":    func() error { _, err := b.Lock(short, name, request("c", time.Hour), func() {}); return err },
				"Inspect": func() error { _, err := b.Inspect(short, name); return err },
				"TryLock by id": func() error {
					_, err := b.TryLock(short, name, driver.Request{ID: id, TTL: time.Hour})
					return err
				},
				"Break of its id": func() error { return b.Break(short, name, id) },
				"Renew of its id": func() error {
					_, err := b.Renew(short, name, driver.Request{ID: id, TTL: time.Hour})
					return err
				},
			} {
				if err := call(); !errors.Is(err, driver.ErrCorrupt) {
					t.Errorf("%s: %v, want ErrCorrupt", op, err)
				}
			}
			if foreign.lease != 0 && foreign.entry == id {
				if err := b.Unlock(short, name, id); !errors.Is(err, driver.ErrCorrupt) {
					t.Errorf("Unlock of its id: %v, want ErrCorrupt", err)
				}
			}
			// The entry of the Lock that failed goes; the foreign one stays.
			until(t, hung, "our own entry to be removed", func() bool {
				kvs := entriesOf(t, b.client, queue).Kvs
				return len(kvs) == 1 && string(kvs[0].Value) == foreign.value
			})
		})
	}
}

// A state that is not one is told, and neither overwritten nor deleted.
func TestCorruptLimitState(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	ctx := t.Context()
	limit := must[driver.Limit](t)(driver.Limit{Rate: 5, Per: time.Hour}.Normal())
	name := b.names.limit("k", limit)
	must[*clientv3.PutResponse](t)(b.client.Put(ctx, name, "something else"))
	one := []driver.Ask{{ID: "x", Min: 1, N: 1}}
	for op, call := range map[string]func() error{
		"Take":    func() error { _, err := b.Take(ctx, "k", limit, one); return err },
		"peek":    func() error { _, err := b.Take(ctx, "k", limit, []driver.Ask{{}}); return err },
		"TakeOne": func() error { _, err := b.TakeOne(ctx, "k", limit, one[0]); return err },
		"TakeAll": func() error { _, err := b.TakeAll(ctx, []driver.Demand{{Key: "k", Limit: limit, N: 1}}); return err },
		"Refund":  func() error { return b.Refund(ctx, "k", limit, "x", 1) },
		"Reset":   func() error { return b.Reset(ctx, "k", limit) },
	} {
		for range 2 {
			if err := call(); !errors.Is(err, driver.ErrCorrupt) {
				t.Errorf("%s: %v, want ErrCorrupt", op, err)
			}
		}
	}
	got := must[*clientv3.GetResponse](t)(b.client.Get(ctx, name))
	if len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "something else" {
		t.Errorf("left %v", got.Kvs)
	}
}

// A server whose quota is used up by the very request has applied it, and refuses it all the
// same: that is no proof that nothing was done.
func TestNoSpaceIsNoDefiniteError(t *testing.T) {
	t.Parallel()
	b, m := meddled(t, shared(t).Addr)
	m.on(func(_ string, req any, send func() error) error {
		err := send()
		if puts(req) && err == nil {
			err = rpctypes.ErrGRPCNoSpace
		}
		return err
	})
	r := request("a", time.Minute)
	_, err := b.TryLock(t.Context(), "k", r)
	if !errors.Is(err, rpctypes.ErrNoSpace) || driver.Definite(err) {
		t.Errorf("%v: want an unknown outcome", err)
	}
	m.on(nil)
	if _, err := b.TryLock(t.Context(), "other", request("b", time.Minute)); err != nil {
		t.Fatal(err)
	}
	ghost := entriesOf(t, b.client, b.names.queue("k")).Kvs[0]
	if other := entriesOf(t, b.client, b.names.queue("other")).Kvs[0]; other.Lease == ghost.Lease {
		t.Error("what it may have made hangs on a lease that is kept alive for others")
	}
}
