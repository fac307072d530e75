package etcd

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// etcd looks at every name that there was in a line until it compacts. So names are used
// again: locks by the hundred, and waits, leave a handful.
func TestNamesAreUsedAgain(t *testing.T) {
	srv, a := open(t)
	b := connect(t, srv.Addr)
	ctx := t.Context()
	line := a.names.line("k")
	from := must[*clientv3.GetResponse](t)(a.client.Get(ctx, line)).Header.Revision
	for range 100 {
		r := request("a", 20*time.Second)
		must[driver.Grant](t)(a.TryLock(ctx, "k", r))
		if err := a.Unlock(ctx, "k", r.ID); err != nil {
			t.Fatal(err)
		}
	}
	holder := request("a", 20*time.Second)
	must[driver.Grant](t)(a.TryLock(ctx, "k", holder))
	for range 20 { // two clients pass it on to each other
		next := request("b", 20*time.Second)
		done := waitInLine(t, ctx, b, "k", next, 2)
		if err := a.Unlock(ctx, "k", holder.ID); err != nil {
			t.Fatal(err)
		}
		if got := soonResult(t, done, 5*time.Second, "the waiter"); got.err != nil {
			t.Fatal(got.err)
		}
		holder, a, b = next, b, a
	}
	last := must[*clientv3.GetResponse](t)(a.client.Get(ctx, line)).Header.Revision
	names := map[string]bool{}
	for resp := range a.client.Watch(ctx, line, clientv3.WithPrefix(), clientv3.WithRev(from+1)) {
		for _, ev := range resp.Events {
			names[string(ev.Kv.Key)] = true
			if ev.Kv.ModRevision >= last {
				if len(names) > 3 {
					t.Errorf("%d names: %v", len(names), slices.Sorted(maps.Keys(names)))
				}
				return
			}
		}
	}
	t.Fatal("the watch ended")
}

// A wait whose reply was lost keeps its place: the next call of its id finds it, another
// waiter of the same client gets another name, and Unlock withdraws it.
func TestLostPlaceInLine(t *testing.T) {
	srv := testserver.Etcd(t, testserver.Durable())
	holder := connect(t, srv.Addr)
	b, m := meddled(t, srv.Addr)
	ctx := t.Context()
	first := request("first", 20*time.Second)
	must[driver.Grant](t)(holder.TryLock(ctx, "k", first))
	// The client has its lease: what is lost is the reply to the entry.
	warm := request("warm", 20*time.Second)
	must[driver.Grant](t)(b.TryLock(ctx, "warm", warm))

	m.loseReply()
	second := request("second", 20*time.Second)
	if _, err := b.Lock(ctx, "k", second); err == nil || driver.Definite(err) {
		t.Fatalf("a lost reply: %v, want an unknown outcome", err)
	}
	m.on(nil)
	create := entriesOf(t, b.client, b.names.line("k")).Kvs[1].CreateRevision
	third := waitInLine(t, ctx, b, "k", request("third", 20*time.Second), 3)
	again := waitInLine(t, ctx, b, "k", second, 3)
	if err := holder.Unlock(ctx, "k", first.ID); err != nil {
		t.Fatal(err)
	}
	if got := soonResult(t, again, 5*time.Second, "the second in line"); got.err != nil || got.Token != create {
		t.Fatalf("%+v, %v: want the place of the first call, token %d", got.Grant, got.err, create)
	}
	if err := b.Unlock(ctx, "k", second.ID); err != nil {
		t.Fatal(err)
	}
	if got := soonResult(t, third, 5*time.Second, "the third in line"); got.err != nil {
		t.Fatal(got.err)
	}

	m.loseReply()
	fourth := request("fourth", 20*time.Second)
	if _, err := b.Lock(ctx, "k", fourth); err == nil || driver.Definite(err) {
		t.Fatalf("a lost reply: %v, want an unknown outcome", err)
	}
	m.on(nil)
	if err := b.Unlock(ctx, "k", fourth.ID); err != nil {
		t.Errorf("Unlock of a wait whose reply was lost: %v", err)
	}
	if err := b.Unlock(ctx, "k", fourth.ID); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("Unlock again: %v", err)
	}
	if n := entriesOf(t, b.client, b.names.line("k")).Count; n != 1 {
		t.Errorf("%d entries in line, want the third's", n)
	}
}

// What is in line under a name that this client would use, and is not its own, is left
// alone: another name is used.
func TestTakenName(t *testing.T) {
	srv, holder := open(t)
	b := connect(t, srv.Addr)
	ctx := t.Context()
	first := request("first", 20*time.Second)
	must[driver.Grant](t)(holder.TryLock(ctx, "k", first))
	lease := must[*clientv3.LeaseGrantResponse](t)(b.client.Grant(ctx, 60)).ID
	ghost := newID("ghost")
	must[*clientv3.PutResponse](t)(b.client.Put(ctx, b.names.slot("k", b.tag, 0), heldValue(ghost), clientv3.WithLease(lease)))
	r := request("second", 20*time.Second)
	done := waitInLine(t, ctx, b, "k", r, 3)
	if err := holder.Unlock(ctx, "k", first.ID); err != nil {
		t.Fatal(err)
	}
	if err := holder.Unlock(ctx, "k", ghost); err != nil { // by its id alone
		t.Fatal(err)
	}
	if got := soonResult(t, done, 5*time.Second, "the waiter"); got.err != nil {
		t.Fatal(got.err)
	}
	if err := b.Unlock(ctx, "k", r.ID); err != nil {
		t.Error(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.slots) != 0 {
		t.Errorf("slots left: %v", b.slots)
	}
}
