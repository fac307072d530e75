package etcd

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

func TestMain(m *testing.M) {
	conformance.WorkerMain()
	goleak.VerifyTestMain(everybody.Main(m))
}

// everybody is the server of all tests that disturb nobody.
var everybody testserver.Shared

// shared gives that server. Each test has a namespace of its own there.
func shared(t testing.TB) *testserver.Server {
	t.Helper()
	return everybody.Use(t, func(t testing.TB) *testserver.Server { return testserver.Etcd(t) })
}

// hung is from when on a call that should end, or be answered, is held to do neither: much longer than a
// machine under load is late.
const hung = time.Minute

// clientConfig is that of an application's client.
func clientConfig(addrs ...string) clientv3.Config {
	return clientv3.Config{Endpoints: addrs, DialTimeout: 2 * time.Second, MaxUnaryRetries: 2, Logger: zap.NewNop()}
}

// connect gives a backend over a client of its own, both closed with the test.
func connect(t testing.TB, addrs ...string) *backend {
	t.Helper()
	return connectWith(t, clientConfig(addrs...))
}

func connectWith(t testing.TB, cfg clientv3.Config, opts ...Option) *backend {
	t.Helper()
	client := rawWith(t, cfg)
	b, err := New(client, append([]Option{WithNamespace(testserver.NameOf(t)), WithLogger(slog.New(slog.DiscardHandler))}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	// What is pushed is to be found out by that, and not by a look: no bound has to tell the two apart. And a machine that takes
	// seconds for a request is not to make a test see an outcome that nobody knows, nor to end a head.
	b.(*backend).recheck, b.(*backend).making, b.(*backend).headFor = time.Hour, hung, time.Hour
	return b.(*backend)
}

// raw gives a client to look at the store with.
func raw(t testing.TB, addrs ...string) *clientv3.Client {
	t.Helper()
	return rawWith(t, clientConfig(addrs...))
}

func rawWith(t testing.TB, cfg clientv3.Config) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

// open connects to the server that tests share.
func open(t testing.TB) (*testserver.Server, *backend) {
	t.Helper()
	srv := shared(t)
	return srv, connect(t, srv.Addr)
}

// own starts a server of its own and connects to it.
func own(t testing.TB, opts ...testserver.Option) (*testserver.Server, *backend) {
	t.Helper()
	srv := testserver.Etcd(t, append(opts, testserver.Durable())...)
	return srv, connect(t, srv.Addr)
}

// counter counts the requests of a client by method: unary calls, each attempt of them,
// and streams. What the backend gave up because a busy machine did not answer it, and makes again, is counted once.
type counter struct {
	mu      sync.Mutex
	calls   map[string]int
	streams map[string][]context.Context // by method, for as long as they are
}

func (c *counter) note(method string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls[method] += n; c.calls[method] == 0 {
		delete(c.calls, method)
	}
}

// noteStream notes a stream, unless it is in the place of one that was given up.
func (c *counter) noteStream(ctx context.Context, method string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	silent := func(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errSilent) }
	if i := slices.IndexFunc(c.streams[method], silent); i >= 0 {
		c.streams[method] = slices.Delete(c.streams[method], i, i+1)
	} else {
		c.calls[method]++
	}
	c.streams[method] = append(c.streams[method], ctx)
}

// take gives the counts since the last time.
func (c *counter) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := c.calls
	c.calls = make(map[string]int)
	return calls
}

// counting makes cfg's client count.
func counting(cfg clientv3.Config) (clientv3.Config, *counter) {
	c := &counter{calls: make(map[string]int), streams: make(map[string][]context.Context)}
	cfg.DialOptions = append(cfg.DialOptions,
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			c.note(method, 1)
			err := invoker(ctx, method, req, reply, cc, opts...)
			if err != nil && (errors.Is(context.Cause(ctx), errSilent) || timeIsUp(err)) {
				c.note(method, -1)
			}
			return err
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			c.noteStream(ctx, method)
			return streamer(ctx, desc, cc, method, opts...)
		}))
	return cfg, c
}

func newID(name string) string {
	var random [16]byte
	rand.Read(random[:])
	return driver.FormatID(name, os.Getpid(), time.Now(), random)
}

func request(name string, ttl time.Duration) driver.Request {
	return driver.Request{ID: newID(name), TTL: ttl}
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// until polls until cond holds.
func until(t testing.TB, within time.Duration, what string, cond func() bool) {
	t.Helper()
	for start := time.Now(); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Since(start) > within {
			t.Fatalf("waited %v for: %s", within, what)
		}
	}
}
