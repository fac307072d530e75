package redis

import (
	"context"
	"encoding/binary"
	"math"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
)

// packed is numbers as the scripts of limits read them: doubles, little endian, which hold every integer that occurs.
type packed []byte

func (p packed) append(vs ...int64) packed {
	for _, v := range vs {
		p = binary.LittleEndian.AppendUint64(p, math.Float64bits(float64(v)))
	}
	return p
}

// packedReply is numbers as the scripts of limits reply them, likewise.
type packedReply string

func (p packedReply) at(i int) int64 {
	return int64(math.Float64frombits(binary.LittleEndian.Uint64([]byte(p[8*i : 8*i+8]))))
}

func (p packedReply) from(i int) packedReply { return p[8*i:] }

// forLimit picks the script of l's algorithm and gives the numbers that its first argument begins with.
func (b *backend) forLimit(l driver.Limit) (*script, packed) {
	p := make(packed, 0, 8*7) // room for one request
	if l.Algorithm == driver.TokenBucket {
		rate, unit := l.Refill()
		return b.limits.bucket, p.append(rate, unit, int64(l.Burst)*unit)
	}
	width, span := limits.Grid(l)
	return b.limits.window, p.append(int64(l.Rate), width, span)
}

// appendAsk adds what the scripts read of a request that is made so many times; 0: it gives permits back; -1: it is a charge. A delay beyond
// what a double holds exactly is beyond any limit too.
func (p packed) appendAsk(a driver.Ask, times int) packed {
	return p.append(int64(a.Min), int64(a.N), min(a.MaxDelay.Microseconds(), 1<<53), int64(times))
}

// alike is how many requests, from the first on, are the same: of all or nothing, at once, and
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

// newTake makes the command that asks, and says how many answers it has: asks that are alike share one. Without
// asks it asks for nothing.
func (b *backend) newTake(ctx context.Context, key string, l driver.Limit, asks ...driver.Ask) (c *command, answers int) {
	s, numbers := b.forLimit(l)
	args := append(make([]any, 0, 3), limitKey(key, l), nil)
	named := len(args)
	for i := 0; i < len(asks); answers++ {
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
	if answers == 0 {
		numbers, answers = numbers.appendAsk(driver.Ask{}, 1), 1
	}
	args[1] = []byte(numbers)
	return s.command(ctx, args[:named]...), answers
}

// newRefund makes the command that gives back.
func (b *backend) newRefund(ctx context.Context, key string, l driver.Limit, id string, n int) *command {
	s, numbers := b.forLimit(l)
	return s.command(ctx, limitKey(key, l), []byte(numbers.appendAsk(driver.Ask{N: n}, 0)), id)
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

// TakeOne implements driver.Limiter.
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

func (b *backend) take(ctx context.Context, key string, l driver.Limit, asks ...driver.Ask) (packedReply, error) {
	c, answers := b.newTake(ctx, key, l, asks...)
	return b.run(ctx, c).packed(4*answers + 2)
}

// takenOf is the answer to asks, as the reply has it.
func takenOf(reply packedReply, l driver.Limit, asks []driver.Ask) driver.Taken {
	out := driver.Taken{Asks: make([]driver.Granted, len(asks))}
	for rest := out.Asks; len(rest) > 0; {
		n := alike(asks[len(asks)-len(rest):])
		if n == 1 {
			rest[0] = grantedOf(reply, l)
		} else {
			share(rest[:n], reply, l, asks[len(asks)-len(rest)].N)
		}
		rest, reply = rest[n:], reply.from(4)
	}
	if len(asks) == 0 {
		reply = reply.from(4)
	}
	out.Remaining, out.ResetAfter = int(reply.at(0)), micros(reply.at(1))
	return out
}

// share gives each of the requests of a run, of n permits each, what the reply has for it: n to as
// many as there were permits for, in order.
func share(run []driver.Granted, reply packedReply, l driver.Limit, n int) {
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

// grantedOf is the answer to one request of l.
func grantedOf(p packedReply, l driver.Limit) driver.Granted {
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

// Refund implements driver.Limiter.
func (b *backend) Refund(ctx context.Context, key string, l driver.Limit, id string, n int) error {
	if id == "" || n <= 0 {
		return nil
	}
	return b.run(ctx, b.newRefund(ctx, key, l, id, n)).err
}

// Charge implements driver.Limiter.
func (b *backend) Charge(ctx context.Context, key string, l driver.Limit, n int) (driver.Charged, error) {
	if err := limits.CheckCharge(n); err != nil {
		return driver.Charged{}, err
	}
	reply, err := b.run(ctx, b.newCharge(ctx, key, l, n)).packed(6)
	if err != nil {
		return driver.Charged{}, err
	}
	return chargedOf(reply), nil
}

// newCharge makes the command that charges n permits, or gives -n back.
func (b *backend) newCharge(ctx context.Context, key string, l driver.Limit, n int) *command {
	s, numbers := b.forLimit(l)
	return s.command(ctx, limitKey(key, l), []byte(numbers.appendAsk(driver.Ask{N: n}, -1)))
}

// chargedOf is the answer to a charge.
func chargedOf(reply packedReply) driver.Charged {
	return driver.Charged{Remaining: int(reply.at(4)), RetryAfter: micros(reply.at(2)), ResetAfter: micros(reply.at(5))}
}

// Reset implements driver.Limiter.
func (b *backend) Reset(ctx context.Context, key string, l driver.Limit) error {
	return b.run(ctx, resetScript.command(ctx, limitKey(key, l))).err
}
