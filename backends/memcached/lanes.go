package memcached

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/coordgo/coord/driver"
)

// A lane is a gomemcache client for one call at a time. gomemcache knows no contexts; but a client
// that only one call uses has its connections to itself, and so a call can be ended where it
// stands: by a deadline on its connection. That takes no goroutine, which would cost half as much
// again as the six commands of a lock. Besides, a lane has one connection to each server, so a
// cas goes to the very process that answered the gets.
type lane struct {
	client *memcache.Client
	dialer dialer

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

// lanes are the lanes of a backend with its own client, at most as many as there are slots.
type lanes struct {
	make  func() *lane
	slots chan struct{}

	mu     sync.Mutex
	idle   []*lane
	active map[*lane]struct{}
	closed bool
}

func newLanes(size int, timeout time.Duration, selector memcache.ServerSelector, d dialer) *lanes {
	return &lanes{
		slots:  make(chan struct{}, size),
		active: make(map[*lane]struct{}),
		make: func() *lane {
			l := &lane{dialer: d, client: memcache.NewFromSelector(selector)}
			l.client.DialContext, l.client.Timeout, l.client.MaxIdleConns = l.dial, timeout, 1
			return l
		},
	}
}

// take waits for a lane. Its errors say that nothing was sent.
func (ls *lanes) take(ctx context.Context, closing <-chan struct{}) (*lane, error) {
	select {
	case ls.slots <- struct{}{}:
	default:
		select {
		case ls.slots <- struct{}{}:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: all connections are in use: %w", driver.ErrNotSent, ended(ctx))
		case <-closing:
			return nil, driver.ErrClosed
		}
	}
	deadline, _ := ctx.Deadline()
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.closed {
		<-ls.slots
		return nil, driver.ErrClosed
	}
	var l *lane
	if n := len(ls.idle); n > 0 {
		l = ls.idle[n-1]
		ls.idle = ls.idle[:n-1]
	} else {
		l = ls.make()
	}
	l.begin(deadline)
	ls.active[l] = struct{}{}
	return l, nil
}

// give takes a lane back.
func (ls *lanes) give(l *lane) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	delete(ls.active, l)
	if ls.closed {
		// Close has said what there was to say.
		_ = l.client.Close()
	} else {
		ls.idle = append(ls.idle, l)
	}
	<-ls.slots
}

// drop closes idle connections.
func (ls *lanes) drop() (err error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, l := range ls.idle {
		if failed := l.client.Close(); err == nil {
			err = failed
		}
	}
	ls.idle = nil
	return err
}

// close ends the calls under way and closes all connections.
func (ls *lanes) close() error {
	ls.mu.Lock()
	ls.closed = true
	for l := range ls.active {
		l.abort()
	}
	ls.mu.Unlock()
	return ls.drop()
}

// ride runs fn on a lane, here and now.
func ride[T any](ctx context.Context, b *backend, fn func(*call) (T, error)) (v T, err error) {
	l, err := b.lanes.take(ctx, b.closing)
	if err != nil {
		return v, err
	}
	defer b.lanes.give(l)
	if _, bound := ctx.(*driver.Bound); !bound && ctx.Done() != nil {
		aborted := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			l.abort()
			close(aborted)
		})
		defer func() {
			if !stop() {
				<-aborted // before the lane is another call's
			}
		}()
	}
	v, err = fn(&call{b: b, client: l.client, lane: l})
	switch {
	case err == nil || answered(err):
		return v, err
	case b.closed():
		return v, fmt.Errorf("%w: %v", errClosing, err)
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done() // its timer is as late as ours
	}
	if ctx.Err() != nil {
		return v, fmt.Errorf("%w: %v", ended(ctx), err)
	}
	return v, err
}

// answered reports whether err is what the store says, and not that it does not.
func answered(err error) bool {
	return driver.Definite(err) && !errors.Is(err, driver.ErrNotSent)
}
