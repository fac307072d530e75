package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// tailOf is what the tail of a line says, "" if it has none.
func tailOf(t testing.TB, b *backend, key string) string {
	t.Helper()
	kvs := must[*clientv3.GetResponse](t)(b.client.Get(context.Background(), b.names.tail(key))).Kvs
	if len(kvs) == 0 {
		return ""
	}
	return string(kvs[0].Value)
}

// queue has n wait in line, one behind the other, for as long as they are not left, and gives how each ended.
func queue(t testing.TB, b *backend, key string, before, n int) (ids []string, done []<-chan result, leave []context.CancelFunc) {
	t.Helper()
	for i := range n {
		r := request("waiter", 20*time.Second)
		ctx, cancel := context.WithCancel(context.Background())
		t.Cleanup(cancel)
		ids, leave = append(ids, r.ID), append(leave, cancel)
		done = append(done, waitInLine(t, ctx, b, key, r, before+i+1))
	}
	return ids, done, leave
}

// lined has a line of a holder and n waiters.
func lined(t testing.TB, n int) (srv *testserver.Server, holder, b *backend, ids []string, done []<-chan result, leave []context.CancelFunc) {
	t.Helper()
	srv, holder = open(t)
	r := request("holder", time.Minute)
	must[driver.Grant](t)(holder.TryLock(t.Context(), "k", r))
	b = connect(t, srv.Addr)
	more, done, leave := queue(t, b, "k", 1, n)
	return srv, holder, b, append([]string{r.ID}, more...), done, leave
}

// serve unlocks for whoever holds, from the i-th on, and makes sure that only the next is granted.
func serve(t testing.TB, holder *backend, ids []string, done []<-chan result) {
	t.Helper()
	for i, d := range done {
		for _, later := range done[i:] {
			stillWaiting(t, later, "though others were before it")
		}
		if err := holder.Unlock(t.Context(), "k", ids[i]); err != nil {
			t.Fatal(err)
		}
		if got := soonResult(t, d, 5*time.Second, "the next in line"); got.err != nil {
			t.Fatal(got.err)
		}
	}
	if err := holder.Unlock(t.Context(), "k", ids[len(ids)-1]); err != nil {
		t.Fatal(err)
	}
}

// nothingLeft makes sure that neither the line nor its tail are at the store.
func nothingLeft(t testing.TB, b *backend) {
	t.Helper()
	until(t, 5*time.Second, "nothing to be left", func() bool {
		resp, err := b.client.Get(context.Background(), b.names.tail("k"), clientv3.WithPrefix(), clientv3.WithCountOnly())
		return err == nil && resp.Count == 0
	})
}

// A short line has no tail. A long one has, which names the last; all are granted in the order in which
// they came, and in the end nothing is left.
func TestTailOfALongLine(t *testing.T) {
	_, _, b, ids, done, _ := lined(t, 2*longLine)
	entries := entriesOf(t, b.client, b.names.line("k")).Kvs
	last := string(entries[len(entries)-1].Key)
	if got := tailOf(t, b, "k"); got != tailValue(b.names.line("k"), last) {
		t.Errorf("the tail says %q, the last is %s", got, last)
	}
	served := len(done) - 3
	serve(t, b, ids[:served+1], done[:served])
	if got := soonResult(t, done[served], 5*time.Second, "the next in line"); got.err != nil {
		t.Fatal(got.err)
	}
	if got := tailOf(t, b, "k"); got != "" {
		t.Errorf("the tail of a line that has become short says %q", got)
	}
	serve(t, b, ids[served+1:], done[served+1:])
	nothingLeft(t, b)
}

func TestShortLineHasNoTail(t *testing.T) {
	_, _, b, ids, done, _ := lined(t, longLine/2)
	if got := tailOf(t, b, "k"); got != "" {
		t.Errorf("the tail says %q", got)
	}
	serve(t, b, ids, done)
	nothingLeft(t, b)
}

// A line of many clients, none of which has many in it, gets a tail too.
func TestTailOfManyClients(t *testing.T) {
	srv, holder := open(t)
	ids := []string{newID("holder")}
	must[driver.Grant](t)(holder.TryLock(t.Context(), "k", driver.Request{ID: ids[0], TTL: time.Minute}))
	var done []<-chan result
	var all []*backend
	for i := range 2 * longLine {
		if i < 4 {
			all = append(all, connect(t, srv.Addr))
		}
		id, d, _ := queue(t, all[i%4], "k", i+1, 1)
		ids, done = append(ids, id...), append(done, d...)
	}
	until(t, 5*time.Second, "a tail", func() bool { return strings.Contains(tailOf(t, holder, "k"), "=") })
	serve(t, holder, ids, done)
	nothingLeft(t, holder)
}

// Whatever the tail says, nobody is granted before those who came before, and everybody is in the end.
func TestTailThatIsWrong(t *testing.T) {
	const before = longLine + 2
	for name, say := range map[string]func(b *backend, entries []*mvccpb.KeyValue) string{
		"nothing":  func(*backend, []*mvccpb.KeyValue) string { return "" },
		"nobody":   func(*backend, []*mvccpb.KeyValue) string { return tailHeader },
		"nonsense": func(*backend, []*mvccpb.KeyValue) string { return "zzz" },
		"the holder": func(b *backend, kvs []*mvccpb.KeyValue) string {
			return tailValue(b.names.line("k"), string(kvs[0].Key))
		},
		"one in the middle": func(b *backend, kvs []*mvccpb.KeyValue) string {
			return tailValue(b.names.line("k"), string(kvs[7].Key))
		},
		"one who is not":     func(*backend, []*mvccpb.KeyValue) string { return tailHeader + "gone-1" },
		"whoever comes next": func(b *backend, _ []*mvccpb.KeyValue) string { return tailHeader + fmt.Sprint(b.tag, "-", before) },
	} {
		t.Run(name, func(t *testing.T) {
			_, _, b, ids, done, _ := lined(t, before)
			line := b.names.line("k")
			value := say(b, entriesOf(t, b.client, line).Kvs)
			if value == "" {
				must[*clientv3.DeleteResponse](t)(b.client.Delete(t.Context(), b.names.tail("k")))
			} else {
				must[*clientv3.PutResponse](t)(b.client.Put(t.Context(), b.names.tail("k"), value))
			}
			more, last, _ := queue(t, b, "k", before+1, 3)
			serve(t, b, append(ids, more...), append(done, last...))
			nothingLeft(t, b)
		})
	}
}

// The last leave, or die with their client: who comes next waits for whoever is there.
func TestLastOfALongLineGoes(t *testing.T) {
	for name, by := range map[string]func(t *testing.T, b *backend, done []<-chan result, leave []context.CancelFunc){
		"leaves": func(t *testing.T, _ *backend, done []<-chan result, leave []context.CancelFunc) {
			for _, cancel := range leave {
				cancel()
			}
			for _, d := range done {
				soonResult(t, d, 5*time.Second, "a waiter to leave")
			}
		},
		"dies": func(t *testing.T, b *backend, done []<-chan result, _ []context.CancelFunc) {
			for _, l := range b.liveLeases() {
				must[*clientv3.LeaseRevokeResponse](t)(b.client.Revoke(t.Context(), clientv3.LeaseID(l)))
			}
			for _, d := range done {
				soonResult(t, d, 5*time.Second, "a waiter to be told")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			const n = longLine + 2
			srv, _, b, ids, done, _ := lined(t, n)
			other, third := connect(t, srv.Addr), connect(t, srv.Addr)
			_, gone, leave := queue(t, other, "k", n+1, 3)
			behind, behindDone, _ := queue(t, third, "k", n+4, 2)
			by(t, other, gone, leave)
			until(t, 5*time.Second, "they have left", func() bool {
				return len(entriesOf(t, b.client, b.names.line("k")).Kvs) == n+3
			})
			next, nextDone, _ := queue(t, third, "k", n+3, 2)
			serve(t, b, slices.Concat(ids, behind, next), slices.Concat(done, behindDone, nextDone))
			nothingLeft(t, b)
		})
	}
}

// A wait whose reply was lost does not wait for itself when it is made again.
func TestLostReplyInALongLine(t *testing.T) {
	srv := testserver.Etcd(t, testserver.Durable())
	b, m := meddled(t, srv.Addr)
	ids := []string{newID("holder")}
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", driver.Request{ID: ids[0], TTL: time.Minute}))
	more, done, _ := queue(t, b, "k", 1, longLine+2)
	m.loseReply()
	lost := request("lost", 20*time.Second)
	if _, err := b.Lock(t.Context(), "k", lost); err == nil || driver.Definite(err) {
		t.Fatalf("a lost reply: %v, want an unknown outcome", err)
	}
	m.on(nil)
	again := waitInLine(t, t.Context(), b, "k", lost, longLine+4)
	behind, last, _ := queue(t, b, "k", longLine+4, 1)
	serve(t, b, slices.Concat(ids, more, []string{lost.ID}, behind), slices.Concat(done, []<-chan result{again}, last))
	nothingLeft(t, b)
}

// A wait whose reply was lost, and that is found to hold by a TryLock, takes the tail with it when it ends.
func TestTailGoesWithAHoldThatWasFound(t *testing.T) {
	srv := testserver.Etcd(t, testserver.Durable())
	b, m := meddled(t, srv.Addr)
	must[*clientv3.PutResponse](t)(b.client.Put(t.Context(), b.names.tail("k"), tailHeader))
	m.loseReply()
	r := request("lost", 20*time.Second)
	if _, err := b.Lock(t.Context(), "k", r); err == nil || driver.Definite(err) {
		t.Fatalf("a lost reply: %v, want an unknown outcome", err)
	}
	m.on(nil)
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", r))
	if tailOf(t, b, "k") == tailHeader {
		t.Fatal("the tail does not name it: the test shows nothing")
	}
	if err := b.Unlock(t.Context(), "k", r.ID); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, b)
}

// A tail that was left behind names one that has gone, and whose name the holder has now. A member that lags tells of the
// end of that one; the hold goes on.
func TestTailOfTheDeadOnAMemberThatLags(t *testing.T) {
	srv, holder := open(t)
	known(t, holder, "k")
	var name string
	for range 2 {
		r := request("holder", time.Minute)
		must[driver.Grant](t)(holder.TryLock(t.Context(), "k", r))
		now := string(entriesOf(t, holder.client, holder.names.line("k")).Kvs[0].Key)
		if name == now {
			break
		}
		name = now
		must[*clientv3.PutResponse](t)(holder.client.Put(t.Context(), holder.names.tail("k"), tailValue(holder.names.line("k"), name)))
		if err := holder.Unlock(t.Context(), "k", r.ID); err != nil {
			t.Fatal(err)
		}
	}
	if len(entriesOf(t, holder.client, holder.names.line("k")).Kvs) != 1 {
		t.Fatal("no name was used again: the test shows nothing")
	}
	b := streamed(t, lag, srv.Addr)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if g, err := b.Lock(ctx, "k", request("waiter", time.Minute)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("beside the holder: %+v, %v", g, err)
	}
}

// To come into a long line is not more for the server than into a short one: it reads neither the line nor
// those who are in it.
func TestLongLineIsNotRead(t *testing.T) {
	srv := testserver.Etcd(t)
	others := connect(t, srv.Addr)
	must[driver.Grant](t)(others.TryLock(t.Context(), "k", request("holder", time.Minute)))
	queue(t, others, "k", 1, longLine+2)
	b, m := meddled(t, srv.Addr)
	var mu sync.Mutex
	var sent []*pb.TxnRequest
	m.on(func(_ string, req any, send func() error) error {
		if txn, ok := req.(*pb.TxnRequest); ok {
			mu.Lock()
			sent = append(sent, txn)
			mu.Unlock()
		}
		return send()
	})
	queue(t, b, "k", longLine+3, 1)
	requests := func() []*pb.TxnRequest {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(sent)
	}
	until(t, 5*time.Second, "two requests", func() bool { return len(requests()) >= 2 })
	time.Sleep(50 * time.Millisecond) // for what should not come
	m.on(nil)
	if n := len(requests()); n != 2 {
		t.Errorf("%d requests, want two", n)
	}
	look := requests()[1]
	for _, op := range look.Success {
		if r := op.GetRequestRange(); r == nil || len(r.RangeEnd) > 0 {
			t.Errorf("the look has %v, want reads of single keys", op)
		}
	}
	// The first request has ranges, for lines without a tail. With one it takes the other branch.
	reads := []*pb.RequestOp{requests()[0].Success[1]}
	resp := must[*pb.TxnResponse](t)(b.pbKV.Txn(t.Context(), &pb.TxnRequest{Success: reads}))
	if txn := resp.Responses[0].GetResponseTxn(); !txn.Succeeded || string(txn.Responses[0].GetResponseRange().Kvs[0].Key) != b.names.tail("k") {
		t.Errorf("the line was read: %v", txn)
	}
}

// Without a look at the key before: one request on a free one, and what a wait takes on one in whose line this client
// is already.
func TestLockDirect(t *testing.T) {
	srv := testserver.Etcd(t)
	cfg, count := counting(clientConfig(srv.Addr))
	b := connectWith(t, cfg)
	first, second, third := request("first", time.Minute), request("second", time.Minute), request("third", time.Minute)
	must[driver.Grant](t)(b.TryLock(t.Context(), "lease", first)) // it is there
	lock := func(r driver.Request) (done chan result, waits func() int) {
		var mu sync.Mutex
		n := 0
		done = make(chan result, 1)
		go func() {
			g, err := b.LockDirect(t.Context(), "k", r, func() { mu.Lock(); n++; mu.Unlock() })
			done <- result{g, err, time.Now()}
		}()
		return done, func() int { mu.Lock(); defer mu.Unlock(); return n }
	}
	count.take()
	granted, waits := lock(first)
	got := soonResult(t, granted, 5*time.Second, "a free key")
	if calls := count.take(); got.err != nil || waits() != 0 || calls[methodTxn] != 1 || len(calls) != 1 {
		t.Errorf("a free key: %v, told %d times that it waits, %v", got.err, waits(), calls)
	}
	next, waits := lock(second)
	until(t, 5*time.Second, "the second to be told that it waits", func() bool { return waits() == 1 })
	until(t, 5*time.Second, "the look", func() bool { return len(entriesOf(t, b.client, b.names.line("k")).Kvs) == 2 })
	tried := 0
	until(t, 5*time.Second, "the second to be in line", func() bool { tried += count.take()[methodTxn]; return tried >= 3 })
	last, waits := lock(third)
	until(t, 5*time.Second, "the third to be told that it waits", func() bool { return waits() == 1 })
	time.Sleep(50 * time.Millisecond) // for what should not come
	if calls := count.take(); calls[methodTxn] > 2 {
		t.Errorf("behind another of its client: %v, want a place in line and a look", calls)
	}
	for _, r := range []driver.Request{first, second} {
		if err := b.Unlock(t.Context(), "k", r.ID); err != nil {
			t.Fatal(err)
		}
		if got := soonResult(t, next, 5*time.Second, "the next in line"); got.err != nil || waits() != 1 {
			t.Errorf("%v, told %d times that it waits", got.err, waits())
		}
		next = last
	}
}

// One that learns only by reading the line that it is not the first says so.
func TestLockDirectBehindATailOfNobody(t *testing.T) {
	_, _, b, ids, done, _ := lined(t, 1)
	must[*clientv3.PutResponse](t)(b.client.Put(t.Context(), b.names.tail("k"), tailHeader))
	r, waits := request("last", time.Minute), make(chan bool, 2)
	last := make(chan result, 1)
	go func() {
		g, err := b.LockDirect(t.Context(), "k", r, func() { waits <- true })
		last <- result{g, err, time.Now()}
	}()
	select {
	case <-waits:
	case <-time.After(30 * time.Second):
		t.Fatal("not told that it waits")
	}
	serve(t, b, append(ids, r.ID), append(done, last))
	if len(waits) > 0 {
		t.Error("told twice")
	}
	nothingLeft(t, b)
}
