package memcached

import (
	"bufio"
	"context"
	"net"
	"sync"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

// conn is a gomemcache client with one connection, used by one call at a time.
//
// gomemcache takes no context. A client of its own lets a call end at once: by a deadline on the
// client's only connection. A goroutine for each call would do the same, and cost half as much
// again as the six commands of a lock. The connection leads to one server, so that a cas goes to the
// process that answered the gets.
type conn struct {
	pool   *pool
	client *memcache.Client
	dialer dialer

	idleSince time.Time // guarded by pool.mu

	mu       sync.Mutex
	deadline time.Time // of the call; zero: none
	aborted  bool
	dialled  bool               // in this call
	socket   *socket            // in use, or last used
	cancel   context.CancelFunc // ends a dial in progress
}

// socket is a network connection that keeps to the deadline of the call that uses it.
type socket struct {
	net.Conn
	owner *conn
}

// past is a deadline that ends all I/O.
var past = time.Unix(1, 0)

// SetDeadline is called by gomemcache before each command. The call's own deadline counts if it
// is earlier.
func (s *socket) SetDeadline(t time.Time) error {
	c := s.owner
	c.mu.Lock()
	defer c.mu.Unlock()
	c.socket = s
	switch {
	case c.aborted:
		t = past
	case !c.deadline.IsZero() && c.deadline.Before(t):
		t = c.deadline
	}
	return s.Conn.SetDeadline(t)
}

// dial is the DialContext of the client.
func (c *conn) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.mu.Lock()
	deadline := c.deadline
	c.cancel, c.dialled = cancel, true
	if c.aborted {
		cancel()
	}
	c.mu.Unlock()
	if !deadline.IsZero() {
		var stop context.CancelFunc
		ctx, stop = context.WithDeadline(ctx, deadline)
		defer stop()
	}
	dialed, err := c.dialer.dial(ctx, network, addr)
	c.mu.Lock()
	c.cancel = nil
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return &socket{dialed, c}, nil
}

// begin prepares c for a call.
func (c *conn) begin(deadline time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline, c.aborted, c.dialled = deadline, false, false
}

// abort ends the call at once.
func (c *conn) abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.aborted = true
	if c.socket != nil {
		// It fails only if the connection is broken already.
		_ = c.socket.Conn.SetDeadline(past)
	}
	if c.cancel != nil {
		c.cancel()
	}
}

func (c *conn) gone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.aborted
}

// wasIdle reports whether the call has a connection that was there before it.
func (c *conn) wasIdle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.dialled
}

// raw runs fn on the socket of the last command, for commands that gomemcache does not have.
// After an error the socket is closed, so that a late answer is not taken for that of the next command.
func (c *conn) raw(fn func(net.Conn, *bufio.Reader) error) error {
	c.mu.Lock()
	s := c.socket
	c.mu.Unlock()
	if s == nil {
		return net.ErrClosed
	}
	err := s.SetDeadline(time.Now().Add(c.client.Timeout))
	if err == nil {
		err = fn(s, bufio.NewReader(s))
	}
	if err != nil {
		c.discard()
	}
	return err
}

// discard closes the socket. It is not used again, so that an error of Close changes nothing.
func (c *conn) discard() { _ = c.client.Close() }

// refresh closes a socket that broke while it was idle, as after a restart of the server, so
// that the next call dials again. A command sent on it would have an unknown outcome.
func (c *conn) refresh() (closed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.socket == nil || alive(c.socket.Conn) {
		return false
	}
	c.discard()
	c.socket = nil
	return true
}
