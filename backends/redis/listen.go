package redis

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// How the connection is kept on which the server tells of grants. What is said while it
// is away is lost: when it is there again, all who wait look for themselves.
const (
	// maxSilence is how long it says nothing before it is asked for a sign of life, and then
	// before it is given up.
	maxSilence = 5 * time.Second
	// listenFirst and listenMost are between attempts to connect, listenRefused after the
	// server has said that it will not have it.
	listenFirst   = 5 * time.Millisecond
	listenMost    = time.Second
	listenRefused = 30 * time.Second
)

// listen has a subscription until ctx ends. The channel is the client's own: on a cluster
// the nodes pass on what any of them publishes, and so one connection, to any node, hears
// of the locks in all slots.
func (l *line) listen(ctx context.Context) {
	for ctx.Err() == nil {
		pubsub := l.subscribe(ctx)
		err := l.receive(ctx, pubsub)
		_ = pubsub.Close()
		l.deaf(ctx, err)
		if l.b.pause(ctx, pauseAfter(err)) != nil {
			return
		}
	}
}

// pauseAfter is how long to pause before another subscription. A client that is closed answers
// at once: one of the application, which may close it first, or that of a node that has
// left the cluster.
func pauseAfter(err error) time.Duration {
	switch {
	case refusesPush(err):
		return listenRefused
	case errors.Is(err, redis.ErrClosed):
		return listenMost
	default:
		return 0
	}
}

// subscribe asks for the subscription, which receive finds to have succeeded or not.
func (l *line) subscribe(ctx context.Context) *redis.PubSub {
	pubsub := l.b.client.Subscribe(ctx) // does not connect
	l.mu.Lock()
	l.pubsub = pubsub
	ended := ctx.Err() != nil // then stop has not seen it
	l.mu.Unlock()
	if !ended {
		_ = pubsub.Subscribe(ctx, l.channel)
	}
	return pubsub
}

// receive takes in what the server says. After an error the client connects anew, and
// subscribes; receive returns where that is of no use: after ctx has ended, on a
// connection that gives no sign of life, and when the server refuses.
func (l *line) receive(ctx context.Context, pubsub *redis.PubSub) error {
	silent, pause := false, listenFirst
	for ctx.Err() == nil {
		said, err := pubsub.ReceiveTimeout(ctx, l.silence)
		switch said := said.(type) {
		case *redis.Message:
			l.message(said.Payload)
		case *redis.Subscription:
			l.confirmed()
		}
		switch {
		case err == nil:
			silent, pause = false, listenFirst
		case timedOut(err) && !silent && l.isUp():
			silent = true
			_ = pubsub.Ping(ctx) // what is wrong shows when nothing comes
		case timedOut(err), refusesPush(err), errors.Is(err, redis.ErrClosed):
			return err
		default:
			l.deaf(ctx, err)
			if l.b.pause(ctx, pause) != nil {
				return err
			}
			pause = min(2*pause, listenMost)
		}
	}
	return ctx.Err()
}

func timedOut(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func (l *line) isUp() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.up
}

// confirmed: from now on nothing is lost. What was said before may have been.
func (l *line) confirmed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.up = true
	l.ups++
	signal(l.asap)
}

// deaf: until the next subscription places are looked at often. A server that refuses it
// is told of once.
func (l *line) deaf(ctx context.Context, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.up = false
	signal(l.asap)
	if refusesPush(err) && !l.warned {
		l.warned = true
		l.b.options.log.WarnContext(ctx, "redis: the user may not subscribe to coord:wake:*: waiters poll", "err", err)
	}
}
