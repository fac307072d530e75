package memcached

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/coordgo/coord/driver"
)

// A connection that breaks before it has answered anything is not made a second time by the same call: the server is not
// there, and its clients would dial it twice as often as they have calls.
func TestACallDialsOnce(t *testing.T) {
	t.Parallel()
	l := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	var dialled atomic.Int32
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return // the test closed it
			}
			dialled.Add(1)
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		}
	}()
	p := newPool(1, 5*time.Second, newServers([]string{l.Addr().String()})[0], dialer{})
	conn := must[*conn](t)(p.take(t.Context(), nil))
	c := &call{client: conn.client, conn: conn}
	if _, err := c.get("k"); !errors.Is(err, driver.ErrNotSent) {
		t.Errorf("a read of a server that closes every connection: saw %v, want ErrNotSent", err)
	}
	p.give(conn)
	if err := errors.Join(p.close(), l.Close()); err != nil {
		t.Error(err)
	}
	<-ended
	if n := dialled.Load(); n != 1 {
		t.Errorf("saw %d connections for one read, want 1", n)
	}
}

// A call that ends while its connection is made has sent nothing, and says so.
func TestCallThatEndsInItsDialIsNotSent(t *testing.T) {
	t.Parallel()
	for want, within := range map[error]time.Duration{context.Canceled: hung, context.DeadlineExceeded: 100 * time.Millisecond} {
		t.Run(want.Error(), func(t *testing.T) {
			l := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
			s := must[settings](t)(parseURL(&url.URL{Scheme: "memcached", Host: l.Addr().String()}))
			s.timeout = 4 * hung // the call ends before
			b := must[*backend](t)(newBackend(nil))
			b.pools = newPools(s, listLife, dialer{user: "user", password: "password"})
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				conn, err := l.Accept()
				if err != nil {
					return // the test closed it
				}
				if want == context.Canceled {
					cancel()
				}
				// It takes the password, and never answers.
				_, _ = io.Copy(io.Discard, conn)
				_ = conn.Close()
			}()
			_, err := b.TryLock(ctx, "k", request("a", time.Minute))
			if !errors.Is(err, driver.ErrNotSent) || !errors.Is(err, want) || errors.Is(err, context.Canceled) != (want == context.Canceled) {
				t.Errorf("saw %v, want ErrNotSent and %v", err, want)
			}
			if err := errors.Join(b.Close(), l.Close()); err != nil {
				t.Error(err)
			}
			<-ended
		})
	}
}

// A call whose caller has gone sends nothing more: if it has sent nothing that changes a lock, that is certain.
func TestCallThatEndsBeforeItsFirstCommandIsNotSent(t *testing.T) {
	t.Parallel()
	p := newPool(1, hung, newServers([]string{"127.0.0.1:1"})[0], dialer{}) // nothing is sent there
	conn := must[*conn](t)(p.take(t.Context(), nil))
	conn.abort()
	for _, touched := range []bool{false, true} {
		c := &call{client: conn.client, conn: conn, touched: touched}
		_, read := c.get("k")
		for _, err := range []error{read, c.add(&memcache.Item{Key: "k"})} {
			if !errors.Is(err, errGone) || errors.Is(err, driver.ErrNotSent) == touched {
				t.Errorf("a lock was touched: %v, saw %v", touched, err)
			}
		}
	}
	p.give(conn)
	if err := p.close(); err != nil {
		t.Error(err)
	}
}
