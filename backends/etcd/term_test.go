package etcd

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/coordgo/coord/driver"
)

// termed gives a backend that sees a later raft term than the server has, by so much as more says.
func termed(t *testing.T, addr string) (b *backend, more *atomic.Uint64) {
	t.Helper()
	more = new(atomic.Uint64)
	cfg := clientConfig(addr)
	cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		err := invoker(ctx, method, req, reply, cc, opts...)
		if r, ok := reply.(interface{ GetHeader() *pb.ResponseHeader }); ok && err == nil {
			r.GetHeader().RaftTerm += more.Load()
		}
		return err
	}))
	return connectWith(t, cfg), more
}

// another says that another leader was elected, and gives what the old one does when it goes on: it revokes all leases that it
// knows.
func another(t *testing.T, b *backend, more *atomic.Uint64) (revoke func()) {
	t.Helper()
	known := b.liveLeases()
	if len(known) == 0 {
		t.Fatal("no leases: the test shows nothing")
	}
	more.Add(1)
	return func() {
		for _, id := range known {
			must[*clientv3.LeaseRevokeResponse](t)(b.client.Revoke(t.Context(), clientv3.LeaseID(id)))
		}
	}
}

// What is granted or renewed after an election does not end with the leases that the old leader knows.
func TestOldLeaderRevokesLeases(t *testing.T) {
	t.Parallel()
	exclusive, all := request("a", time.Minute), request("a", time.Minute)
	all.Whole = true
	permit := share1("a", driver.Share{Mode: driver.Permits, Weight: 1, Of: 1})
	permit.TTL = time.Minute
	type call func(b *backend, key string, r driver.Request) (driver.Grant, error)
	lock := func(b *backend, key string, r driver.Request) (driver.Grant, error) {
		return b.TryLock(context.Background(), key, r)
	}
	queue := func(b *backend, key string, r driver.Request) (driver.Grant, error) {
		return b.Lock(context.Background(), key, r, func() {})
	}
	renew := func(b *backend, key string, r driver.Request) (driver.Grant, error) {
		return b.Renew(context.Background(), key, r)
	}
	renewShared := func(b *backend, key string, r driver.Request) (driver.Grant, error) {
		return b.Shared().Renew(context.Background(), key, r)
	}
	for name, test := range map[string]struct {
		r           driver.Request
		first, then call
		key         string // of the call after the election
		try         call
	}{
		"lock":           {exclusive, lock, lock, "k2", lock},
		"whole":          {all, lock, lock, "k2", lock},
		"queued":         {exclusive, lock, queue, "k2", lock},
		"queued, whole":  {all, lock, queue, "k2", lock},
		"shared":         {permit, tryShared, tryShared, "k2", tryShared},
		"renewal":        {exclusive, lock, renew, "k1", lock},
		"shared renewal": {permit, tryShared, renewShared, "k1", tryShared},
	} {
		t.Run(name, func(t *testing.T) {
			srv, rival := open(t)
			b, more := termed(t, srv.Addr)
			must[driver.Grant](t)(test.first(b, "k1", test.r))
			b.age(0.5) // so that the next call sends a keepalive
			revoke := another(t, b, more)
			g := must[driver.Grant](t)(test.then(b, test.key, test.r))
			revoke()
			left := time.Until(g.Since.Add(g.TTL))
			if left < 50*time.Second {
				t.Errorf("%v left, want nearly a minute", left)
			}
			r := test.r
			r.ID = newID("rival")
			if g2, err := test.try(rival, test.key, r); !errors.Is(err, driver.ErrLocked) {
				t.Errorf("beside a hold that has %v left: granted %+v, %v", left, g2, err)
			}
		})
	}
}

// Renewals share no turn: a keepalive that a silent member holds up delays no hold on another lease.
func TestRenewalsOfOtherLeasesGoOn(t *testing.T) {
	t.Parallel()
	b := connect(t, shared(t).Addr)
	ctx := t.Context()
	stuck, r := request("stuck", time.Minute), request("a", 2*time.Minute)
	must[driver.Grant](t)(b.TryLock(ctx, "stuck", stuck))
	must[driver.Grant](t)(b.TryLock(ctx, "k", r))
	b.mu.Lock()
	e := b.entries[place{key: "stuck", id: stuck.ID}]
	b.mu.Unlock()
	unlock, err := e.lease.beating.lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	must[driver.Grant](t)(b.Renew(ctx, "k", r))
}
