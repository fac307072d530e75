package redis

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// listensNotYet puts a client between its SUBSCRIBE and the answer to it: it gets no messages, and neither keeps
// places nor polls.
func listensNotYet(l *waiters) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun, l.idle = true, false
}

// listens is the answer, until the test ends.
func listens(t *testing.T, l *waiters) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	wg.Go(func() { l.heartbeats(ctx) })
	l.only.confirmed()
}

// tapped makes connections of subscribers whose reads a test changes.
type tapped struct{ subscriptions atomic.Int32 }

// dial connects. Once the client has subscribed, onRead makes the reads of the connection.
func (d *tapped) dial(ctx context.Context, network, addr string, onRead func(read func([]byte) (int, error), p []byte) (int, error)) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	return &tappedConn{Conn: conn, tapped: d, onRead: onRead}, err
}

type tappedConn struct {
	net.Conn
	*tapped
	onRead     func(read func([]byte) (int, error), p []byte) (int, error)
	subscribed atomic.Bool
}

func (c *tappedConn) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "subscribe") && c.subscribed.CompareAndSwap(false, true) {
		c.subscriptions.Add(1)
	}
	return c.Conn.Write(p)
}

func (c *tappedConn) Read(p []byte) (int, error) {
	if !c.subscribed.Load() {
		return c.Conn.Read(p)
	}
	return c.onRead(c.Conn.Read, p)
}
