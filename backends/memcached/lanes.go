package memcached

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/coordgo/coord/driver"
)

// A lane is a gomemcache client for one call at a time. gomemcache knows no contexts; but a client
// that only one call uses has its connections to itself, and so a call can be ended where it
// stands: by a deadline on its connection. That takes no goroutine, which would cost half as much
// again as the six commands of a lock. Besides, a lane has one connection, to one server, so a
// cas goes to the very process that answered the gets.
type lane struct {
	pool   *pool
	client *memcache.Client
	dialer dialer

	idleSince time.Time // guarded by pool.mu

	mu       sync.Mutex
	deadline time.Time // of the call; zero: none
	aborted  bool
	conn     *laneConn          // in use, or last used
	cancel   context.CancelFunc // ends a dial under way
}

// laneConn is a connection that minds the deadline of its lane's call.
type laneConn struct {
	net.Conn
	lane *lane
}

// past is a deadline that ends all I/O.
var past = time.Unix(1, 0)

// SetDeadline is what gomemcache calls before each command. The call's own deadline counts if it
// is earlier.
func (c *laneConn) SetDeadline(t time.Time) error {
	l := c.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = c
	switch {
	case l.aborted:
		t = past
	case !l.deadline.IsZero() && l.deadline.Before(t):
		t = l.deadline
	}
	return c.Conn.SetDeadline(t)
}

// dial is the DialContext of the lane's client.
func (l *lane) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.mu.Lock()
	deadline := l.deadline
	l.cancel = cancel
	if l.aborted {
		cancel()
	}
	l.mu.Unlock()
	if !deadline.IsZero() {
		var stop context.CancelFunc
		ctx, stop = context.WithDeadline(ctx, deadline)
		defer stop()
	}
	conn, err := l.dialer.dial(ctx, network, addr)
	l.mu.Lock()
	l.cancel = nil
	l.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return &laneConn{conn, l}, nil
}

// begin gives the lane to a call.
func (l *lane) begin(deadline time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deadline, l.aborted = deadline, false
}

// abort ends the call where it stands, for good.
func (l *lane) abort() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.aborted = true
	if l.conn != nil {
		// A connection that cannot be told is broken already.
		_ = l.conn.Conn.SetDeadline(past)
	}
	if l.cancel != nil {
		l.cancel()
	}
}

func (l *lane) gone() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.aborted
}

// raw runs fn on the connection that the last command was made on, for commands that gomemcache does not
// have. After an error the connection is closed: an answer that comes on it yet is not the next command's.
func (l *lane) raw(fn func(net.Conn, *bufio.Reader) error) error {
	l.mu.Lock()
	conn := l.conn
	l.mu.Unlock()
	if conn == nil {
		return net.ErrClosed
	}
	err := conn.SetDeadline(time.Now().Add(l.client.Timeout))
	if err == nil {
		err = fn(conn, bufio.NewReader(conn))
	}
	if err != nil {
		// It is of no use any more, whatever closing it says.
		_ = l.client.Close()
	}
	return err
}

// fresh closes a connection that was found dead while the lane was idle, as after a restart of the
// server, so that the call to come dials anew. What was sent on it would have an unknown outcome.
func (l *lane) fresh() (closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil || alive(l.conn.Conn) {
		return false
	}
	// It is of no use any more, whatever closing it says.
	_ = l.client.Close()
	l.conn = nil
	return true
}

// lanes are those of a backend with its own clients: a pool for each server, so that one which
// does not answer holds up nothing but its own names.
type lanes struct {
	servers servers
	addrs   []string         // sorted
	pools   map[string]*pool // by address
}

// newLanes makes the pools of the servers in s. Their lists of servers live for life.
func newLanes(s settings, life time.Duration, d dialer) *lanes {
	ls := &lanes{servers: newServers(s.url.Hosts), addrs: slices.Sorted(slices.Values(s.url.Hosts)), pools: make(map[string]*pool)}
	for _, srv := range ls.servers {
		p := newPool(s.pool, s.timeout, srv, d)
		p.addrs, p.list, p.life = ls.addrs, formatList(ls.addrs), life
		ls.pools[srv.addr] = p
	}
	return ls
}

// to is the pool of the server of that name.
func (ls *lanes) to(n name) *pool { return ls.pools[ls.servers.pick(n.enc).addr] }

func (ls *lanes) close() (err error) {
	for _, p := range ls.pools {
		err = errors.Join(err, p.close())
	}
	return err
}

// each runs fn for all servers at once, and gives the errors with the servers' names.
func (ls *lanes) each(fn func(*pool) error) []error {
	errs := make([]error, len(ls.addrs))
	var wg sync.WaitGroup
	for i, addr := range ls.addrs {
		p := ls.pools[addr]
		wg.Go(func() { errs[i] = p.named(fn(p)) })
	}
	wg.Wait()
	return errs
}

// pool has the lanes to one server, at most as many as there are slots.
type pool struct {
	addr  string
	about atomic.Pointer[about] // what the server told when it was probed; nil before
	addrs []string              // of all servers, sorted
	list  string                // what the server keeps of them
	life  time.Duration         // for which it does
	seen  seen

	make  func() *lane
	slots chan struct{}

	mu     sync.Mutex
	idle   []*lane
	active map[*lane]struct{}
	closed bool
}

func newPool(size int, timeout time.Duration, s server, d dialer) *pool {
	p := &pool{addr: s.addr, slots: make(chan struct{}, size), active: make(map[*lane]struct{})}
	p.make = func() *lane {
		l := &lane{pool: p, dialer: d, client: memcache.NewFromSelector(servers{s})}
		l.client.DialContext, l.client.Timeout, l.client.MaxIdleConns = l.dial, timeout, 1
		return l
	}
	return p
}

// named says of which server an error is.
func (p *pool) named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", p.addr, err)
}

// take waits for a lane. Its errors say that nothing was sent.
func (p *pool) take(ctx context.Context, closing <-chan struct{}) (*lane, error) {
	select {
	case p.slots <- struct{}{}:
	default:
		select {
		case p.slots <- struct{}{}:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: all connections are in use: %w", driver.ErrNotSent, ended(ctx))
		case <-closing:
			return nil, driver.ErrClosed
		}
	}
	deadline, _ := ctx.Deadline()
	l, err := p.board(deadline)
	if err != nil {
		<-p.slots
		return nil, err
	}
	if l.fresh() {
		p.seen.forget()
	}
	return l, nil
}

// board takes an idle lane or makes one, for a call with that deadline.
func (p *pool) board(deadline time.Time) (*lane, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, driver.ErrClosed
	}
	var l *lane
	if n := len(p.idle); n > 0 {
		l = p.idle[n-1]
		p.idle = p.idle[:n-1]
	} else {
		l = p.make()
	}
	l.begin(deadline)
	p.active[l] = struct{}{}
	return l, nil
}

// give takes a lane back.
func (p *pool) give(l *lane) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.active, l)
	if p.closed {
		// Close has said what there was to say.
		_ = l.client.Close()
	} else {
		l.idleSince = time.Now()
		p.idle = append(p.idle, l)
	}
	<-p.slots
}

// prune closes the connections that no call has used since then. A server has places for so many
// connections, and other clients want some.
func (p *pool) prune(since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	used := 0 // calls take the last of idle, so the first are those that nobody needs
	for used < len(p.idle) && p.idle[used].idleSince.Before(since) {
		// It is of no use any more, whatever closing it says.
		_ = p.idle[used].client.Close()
		used++
	}
	p.idle = slices.Delete(p.idle, 0, used)
}

// drop closes idle connections.
func (p *pool) drop() (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.idle {
		if failed := l.client.Close(); err == nil {
			err = failed
		}
	}
	p.idle = nil
	return err
}

// close ends the calls under way and closes all connections.
func (p *pool) close() error {
	p.mu.Lock()
	p.closed = true
	for l := range p.active {
		l.abort()
	}
	p.mu.Unlock()
	return p.drop()
}

// ride runs fn on a lane of p, here and now.
func ride[T any](ctx context.Context, b *backend, p *pool, fn func(*call) (T, error)) (v T, err error) {
	c, err := b.beginOn(ctx, p)
	if err != nil {
		return v, err
	}
	defer c.end()
	v, err = fn(c)
	return v, b.outcome(ctx, err)
}

// beginOn begins a call on a lane of p, which end gives back.
func (b *backend) beginOn(ctx context.Context, p *pool) (*call, error) {
	l, err := p.take(ctx, b.closing)
	if err != nil {
		return nil, err
	}
	c := &call{b: b, client: l.client, lane: l}
	if _, bound := ctx.(*driver.Bound); !bound && ctx.Done() != nil {
		aborted := make(chan struct{})
		c.aborted, c.stop = aborted, context.AfterFunc(ctx, func() {
			l.abort()
			close(aborted)
		})
	}
	return c, nil
}

// end gives the lane of a call back.
func (c *call) end() {
	if c.stop != nil && !c.stop() {
		<-c.aborted // before the lane is another call's
	}
	c.lane.pool.give(c.lane)
}

// outcome adds to the error of a command on a lane that ctx or the backend has ended.
func (b *backend) outcome(ctx context.Context, err error) error {
	switch {
	case err == nil || answered(err):
		return err
	case b.closed():
		return fmt.Errorf("%w: %v", errClosing, err)
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done() // its timer is as late as ours
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %v", ended(ctx), err)
	}
	return err
}

// answered reports whether err is what the store says, and not that it does not.
func answered(err error) bool {
	return driver.Definite(err) && !errors.Is(err, driver.ErrNotSent)
}
