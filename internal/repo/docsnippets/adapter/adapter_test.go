//go:build unix

package adapter

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/cas"
	"github.com/coordgo/coord/internal/repo/docsnippets/adapter/kv"
)

// only runs the cases of one kind: the other half of the backend is that of another test.
func only(t *testing.T, kind string, h conformance.Harness) {
	t.Helper()
	s := conformance.Suite{Harness: h, Only: func(c conformance.Case) bool { return strings.HasPrefix(c.ID, kind) }}
	s.Test(t)
}

// Locks in the store's own idiom keep the contract, too.
func TestConformanceOwn(t *testing.T) {
	t.Parallel() // it mostly waits
	srv := startServer(t)
	open := func(_ conformance.TB, addr string) driver.Backend { return NewOwn(addr) }
	faults := conformance.TCPFaults(srv.addr, open)
	faults.Wipe = func(conformance.TB) { srv.clear() }
	only(t, "LOCK", conformance.Harness{
		Open:   func(tb conformance.TB) driver.Backend { return open(tb, srv.addr) },
		Claims: OwnClaims,
		Faults: faults,
	})
}

// Limits that are remembered keep the contract, as far as clocks agree.
func TestConformanceCounted(t *testing.T) {
	t.Parallel() // it mostly waits
	srv := startServer(t)
	open := func(_ conformance.TB, addr string) driver.Backend { return NewCounted(addr) }
	faults := conformance.TCPFaults(srv.addr, open)
	faults.Wipe = func(conformance.TB) { srv.clear() }
	faults.Skew = func(_ conformance.TB, ahead time.Duration) driver.Backend {
		k := newCounted(srv.addr)
		k.now = func() time.Time { return time.Now().Add(ahead) }
		return k
	}
	only(t, "LIMIT", conformance.Harness{
		Open:   func(tb conformance.TB) driver.Backend { return open(tb, srv.addr) },
		Claims: CountedClaims,
		Faults: faults,
	})
}

// intercepted is a listener whose connections do something before the next answer that is sent.
type intercepted struct {
	net.Listener
	before atomic.Pointer[func()]
}

func (l *intercepted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return answering{c, l}, err
}

type answering struct {
	net.Conn
	of *intercepted
}

func (c answering) Write(p []byte) (int, error) {
	if fn := c.of.before.Swap(nil); fn != nil {
		(*fn)()
	}
	return c.Conn.Write(p)
}

// A hold of the id that ends while it is asked for again is no reason to refuse: the attempt is a fresh one.
func TestAgainAsItLapses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	server := &intercepted{Listener: l}
	go func() { _ = kv.NewServer().Serve(server) }()
	b, other := NewOwn(l.Addr().String()).(*own), NewOwn(l.Addr().String()).(*own)
	t.Cleanup(func() { _, _ = b.Close(), other.Close() })
	r := driver.Request{ID: "a", TTL: time.Minute}
	first, err := b.TryLock(t.Context(), "k", r)
	if err != nil {
		t.Fatal(err)
	}
	lapse := func() {
		if err := other.Unlock(t.Context(), "k", "a"); err != nil {
			t.Error(err)
		}
	}
	server.before.Store(&lapse)
	again, err := b.TryLock(t.Context(), "k", r)
	if err != nil || again.Token <= first.Token {
		t.Errorf("%+v, %v: want a token above %d", again, err, first.Token)
	}
}

// And so does a store without expiry.
func TestConformanceLasting(t *testing.T) {
	t.Parallel() // it mostly waits
	addr := startServer(t).addr
	conformance.Run(t, conformance.Harness{
		Open:   func(conformance.TB) driver.Backend { return NewLasting(addr) },
		Claims: Claims,
	})
}

// locks is the half of a store of which the clock's error is allowed for.
type locks struct{ driver.Backend }

func (locks) Take(context.Context, string, driver.Limit, []driver.Ask) (driver.Taken, error) {
	return driver.Taken{}, driver.ErrUnsupported
}

func (locks) TakeOne(context.Context, string, driver.Limit, driver.Ask) (driver.TakenOne, error) {
	return driver.TakenOne{}, driver.ErrUnsupported
}

// And the locks of one whose clock is seen by stamps alone. Its limits are as exact as
// that clock, which the cases about their bounds rightly may not accept.
func TestConformanceStamped(t *testing.T) {
	t.Parallel() // it mostly waits
	srv := startServer(t)
	claims := driver.Claims{driver.PerHoldTTL, driver.TokenProcess, driver.TokenClockSeeded, driver.NoEviction, driver.ScopeHosts}
	conformance.Run(t, conformance.Harness{
		Open: func(conformance.TB) driver.Backend {
			return locks{NewStamped(srv.addr, claims)}
		},
		Claims: claims,
	})
}

func TestSweep(t *testing.T) {
	srv := startServer(t)
	c := newClient(srv.addr)
	t.Cleanup(c.close)
	l := lasting{versions{c}}
	keys := map[string]struct {
		keep  time.Duration
		stays bool
	}{"over": {-slack - time.Second, false}, "nearly over": {-slack + time.Minute, true}, "needed": {time.Hour, true}}
	for name, want := range keys {
		n := cas.Name{Kind: cas.Limit, Key: name, State: "tb"}
		if ok, err := l.CompareAndSwap(t.Context(), n, 0, cas.Change{Write: true, Value: []byte("v"), Keep: want.keep}); !ok || err != nil {
			t.Fatalf("%s: swapped %v, %v", name, ok, err)
		}
		if err := l.sweep(t.Context(), key(n)); err != nil {
			t.Fatal(err)
		}
		got, err := l.Load(t.Context(), n)
		if err != nil || (string(got.Value) == "v") != want.stays {
			t.Errorf("%s: %q, %v after the sweep: want it to stay: %v", name, got.Value, err, want.stays)
		}
	}
}

// Different names have different keys.
func TestKeys(t *testing.T) {
	seen := make(map[string]cas.Name)
	for _, n := range []cas.Name{
		{Kind: cas.Lock, Key: "a"},
		{Kind: cas.Lock, Key: "/a"},
		{Kind: cas.Lock, Key: "tb/a"},
		{Kind: cas.Limit, Key: "a", State: "tb"},
		{Kind: cas.Limit, Key: "a", State: "sw:1"},
		{Kind: cas.Limit, Key: "1/a", State: "sw:1"},
	} {
		if other, there := seen[key(n)]; there {
			t.Errorf("%+v and %+v are both %q", n, other, key(n))
		}
		seen[key(n)] = n
	}
}

func TestOpenRefuses(t *testing.T) {
	for raw, want := range map[string]string{
		"kv://host":              "host:port",
		"kv://:1":                "host:port",
		"kv://user:secret@h:1":   "without user",
		"kv://h:1/path":          "without user",
		"kv://h:1#f":             "without user",
		"kv://h:1?pool=3":        `parameter "pool"`,
		"kv://h:1?prefix=p&x=%6": "malformed",
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Open(t.Context(), u)
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v: want ErrInvalid that says %q and no secret", raw, err, want)
		}
	}
}

func TestOpen(t *testing.T) {
	srv := startServer(t)
	c, err := coord.Open(t.Context(), "kv://"+srv.addr+"?prefix=p")
	if err != nil {
		t.Fatal(err)
	}
	l, err := c.Lock(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Unlock(t.Context()), c.Close()); err != nil {
		t.Error(err)
	}
	srv.kill()
	if _, err := coord.Open(t.Context(), "kv://"+srv.addr); !errors.Is(err, coord.ErrUnavailable) {
		t.Errorf("a server that is down: %v, want ErrUnavailable", err)
	}
	srv.start()
}
