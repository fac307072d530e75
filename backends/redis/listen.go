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

// listen has a subscription until ctx ends, or the node has left the cluster.
func (s *subscription) listen(ctx context.Context) {
	for ctx.Err() == nil {
		pubsub := s.subscribe(ctx)
		err := s.receive(ctx, pubsub)
		_ = pubsub.Close()
		s.failed(ctx, err)
		if s.addr != "" && errors.Is(err, redis.ErrClosed) {
			s.line.lose(s)
			return
		}
		if s.line.b.pause(ctx, pauseAfter(err)) != nil {
			return
		}
	}
}

// pauseAfter is how long to pause before another subscription. A client that is closed answers
// at once: the application may close its own first.
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
func (s *subscription) subscribe(ctx context.Context) *redis.PubSub {
	pubsub := s.node.Subscribe(ctx) // does not connect
	s.line.mu.Lock()
	s.pubsub = pubsub
	ended := ctx.Err() != nil // then stop has not seen it
	s.line.mu.Unlock()
	if !ended {
		_ = pubsub.Subscribe(ctx, s.channel)
	}
	return pubsub
}

// receive takes in what the server says. After an error the client connects anew, and
// subscribes; receive returns where that is of no use: after ctx has ended, on a
// connection that gives no sign of life, and when the server refuses.
func (s *subscription) receive(ctx context.Context, pubsub *redis.PubSub) error {
	silent, pause := false, listenFirst
	for ctx.Err() == nil {
		said, err := pubsub.ReceiveTimeout(ctx, s.line.silence)
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
			_ = pubsub.Ping(ctx) // what is wrong shows when nothing comes
		case timedOut(err), refusesPush(err), errors.Is(err, redis.ErrClosed):
			return err
		default:
			s.failed(ctx, err)
			if s.line.b.pause(ctx, pause) != nil {
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
	s.line.mu.Lock()
	defer s.line.mu.Unlock()
	return s.up
}

// confirmed: from now on nothing is lost. What was said before may have been.
func (s *subscription) confirmed() {
	s.line.mu.Lock()
	defer s.line.mu.Unlock()
	s.up = true
	s.ups++
	signal(s.line.asap)
}

// failed: until the next subscription places are looked at often. A server that refuses it
// is told of once.
func (s *subscription) failed(ctx context.Context, err error) {
	s.line.mu.Lock()
	defer s.line.mu.Unlock()
	s.up = false
	signal(s.line.asap)
	if refusesPush(err) && !s.line.warned {
		s.line.warned = true
		s.line.b.options.log.WarnContext(ctx, "redis: the user may not subscribe to coord:wake:*: waiters poll", "err", err)
	}
}
