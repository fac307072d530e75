package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// connections are those of the backend's own pool. Close ends them at once, whatever the server does; pgx waits for it.
type connections struct {
	dialer net.Dialer
	life   context.Context // ends with close
	end    context.CancelFunc

	mu     sync.Mutex
	open   map[*connection]struct{}
	turns  map[string]chan struct{} // by address: full while a connection is being made
	closed bool
}

func newConnections() *connections {
	cs := &connections{open: make(map[*connection]struct{}), turns: make(map[string]chan struct{})}
	cs.life, cs.end = context.WithCancel(context.Background())
	return cs
}

// connectWithin bounds how long a connection to one host is made. It is longer than calls wait for it: where many clients
// connect at once, each connection that is given up was work of the server for nothing, and leads to the next one.
const connectWithin = 5 * time.Second

// connection is one of them.
type connection struct {
	net.Conn
	of   *connections
	made func() // ends its turn: it can be used, or came to nothing
}

// dial waits for its turn, and dials. pgx also dials to cancel a statement that is late, and then waits for an answer for 15 s:
// that ends within connectWithin, too.
func (cs *connections) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, leaveWithin)
	defer cancel()
	defer context.AfterFunc(cs.life, cancel)()
	made, err := cs.turn(ctx, addr)
	if err != nil {
		return nil, err
	}
	dialed, err := cs.dialer.DialContext(ctx, network, addr)
	if err != nil {
		made()
		return nil, err
	}
	_ = dialed.SetDeadline(time.Now().Add(connectWithin)) // it fails if dialed is closed
	c := &connection{dialed, cs, made}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.closed {
		made()
		return nil, errors.Join(net.ErrClosed, dialed.Close())
	}
	cs.open[c] = struct{}{}
	return c, nil
}

// turn waits until no other connection to addr is being made: to log in is the most work of a server, and after an outage all
// clients do it. If each made all of its connections at once, a server that can't log them in within connectWithin would
// log in none: they would be given up, and begun again.
func (cs *connections) turn(ctx context.Context, addr string) (made func(), err error) {
	cs.mu.Lock()
	turn := cs.turns[addr]
	if turn == nil {
		turn = make(chan struct{}, 1)
		cs.turns[addr] = turn
	}
	cs.mu.Unlock()
	select {
	case turn <- struct{}{}:
		return sync.OnceFunc(func() { <-turn }), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("another connection to it is being made: %w", ctx.Err())
	}
}

// connected ends the turn of a connection that can be used, and its bound. It is for pgconn.Config.
func connected(_ context.Context, c *pgconn.PgConn) error {
	conn := own(c)
	conn.made()
	return conn.SetDeadline(time.Time{})
}

// own is what dial gave for c.
func own(c *pgconn.PgConn) *connection {
	conn := c.Conn()
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	return conn.(*connection)
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	c.made()
	return c.Conn.Close()
}

// leaveWithin bounds how long a connection waits for its turn and is dialled, and how long pgx takes leave of one whose
// statement did not return. Until then its place in the pool is taken.
const leaveWithin = 2 * time.Second

// SetDeadline implements net.Conn. pgx asks for 15 s when it takes leave, and otherwise for a moment that has passed, or none.
func (c *connection) SetDeadline(t time.Time) error {
	if most := time.Now().Add(leaveWithin); t.After(most) {
		t = most
	}
	return c.Conn.SetDeadline(t)
}

// close ends all connections, and makes no new ones.
func (cs *connections) close() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.closed = true
	cs.end()
	for c := range cs.open {
		_ = c.Conn.Close() // who uses it sees that it is closed
	}
}

// usable looks, for each call, whether the server has closed an idle connection, as when it restarts: what is sent on it
// would have an unknown outcome.
func usable(_ context.Context, c *pgx.Conn) (bool, error) {
	forgetWarnings(c)
	sc, ok := own(c.PgConn()).Conn.(syscall.Conn)
	return !ok || alive(sc), nil
}
