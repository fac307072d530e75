package redis

import (
	"bytes"
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

func TestMain(m *testing.M) {
	conformance.WorkerMain()
	// Where a server is down, a pool of go-redis tries to connect once a second, and looks between two tries whether it is closed.
	goleak.VerifyTestMain(everybody.Main(m), goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// everybody is the server of all tests that disturb nobody.
var everybody testserver.Shared

// databases are more than there are tests at once.
const databases = 256

var database atomic.Int32 // the last that was given to a test

// shared gives a backend over the server that other tests use too, in a database of its own. Messages, users and what the
// server counts are for all databases: tests of these have a server of their own.
func shared(t testing.TB) *backend {
	t.Helper()
	srv := everybody.Use(t, func(t testing.TB) *testserver.Server {
		return testserver.Redis(t, silently, testserver.WithFlags("--databases", strconv.Itoa(databases)))
	})
	o := clientOptions(srv.Addr)
	o.DB = int(database.Add(1)) % databases
	b := connectWith(t, o)
	if err := b.client.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	return b
}

// optionsOf are those of another client of b's server and database.
func optionsOf(b *backend) *redis.Options {
	known := b.client.(*redis.Client).Options()
	o := clientOptions(known.Addr)
	o.DB = known.DB
	return o
}

// another gives a backend over another client of b's server and database.
func another(t testing.TB, b *backend) *backend {
	t.Helper()
	return connectWith(t, optionsOf(b))
}

// hung is from when on a call that should end, or be answered, is held to do neither.
const hung = time.Minute

// options are those of a client that keeps the contract.
func clientOptions(addr string) *redis.Options {
	return &redis.Options{
		Addr: addr, ContextTimeoutEnabled: true,
		DialTimeout: hung, ReadTimeout: 2 * time.Second, WriteTimeout: 2 * time.Second,
		DialerRetries: 1,
	}
}

// connect gives a backend over a client of its own, both closed with the test.
func connect(t testing.TB, addr string) *backend {
	t.Helper()
	return connectWith(t, clientOptions(addr))
}

func connectWith(t testing.TB, o *redis.Options) *backend {
	t.Helper()
	client := redis.NewClient(o)
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	b, err := New(client, WithLogger(slog.New(slog.DiscardHandler)))
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
func open(t testing.TB, opts ...testserver.Option) (*testserver.Server, *backend) {
	t.Helper()
	srv := testserver.Redis(t, append(opts, silently)...)
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

// injectClock makes b run the scripts of limits with a clock that the test
// passes as the last argument, and an expiry that does not run out meanwhile.
func injectClock(t testing.TB, b *backend) {
	t.Helper()
	replaced := 0
	b.limits = newLimitScripts(func(source string) string {
		for _, r := range [][2]string{
			{"local now = time[1] * 1000000 + time[2]", "local now = tonumber(table.remove(ARGV))"},
			{"ms = ceildiv(us, 500) + 1000", "ms = 3600000"},
			{"left = ceildiv(us, 1000) + 1000", "left = 3600000"},
			{"ceildiv(math.max(till - now, 1), 1000)", "3600000"},
			{"{ARGV[i + 1]}", "{ARGV[i + 1], ARGV[#ARGV]}"},
			{"{peek}", "{peek, ARGV[#ARGV]}"},
		} {
			replaced += strings.Count(source, r[0])
			source = strings.ReplaceAll(source, r[0], r[1])
		}
		return source
	})
	if replaced != 17 { // clock and expiries of each script, twice for several limits and passed on there
		t.Fatalf("replaced %d lines in the scripts", replaced)
	}
	for _, s := range b.limits.all() {
		if err := b.client.ScriptLoad(t.Context(), s.source).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// at is c with a clock as injectClock makes the scripts read it.
func at(ctx context.Context, c *command, now int64) *command {
	return c.script.command(ctx, append(c.Args()[3:], now)...)
}

// textLogger gives a logger and what it has written.
func textLogger() (*slog.Logger, *bytes.Buffer) {
	var text bytes.Buffer
	return slog.New(slog.NewTextHandler(&text, nil)), &text
}

// proxyTo gives a way to a server, which can be broken.
func proxyTo(t *testing.T, s *testserver.Server) *conformance.Proxy {
	t.Helper()
	p := must[*conformance.Proxy](t)(conformance.NewProxy(s.Addr))
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close a proxy: %v", err)
		}
	})
	return p
}
