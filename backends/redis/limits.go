package redis

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
)

// packed is numbers as the scripts of limits read and reply them: doubles,
// little endian, which hold every integer that occurs.
type packed []byte

func (p packed) append(vs ...int64) packed {
	for _, v := range vs {
		p = binary.LittleEndian.AppendUint64(p, math.Float64bits(float64(v)))
	}
	return p
}

func (p packed) at(i int) int64 {
	return int64(math.Float64frombits(binary.LittleEndian.Uint64(p[8*i:])))
}

// forLimit picks the script of l's algorithm and appends the numbers that its
// first argument begins with to p.
func forLimit(p packed, l driver.Limit, bucket, window *script) (*script, packed) {
	if l.Algorithm == driver.TokenBucket {
		rate, unit := l.Refill()
		return bucket, p.append(rate, unit, int64(l.Burst)*unit)
	}
	width, span := limits.Grid(l)
	return window, p.append(int64(l.Rate), width, span)
}

// appendAsk adds what the take scripts read of an ask. A delay beyond what a
// double holds exactly is beyond any limit too.
func (p packed) appendAsk(a driver.Ask) packed {
	return p.append(int64(a.Min), int64(a.N), min(a.MaxDelay.Microseconds(), 1<<53))
}

// takeCall is a take together with the command line and the numbers of a single
// ask, in one allocation.
type takeCall struct {
	bytesCall
	argv [7]any
	buf  [48]byte
}

// newTake makes the call that asks.
func (b *backend) newTake(ctx context.Context, key string, l driver.Limit, asks ...driver.Ask) (*script, []any, *takeCall) {
	c := new(takeCall)
	s, numbers := forLimit(c.buf[:0], l, b.limits.bucketTake, b.limits.windowTake)
	named := 0 // asks up to the last that has an id
	for i, a := range asks {
		numbers = numbers.appendAsk(a)
		if a.ID != "" {
			named = i + 1
		}
	}
	state, hash := limitKeys(key, l)
	args := append(c.argv[:0], "evalsha", s.sha, s.keys, state, hash, []byte(numbers))
	for _, a := range asks[:named] {
		args = append(args, a.ID)
	}
	c.bytesCall = bytesCall{*redis.NewStringCmd(ctx, args...)}
	return s, args, c
}

// refundArgs is the command line that gives back.
func (b *backend) refundArgs(key string, l driver.Limit, id string, n int) (*script, []any) {
	s, numbers := forLimit(nil, l, b.limits.bucketRefund, b.limits.windowRefund)
	state, hash := limitKeys(key, l)
	return s, []any{"evalsha", s.sha, s.keys, state, hash, []byte(numbers.append(int64(n))), id}
}

// Take implements driver.Limiter.
func (b *backend) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	if err := limits.CheckEach(l, asks); err != nil {
		return driver.Taken{}, err
	}
	reply, err := b.take(ctx, key, l, asks...)
	if err != nil {
		return driver.Taken{}, err
	}
	out := driver.Taken{Asks: make([]driver.Granted, len(asks))}
	for i := range asks {
		out.Asks[i] = grantedOf(reply[8*4*i:])
	}
	rest := reply[8*4*len(asks):]
	out.Remaining, out.ResetAfter = int(rest.at(0)), micros(rest.at(1))
	return out, nil
}

// TakeOne implements driver.OneTaker.
func (b *backend) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (driver.TakenOne, error) {
	if err := limits.Check(l, a); err != nil {
		return driver.TakenOne{}, err
	}
	reply, err := b.take(ctx, key, l, a)
	if err != nil {
		return driver.TakenOne{}, err
	}
	return driver.TakenOne{Granted: grantedOf(reply), Remaining: int(reply.at(4)), ResetAfter: micros(reply.at(5))}, nil
}

func (b *backend) take(ctx context.Context, key string, l driver.Limit, asks ...driver.Ask) (packed, error) {
	s, args, c := b.newTake(ctx, key, l, asks...)
	return b.runBytes(ctx, s, &c.bytesCall, args, 8*(4*len(asks)+2))
}

// runBytes runs s as the call c with args, which replies with so many bytes.
func (b *backend) runBytes(ctx context.Context, s *script, c *bytesCall, args []any, want int) (packed, error) {
	err := b.process(ctx, c)
	if noScript(err) {
		c = newBytesCall(ctx, s.withSource(args))
		err = b.process(ctx, c)
	}
	if err != nil {
		return nil, classify(err)
	}
	reply := packed(c.Val())
	if len(reply) != want {
		return nil, fmt.Errorf("script replied %d bytes, want %d", len(reply), want)
	}
	return reply, nil
}

func grantedOf(p packed) driver.Granted {
	return driver.Granted{N: int(p.at(0)), Delay: micros(p.at(1)), RetryAfter: micros(p.at(2)), ValidFor: micros(p.at(3))}
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
	s, args := b.refundArgs(key, l, id, n)
	_, err := b.runArgs(ctx, s, 1, args)
	return err
}

// Reset implements driver.Limiter.
func (b *backend) Reset(ctx context.Context, key string, l driver.Limit) error {
	state, hash := limitKeys(key, l)
	_, err := b.runInts(ctx, resetScript, 1, state, hash)
	return err
}
