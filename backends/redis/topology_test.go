package redis

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/internal/testserver"
)

// silently keeps the servers' logs short.
var silently = testserver.WithFlags("--loglevel", "warning")

// sentinelClient is the client that Open makes over sentinels. Over a wire, if there is
// one, go the connections to servers with data.
func sentinelClient(tb conformance.TB, c *testserver.Cluster, w *wire) *redis.Client {
	u, err := url.Parse(sentinelURL(c))
	if err != nil {
		tb.Fatalf("%v", err)
	}
	target, err := parseURL(u)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	o := &target.options
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = hung, 2*time.Second, 2*time.Second
	if w != nil {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if slices.Contains(c.Sentinels(), addr) {
				return new(net.Dialer).DialContext(ctx, network, addr)
			}
			return w.dial(ctx, network, addr)
		}
	}
	r := newResolver(o, slog.New(slog.DiscardHandler))
	tb.Cleanup(r.close)
	return r.client()
}

func sentinelURL(c *testserver.Cluster) string {
	return "redis+sentinel://" + strings.Join(c.Sentinels(), ",") + "/" + testserver.RedisSentinelMaster
}

func clusterOptions(c *testserver.Cluster, w *wire) *redis.ClusterOptions {
	o := &redis.ClusterOptions{
		Addrs: c.Addrs(), ContextTimeoutEnabled: true, DialerRetries: 1,
		DialTimeout: hung, ReadTimeout: 2 * time.Second, WriteTimeout: 2 * time.Second,
	}
	if w != nil {
		o.Dialer = w.dial
	}
	return o
}

func clusterClient(c *testserver.Cluster, w *wire) *redis.ClusterClient {
	return redis.NewClusterClient(clusterOptions(c, w))
}

// wire carries the connections of one client to all servers, so that one link has
// the faults of all: each begins with the address that it is to go on to.
type wire struct {
	proxy    *conformance.Proxy
	exchange *exchange
}

// loseFrom breaks, once, the connection to a server that next replies, instead of passing
// the reply on.
func (w *wire) loseFrom(s *testserver.Server) { w.exchange.lose.Store(&s.Addr) }

func newWire(tb conformance.TB) *wire {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("listen: %v", err)
	}
	e := &exchange{listener: l}
	e.wg.Go(e.accept)
	p, err := conformance.NewProxy(l.Addr().String())
	if err != nil {
		tb.Fatalf("proxy: %v", err)
	}
	tb.Cleanup(func() {
		if err := p.Close(); err != nil {
			tb.Errorf("proxy: %v", err)
		}
		e.close()
	})
	return &wire{p, e}
}

func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, w.proxy.Addr())
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, addr+"\n"); err != nil {
		return nil, err
	}
	return conn, nil
}

// exchange connects on.
type exchange struct {
	listener net.Listener
	wg       sync.WaitGroup
	mu       sync.Mutex
	closed   bool
	open     []net.Conn
	lose     atomic.Pointer[string] // the address whose next reply to a script is lost
}

func (e *exchange) accept() {
	for {
		in, err := e.listener.Accept()
		if err != nil {
			return
		}
		e.wg.Go(func() { e.relay(in) })
	}
}

// keep makes close end the connection.
func (e *exchange) keep(c net.Conn) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open = append(e.open, c)
	return !e.closed
}

func (e *exchange) relay(in net.Conn) {
	defer in.Close()
	if !e.keep(in) {
		return
	}
	r := bufio.NewReader(in)
	addr, err := r.ReadString('\n')
	if err != nil {
		return
	}
	addr = strings.TrimSpace(addr)
	out, err := net.DialTimeout("tcp", addr, hung)
	if err != nil {
		return
	}
	defer out.Close()
	if !e.keep(out) {
		return
	}
	l := &losing{Conn: out, addr: addr, e: e}
	e.wg.Go(func() {
		defer in.Close()
		_, _ = io.Copy(in, l)
	})
	_, _ = io.Copy(l, r)
}

// losing ends a connection instead of giving the reply that is to be lost. That is one to a script: the client library asks
// for other things by itself.
type losing struct {
	net.Conn
	addr   string
	e      *exchange
	script atomic.Bool // the last request was one
}

func (l *losing) Write(p []byte) (int, error) {
	l.script.Store(bytes.Contains(p, []byte("eval")))
	return l.Conn.Write(p)
}

func (l *losing) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if lose := l.e.lose.Load(); n > 0 && l.script.Load() && lose != nil && *lose == l.addr && l.e.lose.CompareAndSwap(lose, nil) {
		return 0, io.EOF
	}
	return n, err
}

func (e *exchange) close() {
	e.listener.Close()
	e.mu.Lock()
	e.closed = true
	for _, c := range e.open {
		c.Close()
	}
	e.mu.Unlock()
	e.wg.Wait()
}

// connectTo gives a backend over a client, both closed with the test.
func connectTo(t testing.TB, client redis.UniversalClient, opts ...Option) *backend {
	t.Helper()
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	log, _ := textLogger()
	b, err := New(client, append(opts, WithLogger(log))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b.(*backend)
}
