package etcd

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/coordgo/coord/driver"
)

// Those before a waiter leave one by one, more often than its lease is kept alive. It
// is kept alive all the same.
func TestWaiterStaysAliveWhileTheLineMoves(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	holder := connect(t, srv.Addr)
	must[driver.Grant](t)(holder.TryLock(t.Context(), "k", request("holder", 60*time.Second)))
	others := connect(t, srv.Addr)
	var leave []context.CancelFunc
	for i := range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		leave = append(leave, cancel)
		startWaiter(t, ctx, others, "k", request("other", 60*time.Second), 2+i)
	}
	const ttl = time.Hour // it is due after 20 minutes
	b := connect(t, srv.Addr)
	done := startWaiter(t, t.Context(), b, "k", request("waiter", ttl), 4)
	lease := entriesOf(t, b.client, b.names.queue("k")).Kvs[3].Lease
	for i := len(leave) - 1; i >= 0; i-- {
		runsDown(t, b, lease, ttl, func() {})
		b.age(0.5) // it is due, and nothing wakes the waiter but that the line moves
		leave[i]()
		until(t, hung, "the lease to be kept alive", func() bool { return left(t, b, lease) > ttl-3*time.Second })
		stillWaiting(t, done, "while those before it left")
	}
}

// A waiter with no deadline of its own is told of an outage that outlasts its lease.
func TestWaiterEndsWithItsLeaseInAnOutage(t *testing.T) {
	t.Parallel()
	srv, holder := own(t)
	must[driver.Grant](t)(holder.TryLock(t.Context(), "k", request("holder", 60*time.Second)))
	done := startWaiter(t, context.Background(), connect(t, srv.Addr), "k", request("waiter", time.Second), 2)
	srv.Kill()
	if got := soonResult(t, done, hung, "the waiter to be told"); got.err == nil {
		t.Errorf("granted %+v by a server that was killed", got.Grant)
	}
	srv.Restart()
}

// deafStream loses the events of watches while deaf is set.
type deafStream struct {
	grpc.ClientStream
	deaf *atomic.Bool
}

func (d deafStream) RecvMsg(m any) error {
	for {
		if err := d.ClientStream.RecvMsg(m); err != nil {
			return err
		}
		if w, ok := m.(*pb.WatchResponse); !ok || !d.deaf.Load() || len(w.Events) == 0 {
			return nil
		}
		m.(*pb.WatchResponse).Reset()
	}
}

// An event that is never pushed is found out within recheck, however long the lease is.
func TestWaiterLooksThoughNothingWasPushed(t *testing.T) {
	t.Parallel()
	srv, holder := open(t)
	r := request("holder", time.Hour)
	must[driver.Grant](t)(holder.TryLock(t.Context(), "k", r))
	var deaf atomic.Bool
	b := streamed(t, func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		stream, err := streamer(ctx, desc, cc, method, opts...)
		if err != nil || !strings.HasSuffix(method, "/Watch") {
			return stream, err
		}
		return deafStream{stream, &deaf}, nil
	}, srv.Addr)
	deaf.Store(true)
	b.recheck = 100 * time.Millisecond
	done := startWaiter(t, t.Context(), b, "k", request("waiter", time.Hour), 2)
	until(t, hung, "the waiter to watch the holder", func() bool { return b.waits.count() == 1 })
	if err := holder.Unlock(t.Context(), "k", r.ID); err != nil {
		t.Fatal(err)
	}
	if got := soonResult(t, done, hung, "the waiter to look"); got.err != nil {
		t.Error(got.err)
	}
}

// A holder and a waiter on one lease, which is revoked: both are gone at once, and that
// its predecessor goes is no grant to the waiter.
func TestWaiterIsNotGrantedByTheEndOfItsOwnLease(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	for range 20 {
		must[driver.Grant](t)(b.TryLock(t.Context(), "k", request("holder", time.Minute)))
		done := startWaiter(t, t.Context(), b, "k", request("waiter", time.Minute), 2)
		until(t, hung, "the waiter to watch the holder", func() bool { return b.waits.count() == 1 })
		lease := entriesOf(t, b.client, b.names.queue("k")).Kvs[0].Lease
		must[*clientv3.LeaseRevokeResponse](t)(b.client.Revoke(t.Context(), clientv3.LeaseID(lease)))
		got := soonResult(t, done, hung, "the waiter to be told")
		if got.err == nil || errors.Is(got.err, driver.ErrLocked) {
			t.Fatalf("%+v, %v: want an error", got.Grant, got.err)
		}
	}
}

// A waiter's lease is revoked. When the holder goes, the waiter is not granted, for the next in the queue is.
func TestRevokedWaiterIsNotGranted(t *testing.T) {
	t.Parallel()
	srv, holder := open(t)
	b, r := connect(t, srv.Addr), request("holder", time.Minute)
	must[driver.Grant](t)(holder.TryLock(t.Context(), "k", r))
	revoked := startWaiter(t, t.Context(), b, "k", request("revoked", time.Minute), 2)
	next := startWaiter(t, t.Context(), connect(t, srv.Addr), "k", request("next", time.Minute), 3)
	entry := entriesOf(t, holder.client, holder.names.queue("k")).Kvs[1]
	until(t, hung, "the waiter to watch the holder", func() bool { return b.waits.count() == 1 })
	must[*clientv3.LeaseRevokeResponse](t)(b.client.Revoke(t.Context(), clientv3.LeaseID(entry.Lease)))
	if err := holder.Unlock(t.Context(), "k", r.ID); err != nil {
		t.Fatal(err)
	}
	if got := soonResult(t, next, hung, "the next in the queue"); got.err != nil {
		t.Error(got.err)
	}
	if got := soonResult(t, revoked, hung, "the waiter that was revoked"); got.err == nil || errors.Is(got.err, driver.ErrLocked) {
		t.Errorf("%+v, %v: want an error", got.Grant, got.err)
	}
}

// silentStream hears nothing.
type silentStream struct{ grpc.ClientStream }

func (s silentStream) RecvMsg(any) error {
	<-s.Context().Done()
	return s.Context().Err()
}

// laggard begins a watch that is to begin at present with all that there ever was, as a member does that
// has yet to take it in.
type laggard struct{ grpc.ClientStream }

func (l laggard) SendMsg(m any) error {
	if req, ok := m.(*pb.WatchRequest); ok && req.GetCreateRequest() != nil && req.GetCreateRequest().StartRevision == 0 {
		req.GetCreateRequest().StartRevision = 1
	}
	return l.ClientStream.SendMsg(m)
}

// lag makes laggards of watches.
func lag(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := streamer(ctx, desc, cc, method, opts...)
	if err != nil || !strings.HasSuffix(method, "/Watch") {
		return stream, err
	}
	return laggard{stream}, nil
}

// A waiter whose watch is on a member that lags is told of the end of holds that had the holder's name
// before, and does not take that for the holder's.
func TestWaiterHearsOfTheDead(t *testing.T) {
	t.Parallel()
	srv, holder := open(t)
	b := streamed(t, lag, srv.Addr)
	var last driver.Request
	for range 4 {
		if last.ID != "" {
			if err := holder.Unlock(t.Context(), "k", last.ID); err != nil {
				t.Fatal(err)
			}
		}
		last = request("holder", time.Minute)
		if _, err := holder.TryLock(t.Context(), "k", last); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if g, err := b.Lock(ctx, "k", request("waiter", time.Minute), func() {}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("beside the holder: %+v, %v", g, err)
	}
	granted := make(chan error, 1)
	go func() {
		_, err := b.Lock(t.Context(), "k", request("waiter", time.Minute), func() {})
		granted <- err
	}()
	until(t, hung, "the waiter is in the queue", func() bool {
		return len(entriesOf(t, holder.client, holder.names.queue("k")).Kvs) == 2
	})
	if err := holder.Unlock(t.Context(), "k", last.ID); err != nil {
		t.Fatal(err)
	}
	if err := <-granted; err != nil {
		t.Error(err)
	}
}
