package etcd

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/coordgo/coord/driver"
)

// lateReplies holds back what comes on a stream of keepalives, to call fn first.
type lateReplies struct {
	grpc.ClientStream
	fn func()
}

func (s lateReplies) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	s.fn()
	return err
}

// lapsing gives a backend of which a lease is over by its own clock before the next keepalive is answered, once next is set.
func lapsing(t *testing.T, addr string) (b *backend, next *atomic.Bool) {
	t.Helper()
	next = new(atomic.Bool)
	b = streamed(t, func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		s, err := streamer(ctx, desc, cc, method, opts...)
		if err != nil || !strings.HasSuffix(method, "/LeaseKeepAlive") {
			return s, err
		}
		return lateReplies{s, func() {
			if next.CompareAndSwap(true, false) {
				b.age(1)
			}
		}}, nil
	}, addr)
	return b, next
}

// age makes all leases older, by a part of their time: of 1 they are over.
func (b *backend) age(part float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.granted {
		l.since = l.since.Add(-time.Duration(part * float64(l.ttl)))
		l.sure = l.sure.Add(-time.Duration(part * float64(l.ttl)))
	}
}

// onlyLease is the lease that a backend has.
func (b *backend) onlyLease(t *testing.T) clientv3.LeaseID {
	t.Helper()
	ids := b.liveLeases()
	if len(ids) != 1 {
		t.Fatalf("%d leases, want 1", len(ids))
	}
	return clientv3.LeaseID(ids[0])
}

// A keepalive is answered only when the lease was over already by the client's clock. While etcd elects a leader it may: the
// lease is alive for the new one, and the old one has a request under way that revokes it. What is granted after that must not
// end with it.
func TestLapsedLeaseIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	for name, try := range map[string]func(b *backend, key string) (driver.Grant, error){
		"lock": func(b *backend, key string) (driver.Grant, error) {
			return b.TryLock(context.Background(), key, request("a", time.Minute))
		},
		"whole": func(b *backend, key string) (driver.Grant, error) {
			r := request("a", time.Minute)
			r.Whole = true
			return b.TryLock(context.Background(), key, r)
		},
		"shared": func(b *backend, key string) (driver.Grant, error) {
			r := share1("a", driver.Share{Mode: driver.Permits, Weight: 1, Of: 1})
			r.TTL = time.Minute
			return tryShared(b, key, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv, rival := open(t)
			b, late := lapsing(t, srv.Addr)
			must[driver.Grant](t)(try(b, "first"))
			old := b.onlyLease(t)
			b.age(0.5)
			late.Store(true)
			g := must[driver.Grant](t)(try(b, "second"))
			if late.Load() {
				t.Fatal("no keepalive was sent: the test shows nothing")
			}
			must[*clientv3.LeaseRevokeResponse](t)(b.client.Revoke(t.Context(), old))
			left := time.Until(g.Since.Add(g.TTL))
			if g2, err := try(rival, "second"); !errors.Is(err, driver.ErrLocked) {
				t.Errorf("beside a hold that has %v left: granted %+v, %v", left, g2, err)
			}
		})
	}
}

// As before, with a waiter: it keeps its place.
func TestLapsedLeaseOfAWaiterIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	srv, rival := open(t)
	b, late := lapsing(t, srv.Addr)
	h := request("holder", time.Hour)
	must[driver.Grant](t)(rival.TryLock(t.Context(), "k", h))
	late.Store(true)
	done := startWaiter(t, t.Context(), b, "k", request("waiter", 3*time.Second), 2)
	old := b.onlyLease(t)
	until(t, hung, "a late keepalive", func() bool { return !late.Load() })
	last := request("last", time.Hour)
	startWaiter(t, t.Context(), rival, "k", last, 3)
	if err := rival.Unlock(t.Context(), "k", h.ID); err != nil {
		t.Fatal(err)
	}
	got := soonResult(t, done, hung, "the waiter to be granted")
	if got.err != nil {
		t.Fatal(got.err)
	}
	must[*clientv3.LeaseRevokeResponse](t)(b.client.Revoke(t.Context(), old))
	left := time.Until(got.Since.Add(got.TTL))
	queue := entriesOf(t, b.client, b.names.queue("k"))
	if len(queue.Kvs) != 2 || left <= 0 {
		t.Errorf("%d entries, want that of the holder, which has %v left, and of who waits", len(queue.Kvs), left)
	}
}
