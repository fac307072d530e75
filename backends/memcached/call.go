package memcached

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/coordgo/coord/driver"
	calls "github.com/coordgo/coord/driver/call"
)

var (
	// errClosing ends the calls under way when the backend is closed. What was sent may have
	// been applied: the outcome is unknown.
	errClosing = errors.New("memcached: backend closed during the call")
	// errGone ends the rest of a call whose caller has gone.
	errGone = errors.New("memcached: the call was given up")
)

// call is one call of the driver. It sends a few commands to memcached. One goroutine uses it; only
// gone is safe for concurrent use.
type call struct {
	b      *backend
	client *memcache.Client
	conn   *conn       // nil over the application's client
	in     *calls.Call // over that, if the caller may leave
	// stop and aborted belong to the context that ends the call on conn; nil if none does.
	stop    func() bool
	aborted <-chan struct{}
	// touched: a command that changes the lock was sent, and not refused. From then on no error
	// is definite by itself.
	touched bool
	// readAt is when an item was last asked for.
	readAt time.Time
	// undo takes back what was done for a caller that left; nil if there is nothing.
	undo func()
}

// run calls fn, which works on n. It returns when ctx ends or the backend is closed, at the latest.
//
// A backend with clients of its own takes a connection for the call. A command on the application's client
// cannot be ended, so that fn runs in a goroutine there, and run leaves it behind when ctx ends. The
// goroutine stops at its next command, takes back what it did (call.undo), and ends within a few Timeouts of
// the client. A ctx that never ends needs no goroutine: Timeout bounds the call.
func run[T any](ctx context.Context, b *backend, n name, fn func(*call) (T, error)) (v T, err error) {
	if err := b.calls.Ready(ctx); err != nil {
		return v, err
	}
	if b.pools != nil {
		return runOn(ctx, b, b.pools.to(n), fn)
	}
	c := &call{b: b, client: b.client}
	if ctx.Done() == nil {
		return fn(c)
	}
	v, _, err = calls.DoSend(ctx, b.calls, func(in *calls.Call) (T, error) {
		c.in = in
		return fn(c)
	}, func(T, error) {
		if c.undo != nil {
			c.undo()
		}
	})
	return v, err
}

// runOn calls fn on a connection of p, in this goroutine.
func runOn[T any](ctx context.Context, b *backend, p *pool, fn func(*call) (T, error)) (v T, err error) {
	c, err := b.beginOn(ctx, p)
	if err != nil {
		return v, err
	}
	defer c.end()
	v, err = fn(c)
	return v, b.outcome(ctx, err)
}

// beginOn begins a call on a connection of p. end gives the connection back.
func (b *backend) beginOn(ctx context.Context, p *pool) (*call, error) {
	conn, err := p.take(ctx, b.calls.Life().Done())
	if err != nil {
		return nil, err
	}
	c := &call{b: b, client: conn.client, conn: conn}
	if _, bound := ctx.(*driver.Bound); !bound && ctx.Done() != nil {
		aborted := make(chan struct{})
		c.aborted, c.stop = aborted, context.AfterFunc(ctx, func() {
			conn.abort()
			close(aborted)
		})
	}
	return c, nil
}

// end gives the connection of a call back.
func (c *call) end() {
	if c.stop != nil && !c.stop() {
		<-c.aborted // before another call uses the connection
	}
	c.conn.pool.give(c.conn)
}

// outcome adds the reason to the error of a command that ctx or Close has ended. That error may be of another context, which
// was made for a dial, and is not matched.
func (b *backend) outcome(ctx context.Context, err error) error {
	switch {
	case err == nil || answered(err):
		return err
	case b.calls.Closed():
		return fmt.Errorf("%w: %v", errClosing, err)
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done() // its timer is as late as ours
	}
	if ctx.Err() == nil {
		return err
	}
	why := ctx.Err()
	if errors.Is(err, driver.ErrNotSent) {
		why = driver.NotSent(why)
	}
	return fmt.Errorf("%w: %v", why, err)
}

// answered reports whether err is what the store says, and not that it does not.
func answered(err error) bool {
	return driver.Definite(err) && !errors.Is(err, driver.ErrNotSent)
}

// The commands of a call. None is sent for a caller who has gone. ErrCacheMiss, ErrNotStored and
// ErrCASConflict are answers, and given as they are.

func (c *call) gone() bool {
	if c.conn != nil {
		return c.conn.gone()
	}
	return c.in != nil && c.in.Left()
}

// send reports whether a command may be sent that changes something.
func (c *call) send() bool {
	if c.in != nil {
		return c.in.Send()
	}
	return !c.gone()
}

// givenUp is the error of a command that is not sent, because the caller has gone.
func (c *call) givenUp() error {
	if c.touched {
		return errGone
	}
	return notSent(errGone)
}

// get reads an item with its cas id.
func (c *call) get(key string) (*memcache.Item, error) {
	if c.gone() {
		return nil, c.givenUp()
	}
	item, err := c.read(key)
	if err != nil && !answer(err) && !c.touched {
		return nil, notSent(err) // it only reads
	}
	return item, err
}

// add and cas change the lock.
func (c *call) add(item *memcache.Item) error {
	return c.change(func() error { return c.client.Add(item) })
}

func (c *call) cas(item *memcache.Item) error {
	if c.stale() {
		return memcache.ErrCASConflict
	}
	return c.change(func() error { return c.client.CompareAndSwap(item) })
}

// stale reports whether the item that was read is too old for a compare-and-swap. A server that restarts counts
// cas ids from 1 again, so that another item can get the id that was read. A connection of our own breaks when
// its server restarts. Connections of an application's client cannot be told apart: there a read is valid
// for as long as the three commands between it and the swap can take.
func (c *call) stale() bool {
	if c.conn != nil {
		return false
	}
	timeout := c.client.Timeout
	if timeout == 0 {
		timeout = memcache.DefaultTimeout
	}
	return time.Since(c.readAt) > 3*timeout
}

func (c *call) change(command func() error) error {
	if !c.send() {
		return c.givenUp()
	}
	err := command()
	c.noteBroken(err)
	switch {
	case err == nil:
		c.touched = true
	case answer(err):
	case refused(err):
		if !c.touched {
			return notSent(err)
		}
	default:
		c.touched = true
	}
	return err
}

// read is get, once more if a connection broke that was there before the call: it may have been dead for long, since
// the server restarted. Only reads are ever sent again.
func (c *call) read(key string) (*memcache.Item, error) {
	c.readAt = time.Now()
	item, err := c.client.Get(key)
	if c.noteBroken(err) && !c.gone() && (c.conn == nil || c.conn.wasIdle()) {
		item, err = c.client.Get(key)
	}
	return item, err
}

// noteBroken reports whether a connection was found dead. The idle ones beside it are likely to
// be dead too, and are closed, unless they are the application's.
func (c *call) noteBroken(err error) bool {
	if err == nil || answer(err) {
		return false
	}
	broken := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	if broken && c.conn != nil {
		// They are of no use any more, whatever closing them says.
		_ = c.conn.pool.drop()
		c.conn.pool.seen.forget()
	}
	return broken
}

// answer reports whether err is the server's no, and not a failure.
func answer(err error) bool {
	return err == memcache.ErrCacheMiss || err == memcache.ErrNotStored || err == memcache.ErrCASConflict
}

// refused reports whether the server has certainly not applied the command: there was no
// connection to send it on, or the server said that it would not.
func refused(err error) bool {
	var connect *memcache.ConnectTimeoutError
	var op *net.OpError
	switch {
	case errors.As(err, &connect), errors.As(err, &op) && op.Op == "dial":
		return true
	case errors.Is(err, memcache.ErrNoServers), errors.Is(err, memcache.ErrMalformedKey), errors.Is(err, errLogin), errors.Is(err, errNoMeta):
		return true
	}
	// gomemcache quotes an answer that it does not know.
	text := err.Error()
	for _, no := range []string{"SERVER_ERROR out of memory", "SERVER_ERROR object too large", "CLIENT_ERROR unauthenticated", "ERROR Too many open connections"} {
		if strings.Contains(text, `"`+no) {
			return true
		}
	}
	return false
}

func notSent(err error) error {
	switch {
	case driver.Definite(err):
		return err
	case strings.Contains(err.Error(), "CLIENT_ERROR unauthenticated"):
		err = fmt.Errorf("the server asks for a user and a password: give them, as in memcached://user:password@host: %w", err)
	}
	return driver.NotSent(err)
}
