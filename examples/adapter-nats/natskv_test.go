//go:build unix

package natskv

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/cas"
)

// The application's connection has the library's defaults, which keep what is published without a server
// and send it later. None of ours may be among that, and the connection stays open after Close.
func TestNewOverAConnection(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	srv.create("app")
	nc := srv.connect(t)
	b, err := New(t.Context(), nc, "app")
	if err != nil {
		t.Fatal(err)
	}
	locks := b
	lock := func(key string) error {
		_, err := locks.TryLock(t.Context(), key, driver.Request{ID: "one", TTL: time.Minute})
		return err
	}
	if err := lock("before"); err != nil {
		t.Fatal(err)
	}
	disconnected := nc.StatusChanged(nats.RECONNECTING, nats.DISCONNECTED)
	srv.kill()
	for nc.IsConnected() {
		<-disconnected
	}
	if err := lock("meanwhile"); !errors.Is(err, driver.ErrNotSent) {
		t.Errorf("without a server: got %v, want ErrNotSent", err)
	}
	if n, _ := nc.Buffered(); n > 0 && nc.IsReconnecting() {
		t.Errorf("%d bytes wait for the server to come back", n)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if nc.IsClosed() {
		t.Error("Close has closed the application's connection")
	}
	if err := lock("after"); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("after Close: got %v, want ErrClosed", err)
	}
}

// What is removed or lapses makes room for a value at the revision that Load gives.
func TestRemovedAndLapsed(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	srv.create("b")
	nc := srv.connect(t)
	v, _, err := probe(t.Context(), newLink(nc, false), "b")
	if err != nil {
		t.Fatal(err)
	}
	defer v.close()
	n := cas.Name{Kind: cas.Lock, Key: "k/é"}
	swap := func(revision uint64, value []byte, keep time.Duration, want bool) {
		t.Helper()
		if done, err := v.CompareAndSwap(t.Context(), n, revision, cas.Change{Write: true, Value: value, Keep: keep}); err != nil || done != want {
			t.Fatalf("swap at %d: got %v, %v; want %v", revision, done, err, want)
		}
	}
	load := func(want string, there bool) uint64 {
		t.Helper()
		l, err := v.Load(t.Context(), n)
		if err != nil || (l.Value != nil) != there || string(l.Value) != want {
			t.Fatalf("load: got %q, %v; want %q, %v", l.Value, err, want, there)
		}
		return l.Version
	}
	if first := load("", false); first != 0 {
		t.Fatalf("revision %d of what never was", first)
	}
	swap(0, []byte("one"), time.Hour, true)
	swap(0, []byte("two"), time.Hour, false)
	one := load("one", true)
	swap(one, nil, 0, true)
	gone := load("", false)
	if gone <= one {
		t.Fatalf("revision %d after the removal of %d", gone, one)
	}
	swap(one, []byte("late"), time.Hour, false)
	swap(gone, []byte{}, 2*time.Second, true)
	short := load("", true)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) { // the server collects in its own time
		l, err := v.Load(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		if l.Value == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a value that was kept for two seconds is there after thirty")
		}
	}
	swap(short, []byte("late"), time.Hour, false)
}

func TestOpen(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	base := "nats://" + srv.addr
	if _, err := coord.Open(t.Context(), base+"/b"); !errors.Is(err, coord.ErrInvalid) || !strings.Contains(err.Error(), "?replicas=1") {
		t.Errorf("a bucket that is not there: got %v", err)
	}
	for range 2 { // the second time it is there
		c, err := coord.Open(t.Context(), base+","+srv.addr+"/b?replicas=1&skew=300ms")
		if err != nil {
			t.Fatal(err)
		}
		settings, err := c.Describe(t.Context())
		if err != nil || settings["skew"] != "300ms" || settings["topology"] != "1 replica" {
			t.Errorf("described as %v, %v", settings, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	js, err := jetstream.New(srv.connect(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "usual"}); err != nil {
		t.Fatal(err)
	}
	if _, err := coord.Open(t.Context(), base+"/usual"); !errors.Is(err, coord.ErrUnsupported) {
		t.Errorf("a bucket without time to live: got %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	srv.pause()
	defer srv.resume()
	began := time.Now()
	if _, err := coord.Open(ctx, base+"/b"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a server that hangs: got %v", err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("a server that hangs held Open for %v", took)
	}
}
