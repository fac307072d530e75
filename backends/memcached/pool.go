package memcached

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/coordgo/coord/driver"
)

// pools are the connections of a backend with clients of its own: a pool for each server, so that a
// server that does not answer delays only calls on its own keys.
type pools struct {
	servers servers
	addrs   []string         // sorted
	byAddr  map[string]*pool // by address
}

// newPools makes a pool for each server in s. The list of servers that is stored at each expires after life.
func newPools(s settings, life time.Duration, d dialer) *pools {
	ps := &pools{servers: newServers(s.url.Hosts), addrs: slices.Sorted(slices.Values(s.url.Hosts)), byAddr: make(map[string]*pool)}
	for _, srv := range ps.servers {
		p := newPool(s.pool, s.timeout, srv, d)
		p.addrs, p.list, p.life = ps.addrs, formatList(ps.addrs), life
		ps.byAddr[srv.addr] = p
	}
	return ps
}

// to returns the pool of the server that stores n.
func (ps *pools) to(n name) *pool { return ps.byAddr[ps.servers.pick(n.enc).addr] }

func (ps *pools) close() (err error) {
	for _, p := range ps.byAddr {
		err = errors.Join(err, p.close())
	}
	return err
}

// each runs fn for all servers at once, and returns the errors with the servers' names.
func (ps *pools) each(fn func(*pool) error) []error {
	errs := make([]error, len(ps.addrs))
	var wg sync.WaitGroup
	for i, addr := range ps.addrs {
		p := ps.byAddr[addr]
		wg.Go(func() { errs[i] = p.named(fn(p)) })
	}
	wg.Wait()
	return errs
}

// pool has the connections to one server, at most as many as there are slots.
type pool struct {
	addr  string
	told  atomic.Pointer[told] // what the server said when it was probed; nil before
	addrs []string             // of all servers, sorted
	list  string               // of all servers, as it is stored at this one
	life  time.Duration        // of the stored list
	seen  seen

	make  func() *conn
	slots chan struct{}

	mu     sync.Mutex
	idle   []*conn
	active map[*conn]struct{}
	closed bool
}

func newPool(size int, timeout time.Duration, s server, d dialer) *pool {
	p := &pool{addr: s.addr, slots: make(chan struct{}, size), active: make(map[*conn]struct{})}
	p.make = func() *conn {
		c := &conn{pool: p, dialer: d, client: memcache.NewFromSelector(servers{s})}
		c.client.DialContext, c.client.Timeout, c.client.MaxIdleConns = c.dial, timeout, 1
		return c
	}
	return p
}

// named adds the address of the server to an error.
func (p *pool) named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", p.addr, err)
}

// take waits for a connection. Its errors match driver.ErrNotSent or driver.ErrClosed.
func (p *pool) take(ctx context.Context, closing <-chan struct{}) (*conn, error) {
	select {
	case p.slots <- struct{}{}:
	default:
		select {
		case p.slots <- struct{}{}:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: all connections are in use: %w", driver.ErrNotSent, ctx.Err())
		case <-closing:
			return nil, driver.ErrClosed
		}
	}
	deadline, _ := ctx.Deadline()
	c, err := p.idleOrNew(deadline)
	if err != nil {
		<-p.slots
		return nil, err
	}
	if c.refresh() {
		p.seen.forget()
	}
	return c, nil
}

// idleOrNew takes an idle connection, or makes one, for a call with that deadline.
func (p *pool) idleOrNew(deadline time.Time) (*conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, driver.ErrClosed
	}
	var c *conn
	if n := len(p.idle); n > 0 {
		c = p.idle[n-1]
		p.idle = p.idle[:n-1]
	} else {
		c = p.make()
	}
	c.begin(deadline)
	p.active[c] = struct{}{}
	return c, nil
}

// give takes a connection back.
func (p *pool) give(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.active, c)
	if p.closed {
		c.discard()
	} else {
		c.idleSince = time.Now()
		p.idle = append(p.idle, c)
	}
	<-p.slots
}

// prune closes connections that no call has used since then. A server accepts a limited number of
// connections, and other clients need some.
func (p *pool) prune(since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	used := 0 // calls take the last of idle, so the first are those that were not needed
	for used < len(p.idle) && p.idle[used].idleSince.Before(since) {
		p.idle[used].discard()
		used++
	}
	p.idle = slices.Delete(p.idle, 0, used)
}

// drop closes idle connections.
func (p *pool) drop() (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.idle {
		if failed := c.client.Close(); err == nil {
			err = failed
		}
	}
	p.idle = nil
	return err
}

// close ends the calls in progress and closes all connections.
func (p *pool) close() error {
	p.mu.Lock()
	p.closed = true
	for c := range p.active {
		c.abort()
	}
	p.mu.Unlock()
	return p.drop()
}
