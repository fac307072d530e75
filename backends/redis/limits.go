package redis

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
)

// limitArgs is the first part of the command line of a take or a refund: the
// script, its keys, and what it has to know of the limit. More arguments follow.
func (b *backend) limitArgs(take bool, key string, l driver.Limit, more int) (*script, []any) {
	state, hash := limitKeys(key, l)
	var s *script
	var p1, p2, p3 int64
	if l.Algorithm == driver.TokenBucket {
		s = b.limits.bucketTake
		if !take {
			s = b.limits.bucketRefund
		}
		p1, p2 = l.Refill()
		p3 = int64(l.Burst) * p2
	} else {
		s = b.limits.windowTake
		if !take {
			s = b.limits.windowRefund
		}
		width, span := limits.Grid(l)
		p1, p2, p3 = int64(l.Rate), width, span
	}
	args := make([]any, 0, 8+more)
	args = append(args, "evalsha", s.sha, s.keys, state, hash, p1, p2, p3)
	return s, args
}

// appendAsk adds what the take scripts read of an ask. A delay beyond what a
// double holds exactly is beyond any limit too.
func appendAsk(args []any, a driver.Ask) []any {
	ahead := min(a.MaxDelay.Microseconds(), 1<<53)
	return append(args, int64(a.Min), int64(a.N), ahead, a.ID)
}

// Take implements driver.Limiter.
func (b *backend) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	s, args := b.limitArgs(true, key, l, 4*len(asks))
	for _, a := range asks {
		if err := limits.Check(l, a); err != nil {
			return driver.Taken{}, err
		}
		args = appendAsk(args, a)
	}
	reply, err := b.takeReply(ctx, s, args, len(asks))
	if err != nil {
		return driver.Taken{}, err
	}
	out := driver.Taken{Asks: make([]driver.Granted, len(asks))}
	for i := range asks {
		out.Asks[i] = grantedOf(reply[4*i:])
	}
	rest := reply[4*len(asks):]
	out.Remaining, out.ResetAfter = int(rest[0]), micros(rest[1])
	return out, nil
}

// TakeOne implements driver.OneTaker.
func (b *backend) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (driver.TakenOne, error) {
	if err := limits.Check(l, a); err != nil {
		return driver.TakenOne{}, err
	}
	s, args := b.limitArgs(true, key, l, 4)
	reply, err := b.takeReply(ctx, s, appendAsk(args, a), 1)
	if err != nil {
		return driver.TakenOne{}, err
	}
	return driver.TakenOne{Granted: grantedOf(reply), Remaining: int(reply[4]), ResetAfter: micros(reply[5])}, nil
}

func (b *backend) takeReply(ctx context.Context, s *script, args []any, asks int) ([]int64, error) {
	reply, err := b.runInts(ctx, s, 0, args)
	if err != nil {
		return nil, err
	}
	if want := 4*asks + 2; len(reply) != want {
		return nil, fmt.Errorf("script replied %d numbers, want %d", len(reply), want)
	}
	return reply, nil
}

func grantedOf(reply []int64) driver.Granted {
	return driver.Granted{N: int(reply[0]), Delay: micros(reply[1]), RetryAfter: micros(reply[2]), ValidFor: micros(reply[3])}
}

// micros converts a duration in microseconds, saturating.
func micros(us int64) time.Duration {
	if us > math.MaxInt64/int64(time.Microsecond) {
		return math.MaxInt64
	}
	return time.Duration(us) * time.Microsecond
}

// Refund implements driver.Refunder.
func (b *backend) Refund(ctx context.Context, key string, l driver.Limit, id string, n int) error {
	if id == "" || n <= 0 {
		return nil
	}
	s, args := b.limitArgs(false, key, l, 2)
	_, err := b.runInts(ctx, s, 1, append(args, id, int64(n)))
	return err
}

// Reset implements driver.Limiter.
func (b *backend) Reset(ctx context.Context, key string, l driver.Limit) error {
	state, hash := limitKeys(key, l)
	return classify(b.process(ctx, newDel(ctx, state, hash)))
}
