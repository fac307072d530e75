package etcd

import (
	"context"
	"math"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// meddledServer is a server of its own, and a backend whose calls to it can be meddled with.
func meddledServer(t *testing.T) (*testserver.Server, *backend, *meddler) {
	t.Helper()
	srv := shared(t)
	b, m := meddled(t, srv.Addr)
	return srv, b, m
}

// arrives sends a request that was lost.
func arrives(t *testing.T, b *backend, lost <-chan *pb.TxnRequest) {
	t.Helper()
	select {
	case req := <-lost:
		must[*pb.TxnResponse](t)(clientv3.RetryKVClient(b.client).Txn(t.Context(), req))
	case <-time.After(hung):
		t.Fatal("no request was lost: the test shows nothing")
	}
}

// lastsLongEnough fails unless the store keeps the first in the queue for k until the deadline that the client knows.
func lastsLongEnough(t *testing.T, b *backend, p place) {
	t.Helper()
	b.mu.Lock()
	deadline := b.entries[p].deadline
	b.mu.Unlock()
	prefix := b.names.queue(p.key)
	if p.shared {
		prefix = b.names.shared(p.key)
	}
	lease := entriesOf(t, b.client, prefix).Kvs[0].Lease
	left := must[*clientv3.LeaseTimeToLiveResponse](t)(b.client.TimeToLive(t.Context(), clientv3.LeaseID(lease))).TTL
	// The server rounds down.
	if ends := time.Now().Add(time.Duration(left+1) * time.Second); ends.Before(deadline) {
		t.Errorf("the store keeps the entry until %v, and its holder relies on it for %v longer", ends, deadline.Sub(ends))
	}
}

// lostMove has a hold moved to another lease, by a request that is lost, and may arrive yet.
func lostMove(t *testing.T, b *backend, m *meddler, renew func(context.Context) error) <-chan *pb.TxnRequest {
	t.Helper()
	b.taintAll()
	lost := m.lose(math.MaxInt)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_ = renew(ctx) // where the hold is, or not at all
	m.on(nil)
	return lost
}

// A hold was to be moved to another lease, and the request is late: it comes after the hold was renewed.
func TestMoveArrivesLate(t *testing.T) {
	t.Parallel()
	_, b, m := meddledServer(t)
	ttl := 30 * time.Second
	lock := request("a", ttl)
	share := share1("a", reads)
	share.TTL = ttl
	for name, h := range map[string]struct {
		place place
		take  func() (driver.Grant, error)
		renew func(ctx context.Context) error
	}{
		"lock": {
			place{key: "k", id: lock.ID},
			func() (driver.Grant, error) { return b.TryLock(t.Context(), "k", lock) },
			func(ctx context.Context) error { _, err := b.Renew(ctx, "k", lock); return err },
		},
		"shared": {
			place{key: "k", id: share.ID, shared: true},
			func() (driver.Grant, error) { return tryShared(b, "k", share) },
			func(ctx context.Context) error { _, err := b.Shared().Renew(ctx, "k", share); return err },
		},
	} {
		t.Run(name, func(t *testing.T) {
			must[driver.Grant](t)(h.take())
			lost := lostMove(t, b, m, h.renew)
			time.Sleep(3 * time.Second) // the subject: the lease that it was to be moved to grows old
			renewed := h.renew(t.Context())
			arrives(t, b, lost)
			lastsLongEnough(t, b, h.place)
			if renewed != nil {
				t.Errorf("Renew after the lost move: %v", renewed)
			}
			if err := h.renew(t.Context()); err != nil {
				t.Errorf("Renew after the move had arrived: %v", err)
			}
			lastsLongEnough(t, b, h.place)
		})
	}
}

// As before, and the hold is renewed where it is in the call whose move was lost.
func TestMoveArrivesAfterTheHoldStayed(t *testing.T) {
	t.Parallel()
	_, b, m := meddledServer(t)
	r := request("a", 30*time.Second)
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", r))
	lost := lostMove(t, b, m, func(ctx context.Context) error { _, err := b.Renew(ctx, "k", r); return err })
	time.Sleep(3 * time.Second) // the subject
	lost2 := lostMove(t, b, m, func(ctx context.Context) error { _, err := b.Renew(ctx, "k", r); return err })
	arrives(t, b, lost)
	lastsLongEnough(t, b, place{key: "k", id: r.ID})
	arrives(t, b, lost2)
	lastsLongEnough(t, b, place{key: "k", id: r.ID})
}

// A waiter was to be moved to another lease, and the request comes after it was granted the lock.
func TestMoveOfAWaiterArrivesLate(t *testing.T) {
	t.Parallel()
	w := startMovedWaiter(t, func(m *meddler) chan *pb.TxnRequest { return m.lose(math.MaxInt) })
	time.Sleep(3 * time.Second) // the subject: the lease that it was to be moved to grows old
	w.grantedBeforeItArrives(t)
}

// movedWaiter is a waiter that is to be moved to another lease, by a request that is lost, and may arrive yet.
type movedWaiter struct {
	b       *backend
	m       *meddler
	place   place
	lost    chan *pb.TxnRequest
	result  <-chan result
	release func() error // of the lock that it waits for
}

func startMovedWaiter(t *testing.T, lose func(*meddler) chan *pb.TxnRequest) *movedWaiter {
	t.Helper()
	srv, b, m := meddledServer(t)
	holder := connect(t, srv.Addr)
	h, r := request("holder", time.Hour), request("waiter", 30*time.Second)
	must[driver.Grant](t)(holder.TryLock(t.Context(), "k", h))
	w := &movedWaiter{b: b, m: m, place: place{key: "k", id: r.ID}, result: startWaiter(t, t.Context(), b, "k", r, 2)}
	w.release = func() error { return holder.Unlock(t.Context(), "k", h.ID) }
	b.taintAll()
	w.lost = lose(m)
	until(t, hung, "the waiter to be moved", func() bool { return len(w.lost) > 0 })
	return w
}

// grantedBeforeItArrives has the waiter granted the lock, and then the request arrive.
func (w *movedWaiter) grantedBeforeItArrives(t *testing.T) {
	t.Helper()
	w.m.on(nil)
	if err := w.release(); err != nil {
		t.Fatal(err)
	}
	if got := soonResult(t, w.result, hung, "the waiter to be granted"); got.err != nil {
		t.Fatal(got.err)
	}
	arrives(t, w.b, w.lost)
	lastsLongEnough(t, w.b, w.place)
}

// loseThenRefuse loses the next request that puts something, and gives it. Those after it the server refuses.
func (m *meddler) loseThenRefuse() chan *pb.TxnRequest {
	caught := make(chan *pb.TxnRequest, 1)
	var once sync.Once
	m.on(func(_ string, req any, send func() error) error {
		if !puts(req) {
			return send()
		}
		err := rpctypes.ErrGRPCRequestTooManyRequests
		once.Do(func() {
			caught <- req.(*pb.TxnRequest)
			err = errLost
		})
		return err
	})
	return caught
}

// notesTheMove fails unless the client knows that a lost request may bind the entry of p to another lease yet.
func notesTheMove(t *testing.T, b *backend, p place, lost chan *pb.TxnRequest) {
	t.Helper()
	req := <-lost
	lost <- req
	to := req.Success[0].GetRequestTxn().Success[0].GetRequestPut().Lease
	b.mu.Lock()
	defer b.mu.Unlock()
	if e, l := b.entries[p], b.granted[to]; !e.moving || l != nil && !l.tainted {
		t.Errorf("the entry may be moved: %v, want that it may, and that its new lease is tainted", e.moving)
	}
}

// The request that moves a hold is lost, and is refused when it is made again at once. It may arrive yet.
func TestMoveArrivesThoughItsRepetitionWasRefused(t *testing.T) {
	t.Parallel()
	_, b, m := meddledServer(t)
	r := request("a", 30*time.Second)
	p := place{key: "k", id: r.ID}
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", r))
	b.taintAll()
	lost := m.loseThenRefuse()
	_, _ = b.Renew(t.Context(), "k", r) // where the hold is, or not at all
	notesTheMove(t, b, p, lost)
	b.taintAll()
	time.Sleep(3 * time.Second) // the subject: the lease that it was to be moved to grows old
	_, _ = b.Renew(t.Context(), "k", r)
	m.on(nil)
	arrives(t, b, lost)
	lastsLongEnough(t, b, p)
	if _, err := b.Renew(t.Context(), "k", r); err != nil {
		t.Errorf("Renew after the move had arrived: %v", err)
	}
	lastsLongEnough(t, b, p)
}

// As before, of a waiter, which is granted the lock before the request arrives.
func TestMoveOfAWaiterArrivesThoughItsRepetitionWasRefused(t *testing.T) {
	t.Parallel()
	w := startMovedWaiter(t, (*meddler).loseThenRefuse)
	moved := time.Now()
	until(t, hung, "the waiter to keep its lease alive", func() bool { // and not the one that it was to be moved to
		w.b.mu.Lock()
		defer w.b.mu.Unlock()
		return w.b.entries[w.place].lease.since.Sub(moved) > 2*time.Second
	})
	notesTheMove(t, w.b, w.place, w.lost)
	w.grantedBeforeItArrives(t)
}
