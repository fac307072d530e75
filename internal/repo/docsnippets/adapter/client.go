package adapter

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/repo/docsnippets/adapter/kv"
)

// client speaks to the server: one call at a time on a connection, as many connections as
// there are calls under way.
type client struct {
	addr string
	life context.Context // ends with Close
	end  context.CancelFunc

	mu   sync.Mutex
	idle []*conn
}

type conn struct {
	net.Conn
	in  *gob.Decoder
	out *gob.Encoder
}

// timeout bounds a call whose ctx does not end earlier.
const timeout = 5 * time.Second

func newClient(addr string) *client {
	c := &client{addr: addr}
	c.life, c.end = context.WithCancel(context.Background())
	return c
}

// call makes one exchange, once.
func (c *client) call(ctx context.Context, r kv.Request) (reply kv.Reply, err error) {
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cn, err := c.take(bounded)
	if err != nil {
		// Nothing was sent: that is certain, and worth saying.
		return reply, driver.NotSent(ended(ctx, err))
	}
	// The end of ctx, and Close, break the call off, whatever the network does.
	abort := func() { _ = cn.SetDeadline(time.Unix(1, 0)) }
	stopCtx, stopLife := context.AfterFunc(bounded, abort), context.AfterFunc(c.life, abort)
	if err = cn.out.Encode(r); err == nil {
		err = cn.in.Decode(&reply)
	}
	inTime, open := stopCtx(), stopLife()
	if err == nil && inTime && open {
		c.put(cn)
		return reply, nil
	}
	// The connection may still bring the reply to this call: no other call may read it.
	_ = cn.Close()
	if err != nil {
		c.drop() // connections that are as old are likely to be as dead
		return kv.Reply{}, ended(ctx, err)
	}
	return reply, nil
}

// ended adds to err that ctx has ended.
func ended(ctx context.Context, err error) error {
	if ctx.Err() == nil || errors.Is(err, ctx.Err()) {
		return err
	}
	return fmt.Errorf("%w: %w", ctx.Err(), err)
}

// take gives an idle connection, or a new one.
func (c *client) take(ctx context.Context) (*conn, error) {
	c.mu.Lock()
	if n := len(c.idle); n > 0 {
		defer c.mu.Unlock()
		cn := c.idle[n-1]
		c.idle = c.idle[:n-1]
		return cn, nil
	}
	c.mu.Unlock()
	if c.life.Err() != nil {
		return nil, driver.ErrClosed
	}
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return nil, err
	}
	return &conn{nc, gob.NewDecoder(nc), gob.NewEncoder(nc)}, nil
}

// put makes a connection idle.
func (c *client) put(cn *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.Err() != nil {
		_ = cn.Close()
		return
	}
	c.idle = append(c.idle, cn)
}

// drop closes the idle connections.
func (c *client) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cn := range c.idle {
		_ = cn.Close()
	}
	c.idle = nil
}

func (c *client) close() {
	c.end()
	c.drop()
}
