package redis

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/internal/testserver"
)

// connected gives a conn and its other end.
func connected(t *testing.T) (*conn, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	nc, err := dialer(time.Minute)(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	other, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	return nc.(*conn), other
}

func readOne(c net.Conn) error {
	_, err := c.Read(make([]byte, 1))
	return err
}

func sendOne(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := c.Write([]byte{'x'}); err != nil {
		t.Fatal(err)
	}
}

func TestConnKeepsDeadlines(t *testing.T) {
	c, other := connected(t)
	passed, far := time.Now().Add(-time.Second), time.Now().Add(time.Minute)
	set := func(at time.Time) {
		t.Helper()
		if err := errors.Join(c.SetReadDeadline(at), c.SetWriteDeadline(at)); err != nil {
			t.Fatal(err)
		}
	}
	for _, again := range []time.Time{far, {}} {
		set(passed)
		set(passed)
		if err := readOne(c); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("read after the deadline: %v", err)
		}
		if _, err := c.Write([]byte{'x'}); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("write after the deadline: %v", err)
		}
		set(again)
		sendOne(t, other)
		if err := readOne(c); err != nil {
			t.Fatalf("read before the deadline: %v", err)
		}
		sendOne(t, c)
	}
}

// A deadline that was cleared and set again is as if nothing had been done in between.
func TestConnKeepsADeadlineThatIsSetAgain(t *testing.T) {
	c, _ := connected(t)
	soon := time.Now().Add(20 * time.Millisecond)
	for range 3 {
		if err := errors.Join(c.SetDeadline(time.Time{}), c.SetReadDeadline(soon)); err != nil {
			t.Fatal(err)
		}
	}
	if err := readOne(c); !errors.Is(err, os.ErrDeadlineExceeded) || time.Now().Before(soon) {
		t.Fatalf("read: %v", err)
	}
}

func TestConnIsLookedAtAfterARest(t *testing.T) {
	c, _ := connected(t)
	looks := func() bool {
		t.Helper()
		raw, err := c.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		_, spared := raw.(unseen)
		return !spared
	}
	if !looks() {
		t.Error("a new connection is not looked at")
	}
	c.taken = time.Now().Add(time.Hour) // just now, however slow this is
	if looks() {
		t.Error("a busy connection is looked at")
	}
	c.taken = c.taken.Add(-time.Hour - lookAfter)
	if !looks() {
		t.Error("a connection that has rested is not looked at")
	}
}

// A connection that the server has closed meanwhile is replaced before anything is sent.
func TestConnThatWasClosedIsReplaced(t *testing.T) {
	srv := testserver.Redis(t)
	dial := dialer(time.Minute)
	var last *conn
	client := redis.NewClient(&redis.Options{Addr: srv.Addr, MaxRetries: -1, PoolSize: 1, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := dial(ctx, network, addr)
		if err == nil {
			last = nc.(*conn)
		}
		return nc, err
	}})
	defer client.Close()
	killer := redis.NewClient(&redis.Options{Addr: srv.Addr})
	defer killer.Close()
	for range 3 {
		id, err := client.ClientID(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		if err := killer.ClientKillByFilter(t.Context(), "ID", strconv.FormatInt(id, 10)).Err(); err != nil {
			t.Fatal(err)
		}
		last.taken = time.Time{} // it has rested
		if err := client.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// A connection that has rested past the deadline of its last command is used again.
func TestConnOutlivesItsDeadline(t *testing.T) {
	srv := testserver.Redis(t)
	dial := dialer(time.Minute)
	var dialled []*conn
	client := redis.NewClient(&redis.Options{Addr: srv.Addr, MaxRetries: -1, PoolSize: 1, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := dial(ctx, network, addr)
		if err == nil {
			dialled = append(dialled, nc.(*conn))
		}
		return nc, err
	}})
	defer client.Close()
	for range 3 {
		if err := client.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		last := dialled[len(dialled)-1]
		last.taken = time.Time{} // it has rested
		if err := last.SetDeadline(time.Now().Add(-time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(dialled); n != 1 {
		t.Errorf("%d connections, want one", n)
	}
}
