package etcd

import (
	"errors"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord/driver"
)

// deletes reports whether a request is a transaction that would delete something.
func deletes(req any) bool {
	txn, ok := req.(*pb.TxnRequest)
	return ok && len(txn.Success) == 1 && txn.Success[0].GetRequestDeleteRange() != nil
}

// An Unlock that arrives after the key was locked again deletes nothing, though the entry has the same name.
func TestLateUnlock(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	b, m := meddled(t, srv.Addr)
	ctx := t.Context()
	first := request("first", time.Minute)
	must[driver.Grant](t)(b.TryLock(ctx, "k", first))
	var late *pb.TxnRequest
	m.on(func(_ string, req any, send func() error) error {
		if deletes(req) {
			late = req.(*pb.TxnRequest)
			return errLost
		}
		return send()
	})
	if err := b.Unlock(ctx, "k", first.ID); err == nil || driver.Definite(err) {
		t.Fatalf("an Unlock without an answer: %v, want an unknown outcome", err)
	}
	m.on(nil)
	if _, err := b.TryLock(ctx, "k", request("rival", time.Minute)); !errors.Is(err, driver.ErrLocked) {
		t.Fatalf("the key is still held: %v", err)
	}
	if err := b.Unlock(ctx, "k", first.ID); err != nil {
		t.Fatalf("Unlock again: %v", err)
	}
	second := request("second", time.Minute)
	g := must[driver.Grant](t)(b.TryLock(ctx, "k", second))
	if kv := entriesOf(t, b.client, b.names.queue("k")).Kvs[0]; string(kv.Key) != string(late.Compare[0].Key) {
		t.Fatal("the entries have different names: the test shows nothing")
	}
	must[*pb.TxnResponse](t)(b.sendTxn(ctx, late))
	if again, err := b.Renew(ctx, "k", second); err != nil || again.Token != g.Token {
		t.Errorf("the hold after: %+v, %v, want token %d", again, err, g.Token)
	}
	if err := b.Unlock(ctx, "k", second.ID); err != nil {
		t.Error(err)
	}
	nothingLeft(t, b)
}

// What was not the hold any more is told, and what was broken keeps the key taken.
func TestUnlockIsHonest(t *testing.T) {
	t.Parallel()
	srv, b := open(t)
	other := connect(t, srv.Addr)
	ctx := t.Context()
	for name, tc := range map[string]struct {
		spoil func(r driver.Request)
		left  int64
	}{
		"gone": {func(driver.Request) {
			must[*clientv3.DeleteResponse](t)(other.client.Delete(ctx, other.names.queue("k"), clientv3.WithPrefix()))
		}, 0},
		"broken": {func(r driver.Request) {
			if err := other.Break(ctx, "k", r.ID); err != nil {
				t.Fatal(err)
			}
		}, 1},
	} {
		r := request("a", time.Minute)
		must[driver.Grant](t)(b.TryLock(ctx, "k", r))
		tc.spoil(r)
		for range 2 {
			if err := b.Unlock(ctx, "k", r.ID); !errors.Is(err, driver.ErrNotHeld) {
				t.Errorf("%s: Unlock: %v, want ErrNotHeld", name, err)
			}
		}
		if n := entriesOf(t, b.client, b.names.queue("k")).Count; n != tc.left {
			t.Errorf("%s: %d entries, want %d", name, n, tc.left)
		}
		must[*clientv3.DeleteResponse](t)(other.client.Delete(ctx, other.names.queue("k"), clientv3.WithPrefix()))
	}
	r := request("a", time.Minute)
	must[driver.Grant](t)(b.TryLock(ctx, "k", r))
	if err := b.Unlock(ctx, "k", r.ID); err != nil {
		t.Errorf("Unlock of a hold: %v", err)
	}
}

// An Unlock that was never sent leaves the hold as it was.
func TestUnlockThatWasNotSent(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	b, m := meddled(t, srv.Addr)
	r := request("a", time.Minute)
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", r))
	m.on(func(_ string, req any, send func() error) error {
		if deletes(req) {
			return errNoConnection
		}
		return send()
	})
	if err := b.Unlock(t.Context(), "k", r.ID); !errors.Is(err, driver.ErrNotSent) {
		t.Fatalf("Unlock without a connection: %v, want ErrNotSent", err)
	}
	m.on(nil)
	if err := b.Unlock(t.Context(), "k", r.ID); err != nil {
		t.Errorf("Unlock: %v", err)
	}
	nothingLeft(t, b)
}
