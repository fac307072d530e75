package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
)

// errClosing ends the calls under way when the backend is closed. The command
// may have been sent: the outcome is unknown.
var errClosing = errors.New("redis: backend closed during the call")

// results are channels for one result each, empty while in the pool.
var results = sync.Pool{New: func() any { return make(chan error, 1) }}

// process runs cmd and returns when ctx ends at the latest. After an error of
// ctx, cmd must not be touched.
func (b *backend) process(ctx context.Context, cmd redis.Cmder) error {
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
// cancelled while it waits for a reply, and a deadline does not bound the
// handshake of a new connection with a server that has stopped. A ctx that can
// end, be it a driver.Bound, therefore gets the command run in a goroutine, which is left behind when ctx ends; it
// ends with the deadline of ctx or the client's ReadTimeout.
func (b *backend) fly(ctx context.Context, p processor, cmd redis.Cmder) (landed bool, err error) {
	if b.closed() {
		return false, driver.ErrClosed
	}
	if ctx.Done() == nil {
		return true, p.Process(ctx, cmd)
	}
	if err := ctx.Err(); err != nil {
		return false, fmt.Errorf("%w: %w", driver.ErrNotSent, err)
	}
	result := results.Get().(chan error)
	go land(ctx, p, cmd, result)
	select {
	case err := <-result:
		results.Put(result)
		return true, err
	case <-ctx.Done():
		// The result has no reader any more: the channel is not reused.
		return false, ctx.Err()
	case <-b.closing:
		return false, errClosing
	}
}

func land(ctx context.Context, p processor, cmd redis.Cmder, result chan<- error) {
	result <- p.Process(ctx, cmd)
}

// dialError: there was no connection to send anything on.
func dialError(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
