package call

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
)

// Options are what the calls of an adapter have in common.
type Options struct {
	// ErrClosing is the error of a call that was under way when the adapter closed: it may have been applied. Nil is a general one.
	ErrClosing error
	// Grace is how long a call goes on after the end of its context, or of the adapter, because most are over in a moment.
	Grace time.Duration
	// Down, unless it is nil, tells that no server can be reached. A call under way ends with its error, because some
	// libraries keep a request until there is a connection, however long that takes. It is asked now and then, and must not
	// block.
	Down func() error
}

// Calls are the calls of one adapter. They are safe for concurrent use.
type Calls struct {
	options Options
	life    context.Context
	end     context.CancelCauseFunc
	unused  sync.Pool // of *pending

	mu     sync.Mutex
	closed bool
	work   sync.WaitGroup // added to under mu, before closed
}

var errClosing = errors.New("closed during the call")

// New makes Calls.
func New(o Options) *Calls {
	if o.ErrClosing == nil {
		o.ErrClosing = errClosing
	}
	c := &Calls{options: o}
	c.life, c.end = context.WithCancelCause(context.Background())
	return c
}

// Life ends with Close, and Options.ErrClosing is the cause.
func (c *Calls) Life() context.Context { return c.life }

// Closed reports whether the adapter is closed.
func (c *Calls) Closed() bool { return c.life.Err() != nil }

// Ready refuses a call after Close, or after the end of ctx.
func (c *Calls) Ready(ctx context.Context) error {
	if c.Closed() {
		return driver.ErrClosed
	}
	return driver.NotSent(ctx.Err())
}

// Go runs fn in a goroutine that Wait waits for. It reports false after Close.
func (c *Calls) Go(fn func()) bool {
	begun := c.begin()
	if begun {
		go func() {
			defer c.work.Done()
			fn()
		}()
	}
	return begun
}

func (c *Calls) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.work.Add(1)
	}
	return !c.closed
}

// Pause waits for d. At the end of ctx it returns the error of a call that was not sent, and after Close driver.ErrClosed.
func (c *Calls) Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
	case <-c.life.Done():
	}
	return c.Ready(ctx)
}

// Close refuses calls from now on, and ends those under way. It reports false if Close was called before.
func (c *Calls) Close() (first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first, c.closed = !c.closed, true
	c.end(c.options.ErrClosing)
	return first
}

// Wait waits, after Close, for what still goes on, for d at most, and reports whether it is over.
func (c *Calls) Wait(d time.Duration) bool {
	over := make(chan struct{})
	go func() {
		defer close(over)
		c.work.Wait()
	}()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-over:
		return true
	case <-t.C:
		return false
	}
}
