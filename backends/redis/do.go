package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
)

// errClosing ends the calls under way when the backend is closed. The command
// may have been sent: the outcome is unknown.
var errClosing = errors.New("redis: backend closed during the call")

// spare is what a call needs for a moment.
type spare struct {
	results    sync.Pool // of channels for one result each, empty while in the pool
	timers     sync.Pool // of stopped timers, whose channels are empty
	passengers sync.Pool
}

func (s *spare) result() chan error {
	if c, ok := s.results.Get().(chan error); ok {
		return c
	}
	return make(chan error, 1)
}

func (s *spare) timer(d time.Duration) *time.Timer {
	if t, ok := s.timers.Get().(*time.Timer); ok {
		t.Reset(d)
		return t
	}
	return time.NewTimer(d)
}

func (s *spare) stop(t *time.Timer) {
	t.Stop()
	s.timers.Put(t)
}

func (s *spare) passenger() *passenger {
	if p, ok := s.passengers.Get().(*passenger); ok {
		return p
	}
	return &passenger{result: make(chan error, 1)}
}

// process runs cmd and returns when ctx ends at the latest. After an error of
// ctx, cmd must not be touched.
func (b *backend) process(ctx context.Context, cmd redis.Cmder) error {
	if b.cluster != nil {
		return b.processOnCluster(ctx, cmd)
	}
	if c, ok := b.client.(*redis.Client); ok {
		return b.gates.of(b, c).process(ctx, cmd)
	}
	_, err := b.fly(ctx, b.client, cmd)
	return err
}

// processor is a client, or a pipeline wrapped up as one command.
type processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// fly runs cmd on p. landed is false if cmd was not started or still runs.
//
// go-redis gives deadlines to the connection but does not see that a ctx is
// cancelled while it waits for a reply. Under a ctx
// that can end, the command therefore runs in a goroutine, which is left behind
// when ctx ends; it ends with the deadline of ctx or the client's ReadTimeout.
func (b *backend) fly(ctx context.Context, p processor, cmd redis.Cmder) (landed bool, err error) {
	if b.closed() {
		return false, driver.ErrClosed
	}
	if bound, ok := ctx.(*driver.Bound); ok {
		return b.flyBound(bound, p, cmd)
	}
	if ctx.Done() == nil {
		return true, p.Process(ctx, cmd)
	}
	if err := ctx.Err(); err != nil {
		return false, fmt.Errorf("%w: %w", driver.ErrNotSent, err)
	}
	result := b.spare.result()
	go land(ctx, p, cmd, result)
	select {
	case err := <-result:
		b.spare.results.Put(result)
		return true, err
	case <-ctx.Done():
		// The result has no reader any more: the channel is not reused.
		return false, ctx.Err()
	case <-b.closing:
		return false, errClosing
	}
}

// flyBound is fly for a ctx that has a deadline and is not cancelled. go-redis ends a short
// call with it: its Done bounds the wait for a connection, and its deadline all that is read
// and written. So the call runs here: a second goroutine costs half as much again as the
// command where processors are few. A cluster may first look for its nodes, without a bound.
func (b *backend) flyBound(bound *driver.Bound, p processor, cmd redis.Cmder) (landed bool, err error) {
	deadline, _ := bound.Deadline()
	left := time.Until(deadline)
	if left <= 0 {
		return false, fmt.Errorf("%w: %w", driver.ErrNotSent, context.DeadlineExceeded)
	}
	if _, node := p.(*redis.Client); left <= inline && (node || b.cluster == nil) {
		return true, p.Process(bound, cmd)
	}
	timer := b.spare.timer(left)
	defer b.spare.stop(timer)
	result := b.spare.result()
	go land(quiet{bound}, p, cmd, result)
	select {
	case err := <-result:
		b.spare.results.Put(result)
		return true, err
	case <-timer.C:
		return false, context.DeadlineExceeded
	case <-b.closing:
		return false, errClosing
	}
}

// inline is the longest that a call may take which Close does not interrupt.
const inline = time.Second

// quiet is a Bound for go-redis, which needs the deadline and only looks at Done in passing.
type quiet struct{ *driver.Bound }

func (quiet) Done() <-chan struct{} { return nil }

func land(ctx context.Context, p processor, cmd redis.Cmder, result chan<- error) {
	result <- p.Process(ctx, cmd)
}

// dialError: there was no connection to send anything on.
func dialError(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// noMaster: no sentinel said where the master is, and so nothing was sent.
func noMaster(err error) bool {
	return strings.Contains(err.Error(), "redis: all sentinels specified in configuration are unreachable")
}
