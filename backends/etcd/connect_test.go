package etcd

import (
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/coordgo/coord/driver"
)

// relay passes connections on to a server, but for one that it takes and does not answer.
type relay struct {
	net.Listener
	target string
	wg     sync.WaitGroup

	mu     sync.Mutex
	conns  []net.Conn
	silent bool // the next connection is not answered
	taken  int
}

func newRelay(t *testing.T, target string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: l, target: target}
	r.wg.Go(r.accept)
	t.Cleanup(func() {
		l.Close()
		r.breakAll(false)
		r.wg.Wait()
	})
	return r
}

func (r *relay) accept() {
	for {
		in, err := r.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		silent := r.silent
		r.silent = false
		r.conns = append(r.conns, in)
		r.taken++
		r.mu.Unlock()
		if silent {
			continue
		}
		out, err := net.Dial("tcp", r.target)
		if err != nil {
			in.Close()
			continue
		}
		r.wg.Go(func() { io.Copy(out, in); out.Close() })
		r.wg.Go(func() { io.Copy(in, out); in.Close() })
	}
}

// breakAll ends all connections; the next one is answered or not.
func (r *relay) breakAll(silent bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.Close()
	}
	r.conns, r.taken, r.silent = nil, 0, silent
}

func (r *relay) accepted() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken
}

// A connection that is taken and not answered, as by a balancer whose server has gone, is given up before a
// lease of a few seconds is over: gRPC ends an attempt at the deadline that it gives the dialer.
func TestConnectionThatIsNotAnsweredIsGivenUp(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	r := newRelay(t, srv.Addr)
	u := must[*url.URL](t)(url.Parse("etcd://" + r.Addr().String()))
	cfg, _, err := parseURL(u)
	if err != nil {
		t.Fatal(err)
	}
	var longest atomic.Int64 // attempt, from its dial on
	cfg.DialOptions = append(cfg.DialOptions, grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		until, _ := ctx.Deadline()
		longest.Store(max(longest.Load(), int64(time.Until(until))))
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	}))
	b := connectWith(t, cfg)
	hold := request("a", 10*time.Minute)
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", hold))
	r.breakAll(true)
	until(t, hung, "a renewal after a connection that was not answered", func() bool {
		_, err := b.Renew(t.Context(), "k", hold)
		return err == nil
	})
	if n := r.accepted(); n < 2 {
		t.Fatalf("%d connections were made, want one that was not answered and one that was", n)
	}
	if longest := time.Duration(longest.Load()); longest <= 0 || longest > defaultTimeout-time.Second {
		t.Errorf("a silent connection is given up after %v, want %v", longest, connectWithin)
	}
}
