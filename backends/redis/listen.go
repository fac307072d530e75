package redis

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// The connection on which the server sends messages. Messages are lost while there is no connection. After it is made
// again, all waiters ask.
const (
	// maxSilence is the time without a message after which the server is pinged, and after as long again the
	// connection is closed.
	maxSilence = 5 * time.Second
	// listenFirst and listenMost are pauses between attempts to connect, listenRefused after the
	// server has refused the subscription.
	listenFirst   = 5 * time.Millisecond
	listenMost    = time.Second
	listenRefused = 30 * time.Second
)

// listen keeps the subscription until ctx ends, or the node has left the cluster.
func (s *subscription) listen(ctx context.Context) {
	for ctx.Err() == nil {
		pubsub := s.node.Subscribe(ctx)                               // does not connect
		stop := context.AfterFunc(ctx, func() { _ = pubsub.Close() }) // ends a read
		_ = pubsub.Subscribe(ctx, s.channel)                          // receive gets the answer
		err := s.receive(ctx, pubsub)
		stop()
		_ = pubsub.Close()
		s.failed(ctx, err)
		if s.addr != "" && errors.Is(err, redis.ErrClosed) {
			s.waiters.lose(s)
			return
		}
		if s.waiters.b.calls.Pause(ctx, pauseAfter(err)) != nil {
			return
		}
	}
}

// pauseAfter is how long to pause before another subscription. A client that is closed answers
// at once: the application may close its own first.
func pauseAfter(err error) time.Duration {
	switch {
	case refused(err):
		return listenRefused
	case errors.Is(err, redis.ErrClosed):
		return listenMost
	default:
		return 0
	}
}

// receive handles the messages. After an error the client connects and subscribes again. receive returns when that does
// not help: after the end of ctx, on a connection that does not answer a ping, and when the server refuses.
func (s *subscription) receive(ctx context.Context, pubsub *redis.PubSub) error {
	silent, pause := false, listenFirst
	for ctx.Err() == nil {
		said, err := pubsub.ReceiveTimeout(ctx, s.waiters.silence)
		switch said := said.(type) {
		case *redis.Message:
			s.message(said.Payload)
		case *redis.Subscription:
			s.confirmed()
		}
		switch {
		case err == nil:
			silent, pause = false, listenFirst
		case timedOut(err) && !silent && s.isUp():
			silent = true
			_ = pubsub.Ping(ctx) // if no answer comes, the next time-out ends the connection
		case timedOut(err), refused(err), errors.Is(err, redis.ErrClosed):
			return err
		default:
			s.failed(ctx, err)
			if s.waiters.b.calls.Pause(ctx, pause) != nil {
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

func (s *subscription) isUp() bool {
	s.waiters.mu.Lock()
	defer s.waiters.mu.Unlock()
	return s.up
}

// confirmed records that the subscription is in force. Messages before that may have been lost.
func (s *subscription) confirmed() {
	s.waiters.mu.Lock()
	defer s.waiters.mu.Unlock()
	s.up = true
	s.ups++
	signal(s.waiters.refreshNow)
}

// failed records that there is no subscription. Heartbeats are frequent until there is one. If the server refuses it, a
// warning is logged once.
func (s *subscription) failed(ctx context.Context, err error) {
	s.waiters.mu.Lock()
	defer s.waiters.mu.Unlock()
	s.up = false
	signal(s.waiters.refreshNow)
	if refused(err) && !s.waiters.warned {
		s.waiters.warned = true
		s.waiters.b.options.log.WarnContext(ctx, "redis: the user may not subscribe to coord:wake:*: waiters poll", "err", err)
	}
}
