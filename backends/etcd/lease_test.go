package etcd

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// The keepalive of a waiter hangs, on a member that does not answer perhaps. Holds on the
// same lease are kept alive by others.
func TestHangingKeepAliveHoldsUpNobody(t *testing.T) {
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
	mine := request("mine", 2*time.Second)
	must[driver.Grant](t)(b.TryLock(t.Context(), "mine", mine))
	waitInLine(t, t.Context(), b, "k", request("waiter", 2*time.Second), 2)
	hang.Store(true)
	until(t, 5*time.Second, "the waiter's keepalive", hangs.Load)
	for start := time.Now(); time.Since(start) < 3*time.Second; time.Sleep(100 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second/3) // as the core does
		_, err := b.Renew(ctx, "mine", mine)
		cancel()
		if err != nil {
			t.Fatalf("a renewal beside it, after %v: %v", time.Since(start), err)
		}
	}
}

// A request for a lease hangs. Those who want one of the same TTL ask by themselves.
func TestHangingGrantHoldsUpNobody(t *testing.T) {
	srv := testserver.Etcd(t)
	b, m := meddled(t, srv.Addr)
	release, first := make(chan struct{}), make(chan error, 1)
	var hangs atomic.Bool
	m.on(func(method string, _ any, send func() error) error {
		if method == "LeaseGrant" && hangs.CompareAndSwap(false, true) {
			<-release
		}
		return send()
	})
	go func() {
		_, err := b.TryLock(t.Context(), "a", request("a", 20*time.Second))
		first <- err
	}()
	until(t, 5*time.Second, "a request for a lease", hangs.Load)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := b.TryLock(ctx, "b", request("b", 20*time.Second)); err != nil {
		t.Error(err)
	}
	close(release)
	if err := <-first; err != nil {
		t.Errorf("the one that hung: %v", err)
	}
}
