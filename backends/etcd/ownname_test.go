package etcd

import (
	"errors"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// known has b lock and unlock a key once: from then on its entries there have names of its own.
func known(t *testing.T, b *backend, key string) {
	t.Helper()
	r := request("known", 20*time.Second)
	must[driver.Grant](t)(b.TryLock(t.Context(), key, r))
	if err := b.Unlock(t.Context(), key, r.ID); err != nil {
		t.Fatal(err)
	}
}

// A deletion that arrives after the key was locked again deletes nothing: the name it has is not used
// again.
func TestLateDeletion(t *testing.T) {
	srv := testserver.Etcd(t, testserver.Durable())
	b, m := meddled(t, srv.Addr)
	ctx := t.Context()
	known(t, b, "k")
	first := request("first", 20*time.Second)
	must[driver.Grant](t)(b.TryLock(ctx, "k", first))
	var late *pb.DeleteRangeRequest
	m.on(func(_ string, req any, send func() error) error {
		if del, ok := req.(*pb.DeleteRangeRequest); ok {
			late = del
			return errLost
		}
		return send()
	})
	if err := b.Unlock(ctx, "k", first.ID); err == nil || driver.Definite(err) {
		t.Fatalf("an Unlock without an answer: %v, want an unknown outcome", err)
	}
	m.on(nil)
	if late == nil {
		t.Fatal("the hold was not unlocked by a deletion: the test shows nothing")
	}
	if _, err := b.TryLock(ctx, "k", request("rival", 20*time.Second)); !errors.Is(err, driver.ErrLocked) {
		t.Fatalf("the key is still held: %v", err)
	}
	if err := b.Unlock(ctx, "k", first.ID); err != nil {
		t.Fatalf("Unlock again: %v", err)
	}
	second := request("second", 20*time.Second)
	g := must[driver.Grant](t)(b.TryLock(ctx, "k", second))
	must[*pb.DeleteRangeResponse](t)(b.pbKV.DeleteRange(ctx, late))
	if again, err := b.Renew(ctx, "k", second); err != nil || again.Token != g.Token {
		t.Errorf("the hold after: %+v, %v, want token %d", again, err, g.Token)
	}
	if err := b.Unlock(ctx, "k", second.ID); err != nil {
		t.Error(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.slots) != 0 || len(b.entries) != 0 {
		t.Errorf("left: slots %v, entries %v", b.slots, b.entries)
	}
}

// A lost reply to the making of an entry burns its name as well.
func TestLateEntryHasItsNameAlone(t *testing.T) {
	srv := testserver.Etcd(t, testserver.Durable())
	b, m := meddled(t, srv.Addr)
	known(t, b, "k")
	b.mu.Lock()
	tag := b.tag
	b.mu.Unlock()
	m.loseReply()
	ghost := request("ghost", 20*time.Second)
	if _, err := b.TryLock(t.Context(), "k", ghost); err == nil || driver.Definite(err) {
		t.Fatalf("a lost reply: %v, want an unknown outcome", err)
	}
	m.on(nil)
	g := must[driver.Grant](t)(b.TryLock(t.Context(), "k", ghost)) // found again
	if kvs := entriesOf(t, b.client, b.names.line("k")).Kvs; len(kvs) != 1 || string(kvs[0].Key) != b.names.slot("k", tag, 0) || kvs[0].CreateRevision != g.Token {
		t.Errorf("entries %v, want that of token %d", kvs, g.Token)
	}
	b.mu.Lock()
	if b.tag == tag {
		t.Error("the names go on")
	}
	b.mu.Unlock()
	if err := b.Unlock(t.Context(), "k", ghost.ID); err != nil {
		t.Error(err)
	}
}

// What was not the hold any more is told.
func TestUnlockOfAnOwnNameIsHonest(t *testing.T) {
	srv, b := open(t)
	other := connect(t, srv.Addr)
	ctx := t.Context()
	known(t, b, "k")
	for name, spoil := range map[string]func(r driver.Request){
		"gone": func(driver.Request) {
			must[*clientv3.DeleteResponse](t)(other.client.Delete(ctx, other.names.line("k"), clientv3.WithPrefix()))
		},
		"broken": func(r driver.Request) {
			if err := other.Break(ctx, "k", r.ID); err != nil {
				t.Fatal(err)
			}
		},
	} {
		r := request("a", 20*time.Second)
		must[driver.Grant](t)(b.TryLock(ctx, "k", r))
		spoil(r)
		if err := b.Unlock(ctx, "k", r.ID); !errors.Is(err, driver.ErrNotHeld) {
			t.Errorf("%s: Unlock: %v, want ErrNotHeld", name, err)
		}
		if err := b.Unlock(ctx, "k", r.ID); !errors.Is(err, driver.ErrNotHeld) {
			t.Errorf("%s: Unlock again: %v, want ErrNotHeld", name, err)
		}
		must[*clientv3.DeleteResponse](t)(other.client.Delete(ctx, other.names.line("k"), clientv3.WithPrefix()))
	}
	r := request("a", 20*time.Second)
	must[driver.Grant](t)(b.TryLock(ctx, "k", r))
	if err := b.Unlock(ctx, "k", r.ID); err != nil {
		t.Errorf("Unlock of a hold: %v", err)
	}
}

// An Unlock that was never sent leaves the hold as it was.
func TestUnlockThatWasNotSent(t *testing.T) {
	srv := testserver.Etcd(t, testserver.Durable())
	b, m := meddled(t, srv.Addr)
	known(t, b, "k")
	r := request("a", 20*time.Second)
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", r))
	m.on(func(_ string, req any, send func() error) error {
		if _, ok := req.(*pb.DeleteRangeRequest); ok {
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
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.slots) != 0 || len(b.entries) != 0 {
		t.Errorf("left: slots %v, entries %v", b.slots, b.entries)
	}
}
