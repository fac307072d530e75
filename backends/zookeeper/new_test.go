package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

// ownConn is a connection of an application, closed with the test. The server has answered it, because New gives a
// server that has just begun only seconds.
func ownConn(t testing.TB, addr string, session time.Duration) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect([]string{addr}, session, zk.WithLogger(silence{}), zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		for range events { // until its goroutines have ended
		}
	})
	eventually(t, "an answer of the server", func() bool {
		_, _, err := conn.Exists("/")
		return err == nil
	})
	return conn
}

func TestNewRefuses(t *testing.T) {
	conn := ownConn(t, shared(t).Addr, time.Second)
	for want, call := range map[string]func() (driver.Backend, error){
		"nil connection":          func() (driver.Backend, error) { return New(nil) },
		"give WithSessionTimeout": func() (driver.Backend, error) { return New(conn) },
		"want 200ms to 1h":        func() (driver.Backend, error) { return New(conn, WithSessionTimeout(time.Millisecond)) },
		"want one from the root": func() (driver.Backend, error) {
			return New(conn, WithSessionTimeout(time.Second), WithRoot("coord"))
		},
	} {
		if _, err := call(); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Close leaves the application's connection open. A hold that was not given back stays for
// its lease, and no longer, though the session lives on.
func TestNewLeavesTheConnection(t *testing.T) {
	t.Parallel()
	conn := ownConn(t, shared(t).Addr, endingSession)
	acl := zk.WorldACL(zk.PermAll)
	b := must[driver.Backend](t)(New(conn, WithSessionTimeout(endingSession), WithACL(acl), WithRoot(rootOf(t)))).(*backend)
	next := must[driver.Backend](t)(New(conn, WithSessionTimeout(endingSession), WithRoot(rootOf(t)))).(*backend)
	defer next.Close()
	r := request("a", endingSession)
	g := must[driver.Grant](t)(b.TryLock(t.Context(), "k", r))
	if g.TTL != endingSession {
		t.Errorf("TTL %v", g.TTL)
	}
	for range 2 {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := b.TryLock(t.Context(), "k", r); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := next.TryLock(t.Context(), "k", request("b", endingSession)); !errors.Is(err, driver.ErrLocked) {
		t.Errorf("within the lease: %v", err)
	}
	isFree(t, next, "k")
	if early := time.Until(g.Since.Add(g.TTL)); early > 0 {
		t.Errorf("free %v before the lease was over", early)
	}
	if conn.State() != zk.StateHasSession {
		t.Errorf("the application's connection is %v", conn.State())
	}
}

// A whole client works over the application's connection.
func TestNewServesAClient(t *testing.T) {
	srv := shared(t)
	b := must[driver.Backend](t)(New(ownConn(t, srv.Addr, calmSession), WithSessionTimeout(calmSession), WithRoot(rootOf(t))))
	c := must[*coord.Client](t)(coord.New(b))
	l := must[*coord.Lock](t)(c.Lock(t.Context(), "k"))
	waiter := make(chan error, 1)
	go func() {
		next, err := c.Lock(t.Context(), "k", coord.Fair())
		if err == nil {
			err = next.Unlock(t.Context())
		}
		waiter <- err
	}()
	eventually(t, "a waiter in the queue", func() bool {
		h, err := c.Inspect(t.Context(), "k")
		return err == nil && h.Waiters == 1
	})
	if err := l.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-waiter; err != nil {
		t.Error(err)
	}
	if r, err := c.Allow(t.Context(), "l", coord.PerHour(1)); err != nil || !r.Allowed {
		t.Errorf("%+v, %v", r, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// Close ends calls under way, in time, while the server is silent.
func TestCloseWhileTheServerIsSilent(t *testing.T) {
	t.Parallel()
	p, b := openTapped(t)
	isFree(t, b, "k")
	p.disturb(func(int32) deed { return hold })
	ended := make(chan error, 2)
	go func() {
		_, err := b.TryLock(context.Background(), "k", request("a", testSession))
		ended <- err
	}()
	go func() {
		_, err := b.TakeOne(context.Background(), "l", limitOf(t, "1/1h"), driver.Ask{Min: 1, N: 1})
		ended <- err
	}()
	eventually(t, "the requests to be on their way", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.ops) > 0
	})
	start := time.Now()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > hung {
		t.Errorf("Close took %v", took)
	}
	for range 2 {
		if err := <-ended; err == nil {
			t.Error("a call under way succeeded")
		}
	}
	p.release()
}

// Close over the application's connection does not wait for a server that is silent, whatever is under way.
func TestNewClosesWhileTheServerIsSilent(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	for what, op := range map[string]int32{"asking for a watch": opGet, "giving up a node": opDelete} {
		t.Run(what, func(t *testing.T) {
			p := newTap(t, srv.Addr)
			conn := ownConn(t, p.addr(), calmSession)
			b := must[driver.Backend](t)(New(conn, WithSessionTimeout(calmSession), WithRoot(rootOf(t)))).(*backend)
			isFree(t, b, what)
			silent := p.once(op, hold)
			r := request("a", time.Minute)
			switch op {
			case opGet:
				must[driver.Grant](t)(b.TryLock(t.Context(), what, r))
			case opDelete:
				e := b.enter(holdName{key: what, id: r.ID})
				b.background(func() {
					defer e.leave()
					b.discard(e.dir+"/x", conn.SessionID())
				})
			}
			<-silent
			start := time.Now()
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			if took := time.Since(start); took > hung {
				t.Errorf("Close took %v", took)
			}
			p.release()
		})
	}
}

// Close ends the session, and so what is held.
func TestCloseEndsTheSession(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	beside := connect(t, urlWith(t, srv.Addr, calmSession))
	b := connect(t, urlWith(t, srv.Addr, calmSession))
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", request("a", time.Minute)))
	session := fmt.Sprintf("sid=0x%x,", b.conn.SessionID())
	if text := beside.ask(t.Context(), "cons"); !strings.Contains(text, session) {
		t.Errorf("no %s in %s", session, text)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	eventually(t, "its session to be over", func() bool {
		text := beside.ask(t.Context(), "cons")
		return text != "" && !strings.Contains(text, session)
	})
	must[driver.Grant](t)(beside.TryLock(t.Context(), "k", request("b", time.Minute)))
}
