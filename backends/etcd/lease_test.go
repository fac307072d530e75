package etcd

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/coordgo/coord/driver"
)

// The keepalive of a waiter hangs, on a member that does not answer perhaps. Holds on the
// same lease are kept alive by others.
func TestHangingKeepAliveHoldsUpNobody(t *testing.T) {
	t.Parallel()
	srv, holder := open(t)
	must[driver.Grant](t)(holder.TryLock(t.Context(), "k", request("holder", 60*time.Second)))
	var hang, hangs atomic.Bool
	b := streamed(t, func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		if strings.HasSuffix(method, "/LeaseKeepAlive") && hang.CompareAndSwap(true, false) {
			hangs.Store(true)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return streamer(ctx, desc, cc, method, opts...)
	}, srv.Addr)
	const ttl = 30 * time.Second
	mine := request("mine", ttl)
	must[driver.Grant](t)(b.TryLock(t.Context(), "mine", mine))
	startWaiter(t, t.Context(), b, "k", request("waiter", ttl), 2)
	hang.Store(true)
	until(t, hung, "the waiter's keepalive", hangs.Load)
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), hung)
		must[driver.Grant](t)(b.Renew(ctx, "mine", mine))
		cancel()
	}
}

// A request for a lease hangs, on a member that does not answer perhaps. It is made again, and all who want a lease of
// the same TTL share what comes of it.
func TestHangingGrantHoldsUpNobody(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	var hang, hangs atomic.Bool
	var grants atomic.Int32
	cfg := clientConfig(srv.Addr)
	cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(
		func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if strings.HasSuffix(method, "/LeaseGrant") {
				grants.Add(1)
				if hang.CompareAndSwap(true, false) {
					hangs.Store(true)
					<-ctx.Done()
					return ctx.Err()
				}
			}
			return invoker(ctx, method, req, reply, cc, opts...)
		}))
	b := connectWith(t, cfg)
	grants.Store(0)
	hang.Store(true)
	done := make(chan error, 10)
	lock := func(key string) {
		_, err := b.TryLock(t.Context(), key, request(key, 20*time.Second))
		done <- err
	}
	go lock("first")
	until(t, hung, "a request for a lease", hangs.Load)
	for i := range cap(done) - 1 {
		go lock(fmt.Sprint("other", i))
	}
	for range cap(done) {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(hung):
			t.Fatal("a lock waits for the request that hangs")
		}
	}
	if n := grants.Load(); n != 2 {
		t.Errorf("%d requests for a lease, want the one that hung and another", n)
	}
}
