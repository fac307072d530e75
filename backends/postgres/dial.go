package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// connections are those of the backend's own pool. Close ends them at once, whatever the server does; pgx waits for it.
type connections struct {
	dialer net.Dialer
	life   context.Context // ends with close
	end    context.CancelFunc

	mu     sync.Mutex
	open   map[*connection]struct{}
	closed bool
}

func newConnections() *connections {
	cs := &connections{open: make(map[*connection]struct{})}
	cs.life, cs.end = context.WithCancel(context.Background())
	return cs
}

// connectWithin bounds how long a connection to one host is made. It is longer than calls wait for it: where many clients
// connect at once, each connection that is given up was work of the server for nothing, and leads to the next one.
const connectWithin = 5 * time.Second

// connection is one of them.
type connection struct {
	net.Conn
	of *connections
}

func (cs *connections) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, leaveWithin)
	defer cancel()
	defer context.AfterFunc(cs.life, cancel)()
	dialed, err := cs.dialer.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &connection{dialed, cs}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.closed {
		return nil, errors.Join(net.ErrClosed, dialed.Close())
	}
	cs.open[c] = struct{}{}
	return c, nil
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// leaveWithin bounds how long a connection is dialled, and how long pgx takes leave of one whose statement did not return.
// Until then its place in the pool is taken.
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
	conn := c.PgConn().Conn()
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	if ours, ok := conn.(*connection); ok {
		if sc, ok := ours.Conn.(syscall.Conn); ok {
			return alive(sc), nil
		}
	}
	return true, nil
}
