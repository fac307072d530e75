package memcached

import (
	"bytes"
	"crypto/rand"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
	"go.uber.org/goleak"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

func TestMain(m *testing.M) {
	conformance.WorkerMain()
	goleak.VerifyTestMain(m)
}

// hung is from when on a call that should end, or be answered, is held to do neither.
const hung = time.Minute

// newClient is an application's client, with this package's selector.
func newClient(addrs ...string) *memcache.Client {
	client := memcache.NewFromSelector(newServers(addrs))
	client.Timeout, client.MaxIdleConns = 5*time.Second, defaultPool
	return client
}

// connect gives a backend over a client of its own, both closed with the test.
func connect(t testing.TB, addr string, opts ...Option) *backend {
	t.Helper()
	client := newClient(addr)
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	b, err := New(client, append([]Option{WithLogger(slog.New(slog.DiscardHandler))}, opts...)...)
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

// open starts a server of its own and connects to it.
func open(t testing.TB, flags ...string) (*testserver.Server, *backend) {
	t.Helper()
	srv := testserver.Memcached(t, testserver.WithFlags(flags...))
	return srv, connect(t, srv.Addr)
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

func limitFrom(t testing.TB, s string) driver.Limit {
	t.Helper()
	l, err := driver.ParseLimit(s)
	if err == nil {
		l, err = l.Normal()
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// textLogger gives a logger and what it has written.
func textLogger() (*slog.Logger, *bytes.Buffer) {
	var text bytes.Buffer
	return slog.New(slog.NewTextHandler(&text, nil)), &text
}
