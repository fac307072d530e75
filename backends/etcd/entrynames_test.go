package etcd

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord/driver"
)

// etcd looks at every name that there was in a queue until it compacts. So names are small numbers, used again: one for all
// locks that find the queue empty, and one for the waiter of each client.
func TestNamesAreUsedAgain(t *testing.T) {
	t.Parallel()
	srv, a := open(t)
	b := connect(t, srv.Addr)
	a.number, b.number = 1, 2
	ctx := t.Context()
	queue := a.names.queue("k")
	from := must[*clientv3.GetResponse](t)(a.client.Get(ctx, queue)).Header.Revision
	for i := range 100 { // by two clients
		r, c := request("a", time.Minute), []*backend{a, b}[i%2]
		must[driver.Grant](t)(c.TryLock(ctx, "k", r))
		if err := c.Unlock(ctx, "k", r.ID); err != nil {
			t.Fatal(err)
		}
	}
	free := must[*clientv3.GetResponse](t)(a.client.Get(ctx, queue)).Header.Revision
	holder := request("a", time.Minute)
	must[driver.Grant](t)(a.TryLock(ctx, "k", holder))
	for range 20 { // two clients pass it on to each other
		next := request("b", time.Minute)
		done := startWaiter(t, ctx, b, "k", next, 2)
		if err := a.Unlock(ctx, "k", holder.ID); err != nil {
			t.Fatal(err)
		}
		if got := soonResult(t, done, hung, "the waiter"); got.err != nil {
			t.Fatal(got.err)
		}
		holder, a, b = next, b, a
	}
	last := must[*clientv3.GetResponse](t)(a.client.Get(ctx, queue)).Header.Revision
	seen := map[string]bool{}
	for resp := range a.client.Watch(ctx, queue, clientv3.WithPrefix(), clientv3.WithRev(from+1)) {
		for _, ev := range resp.Events {
			number := strings.TrimPrefix(string(ev.Kv.Key), queue)
			seen[number] = true
			if number != "0" && ev.Kv.ModRevision <= free {
				t.Errorf("an entry of an empty queue is named %q, want 0", number)
			}
			if ev.Kv.ModRevision >= last {
				if len(seen) > 3 {
					t.Errorf("entries were named %v, want 0, 1 and 2", slices.Sorted(maps.Keys(seen)))
				}
				return
			}
		}
	}
	t.Fatal("the watch ended")
}

// A wait whose reply was lost keeps its place: the next call of its id finds it, another
// waiter of the same client has its own, and Unlock withdraws it.
func TestLostPlaceInQueue(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	holder := connect(t, srv.Addr)
	b, m := meddled(t, srv.Addr)
	ctx := t.Context()
	first := request("first", time.Minute)
	must[driver.Grant](t)(holder.TryLock(ctx, "k", first))
	// The client has its lease: what is lost is the reply to the entry.
	warm := request("warm", time.Minute)
	must[driver.Grant](t)(b.TryLock(ctx, "warm", warm))

	m.loseReply()
	second := request("second", time.Minute)
	if _, err := b.Lock(ctx, "k", second, func() {}); err == nil || driver.Definite(err) {
		t.Fatalf("a lost reply: %v, want an unknown outcome", err)
	}
	m.on(nil)
	create := entriesOf(t, b.client, b.names.queue("k")).Kvs[1].CreateRevision
	third := startWaiter(t, ctx, b, "k", request("third", time.Minute), 3)
	again := startWaiter(t, ctx, b, "k", second, 3)
	if err := holder.Unlock(ctx, "k", first.ID); err != nil {
		t.Fatal(err)
	}
	if got := soonResult(t, again, hung, "the second in the queue"); got.err != nil || got.Token != create {
		t.Fatalf("%+v, %v: want the place of the first call, token %d", got.Grant, got.err, create)
	}
	if err := b.Unlock(ctx, "k", second.ID); err != nil {
		t.Fatal(err)
	}
	if got := soonResult(t, third, hung, "the third in the queue"); got.err != nil {
		t.Fatal(got.err)
	}

	var fourth driver.Request
	for entriesOf(t, b.client, b.names.queue("k")).Count < 2 { // again where its name was the third's
		m.loseReply()
		fourth = request("fourth", time.Minute)
		if _, err := b.Lock(ctx, "k", fourth, func() {}); err == nil || driver.Definite(err) {
			t.Fatalf("a lost reply: %v, want an unknown outcome", err)
		}
		m.on(nil)
	}
	if err := b.Unlock(ctx, "k", fourth.ID); err != nil {
		t.Errorf("Unlock of a wait whose reply was lost: %v", err)
	}
	if err := b.Unlock(ctx, "k", fourth.ID); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("Unlock again: %v", err)
	}
	if n := entriesOf(t, b.client, b.names.queue("k")).Count; n != 1 {
		t.Errorf("%d entries in the queue, want the third's", n)
	}
}

// A name that another waiter has is left alone: another one is used, however many are in the queue.
func TestTakenName(t *testing.T) {
	t.Parallel()
	srv, holder := open(t)
	b := connect(t, srv.Addr)
	ctx := t.Context()
	first := request("first", time.Minute)
	must[driver.Grant](t)(holder.TryLock(ctx, "k", first))
	lease := must[*clientv3.LeaseGrantResponse](t)(b.client.Grant(ctx, 60)).ID
	var others []string
	for i := range leastNumbers {
		others = append(others, newID("other"))
		must[*clientv3.PutResponse](t)(b.client.Put(ctx, b.names.entry("k", 1+i), heldValue(others[i]), clientv3.WithLease(lease)))
	}
	b.number = 7
	r := request("last", time.Minute)
	done := startWaiter(t, ctx, b, "k", r, 2+leastNumbers)
	if err := holder.Unlock(ctx, "k", first.ID); err != nil {
		t.Fatal(err)
	}
	for _, id := range others {
		stillWaiting(t, done, "though others were before it")
		if err := holder.Unlock(ctx, "k", id); err != nil { // by its id alone
			t.Fatal(err)
		}
	}
	if got := soonResult(t, done, hung, "the waiter"); got.err != nil {
		t.Fatal(got.err)
	}
	if err := b.Unlock(ctx, "k", r.ID); err != nil {
		t.Error(err)
	}
	nothingLeft(t, b)
}

// A wait whose request was lost is made again while another waiter has its name: it takes another one, and the request, arriving
// late, makes nothing.
func TestNameOfALostWaitIsTaken(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	holder := connect(t, srv.Addr)
	b, m := meddled(t, srv.Addr)
	ctx := t.Context()
	first := request("first", time.Minute)
	must[driver.Grant](t)(holder.TryLock(ctx, "k", first))
	must[driver.Grant](t)(b.TryLock(ctx, "warm", request("warm", time.Minute))) // takes the lease
	caught := m.lose(1)
	second := request("second", time.Minute)
	if _, err := b.Lock(ctx, "k", second, func() {}); err == nil || driver.Definite(err) {
		t.Fatalf("a lost request: %v, want an unknown outcome", err)
	}
	m.on(nil)
	late := <-caught
	name := string(late.Success[0].GetRequestPut().Key)
	lease := must[*clientv3.LeaseGrantResponse](t)(holder.client.Grant(ctx, 60)).ID
	other := newID("other")
	must[*clientv3.PutResponse](t)(holder.client.Put(ctx, name, heldValue(other), clientv3.WithLease(lease)))
	done := startWaiter(t, ctx, b, "k", second, 3)
	if resp := must[*pb.TxnResponse](t)(b.sendTxn(ctx, late)); resp.Succeeded {
		t.Error("the late request replaced another's entry")
	}
	for _, id := range []string{first.ID, other} {
		stillWaiting(t, done, "though others were before it")
		if err := holder.Unlock(ctx, "k", id); err != nil {
			t.Fatal(err)
		}
	}
	if got := soonResult(t, done, hung, "the waiter"); got.err != nil {
		t.Fatal(got.err)
	}
	if err := b.Unlock(ctx, "k", second.ID); err != nil {
		t.Error(err)
	}
	if n := entriesOf(t, b.client, b.names.queue("k")).Count; n != 0 {
		t.Errorf("%d entries are left", n)
	}
}
