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

// appendAsk adds what the scripts read of an ask that is made so many times. A delay beyond
// what a double holds exactly is beyond any limit too.
func (p packed) appendAsk(a driver.Ask, times int) packed {
	return p.append(int64(a.Min), int64(a.N), min(a.MaxDelay.Microseconds(), 1<<53), int64(times))
}

// alike is how many asks, from the first on, are the same: of all or nothing, at once, and
// without an id. The scripts decide on them in one step.
func alike(asks []driver.Ask) int {
	first, n := asks[0], 1
	if first.N > 0 && first.Min == first.N && first.MaxDelay == 0 && first.ID == "" {
		for n < len(asks) && asks[n] == first {
			n++
		}
	}
	return n
}

// takeCall is a take together with the command line and the numbers of a single
// ask, in one allocation.
type takeCall struct {
	bytesCall
	argv [6]any
	buf  [56]byte
	runs int // asks that are not alike
}

// newTake makes the call that asks; of no asks it is one for nothing.
func (b *backend) newTake(ctx context.Context, key string, l driver.Limit, asks ...driver.Ask) (*script, []any, *takeCall) {
	c := new(takeCall)
	s, numbers := forLimit(c.buf[:0], l, b.limits.bucketTake, b.limits.windowTake)
	args := append(c.argv[:0], "evalsha", s.sha, s.keys, limitKey(key, l), nil)
	named := len(args)
	for i := 0; i < len(asks); c.runs++ {
		n := alike(asks[i:])
		numbers = numbers.appendAsk(asks[i], n)
		if len(asks) > 1 || asks[i].ID != "" {
			args = append(args, asks[i].ID)
		}
		if asks[i].ID != "" {
			named = len(args)
		}
		i += n
	}
	if c.runs == 0 {
		numbers, c.runs = numbers.appendAsk(driver.Ask{}, 1), 1
	}
	args[4] = []byte(numbers)
	args = args[:named]
	c.bytesCall = bytesCall{*redis.NewStringCmd(ctx, args...)}
	return s, args, c
}

// refundArgs is the command line that gives back.
func (b *backend) refundArgs(key string, l driver.Limit, id string, n int) (*script, []any) {
	s, numbers := forLimit(nil, l, b.limits.bucketRefund, b.limits.windowRefund)
	return s, []any{"evalsha", s.sha, s.keys, limitKey(key, l), []byte(numbers.appendAsk(driver.Ask{N: n}, 1)), id}
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
	return takenOf(reply, l, asks), nil
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
	return driver.TakenOne{Granted: grantedOf(reply, l), Remaining: int(reply.at(4)), ResetAfter: micros(reply.at(5))}, nil
}

func (b *backend) take(ctx context.Context, key string, l driver.Limit, asks ...driver.Ask) (packed, error) {
	s, args, c := b.newTake(ctx, key, l, asks...)
	return b.runBytes(ctx, s, &c.bytesCall, args, 8*(4*c.runs+2))
}

// takenOf is the answer to asks, as the reply has it.
func takenOf(reply packed, l driver.Limit, asks []driver.Ask) driver.Taken {
	out := driver.Taken{Asks: make([]driver.Granted, len(asks))}
	for rest := out.Asks; len(rest) > 0; {
		n := alike(asks[len(asks)-len(rest):])
		if n == 1 {
			rest[0] = grantedOf(reply, l)
		} else {
			share(rest[:n], reply, l, asks[len(asks)-len(rest)].N)
		}
		rest, reply = rest[n:], reply[8*4:]
	}
	if len(asks) == 0 {
		reply = reply[8*4:]
	}
	out.Remaining, out.ResetAfter = int(reply.at(0)), micros(reply.at(1))
	return out
}

// share gives each of the asks of a run, of n permits each, what the reply has for it: n to as
// many as there were permits for, in order.
func share(run []driver.Granted, reply packed, l driver.Limit, n int) {
	granted, retry, valid := int(reply.at(0))/n, micros(reply.at(2)), reply.at(3)
	rate, unit := int64(1), int64(0)
	if l.Algorithm == driver.TokenBucket {
		rate, unit = l.Refill()
	}
	for i := range run {
		if i < granted {
			run[i].N = n
			if valid >= 0 {
				run[i].ValidFor = micros((valid + int64(i)*int64(n)*unit) / rate)
			}
		} else {
			run[i] = driver.Granted{RetryAfter: retry}
		}
	}
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

// grantedOf is the answer to one ask of l.
func grantedOf(p packed, l driver.Limit) driver.Granted {
	g := driver.Granted{N: int(p.at(0)), Delay: micros(p.at(1)), RetryAfter: micros(p.at(2))}
	valid := max(p.at(3), 0)
	if valid > 0 && g.Delay == 0 && l.Algorithm == driver.TokenBucket {
		rate, _ := l.Refill()
		valid /= rate
	}
	g.ValidFor = micros(valid)
	return g
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
	_, err := b.runInts(ctx, resetScript, 1, limitKey(key, l))
	return err
}
