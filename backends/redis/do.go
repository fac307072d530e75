package redis

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/call"
)

// errClosing ends the calls under way when the backend is closed. The command
// may have been sent: the outcome is unknown.
var errClosing = errors.New("redis: backend closed during the call")

// process runs cmd and returns when ctx ends at the latest. After an error of
// ctx, cmd must not be touched.
func (b *backend) process(ctx context.Context, cmd redis.Cmder) error {
	if b.cluster != nil {
		return b.processOnCluster(ctx, cmd)
	}
	if c, ok := b.client.(*redis.Client); ok {
		return b.pipeliners.of(b, c).Do(ctx, cmd)
	}
	_, err := b.do(ctx, b.client, cmd)
	return err
}

// processor is a client, or pipelines wrapped up as one command.
type processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// do runs cmd on p. finished is false if cmd was not started or still runs.
//
// go-redis gives deadlines to the connection but does not see that a ctx is
// cancelled while it waits for a reply. Under a ctx
// that can end, the command therefore runs in a goroutine, which is left behind
// when ctx ends; it ends with the deadline of ctx or the client's ReadTimeout.
func (b *backend) do(ctx context.Context, p processor, cmd redis.Cmder) (finished bool, err error) {
	if b.endsByItself(ctx, p) {
		if err := b.calls.Ready(ctx); err != nil {
			return false, err
		}
		return true, p.Process(ctx, cmd)
	}
	finished, _, err = call.DoSend(ctx, b.calls, func(c *call.Call) (bool, error) {
		if !c.Send() {
			return false, driver.ErrNotSent
		}
		return true, p.Process(ctx, cmd)
	}, nil)
	return finished, err
}

// endsByItself reports whether go-redis ends a call under ctx in time, so that it needs no goroutine of its own: a
// second goroutine costs half as much again as the command where processors are few. A Bound is not cancelled; its
// Done bounds the wait for a connection, and its deadline all that is read and written. A cluster may first look for
// its nodes, without a bound.
func (b *backend) endsByItself(ctx context.Context, p processor) bool {
	bound, ok := ctx.(*driver.Bound)
	if !ok {
		return ctx.Done() == nil
	}
	deadline, _ := bound.Deadline()
	_, node := p.(*redis.Client)
	return time.Until(deadline) <= uninterrupted && (node || b.cluster == nil)
}

// uninterrupted is the longest that a call may take which Close does not interrupt.
const uninterrupted = time.Second

// dialError: there was no connection to send anything on.
func dialError(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// noMaster: no sentinel said where the master is, and so nothing was sent.
func noMaster(err error) bool {
	return strings.Contains(err.Error(), "redis: all sentinels specified in configuration are unreachable")
}
