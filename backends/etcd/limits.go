package etcd

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
)

var (
	_ driver.Limiter      = (*backend)(nil)
	_ driver.OneTaker     = (*backend)(nil)
	_ driver.MultiLimiter = (*backend)(nil)
	_ driver.Refunder     = (*backend)(nil)
)

// verdict is what becomes of a state.
type verdict int

const (
	leaveIt verdict = iota
	putIt
	deleteIt
)

// stateFunc decides on the state of a limit at a time in Unix microseconds. It changes
// the state only if it is to be put, and may be called again on another state.
type stateFunc func(s *limits.State, now int64) verdict

func putIf(dirty bool) verdict {
	if dirty {
		return putIt
	}
	return leaveIt
}

// Take implements driver.Limiter.
func (b *backend) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	if err := limits.CheckEach(l, asks); err != nil {
		return driver.Taken{}, err
	}
	var taken driver.Taken
	err := b.change(ctx, key, l, func(s *limits.State, now int64) verdict {
		var dirty bool
		taken, dirty = s.TakeEach(l, now, asks)
		return putIf(dirty)
	})
	if err != nil {
		return driver.Taken{}, err
	}
	return taken, nil
}

// TakeOne implements driver.OneTaker.
func (b *backend) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (one driver.TakenOne, err error) {
	if err := limits.Check(l, a); err != nil {
		return driver.TakenOne{}, err
	}
	err = b.change(ctx, key, l, func(s *limits.State, now int64) verdict {
		return putIf(s.TakeInto(&one, &l, now, &a))
	})
	if err != nil {
		return driver.TakenOne{}, err
	}
	return one, nil
}

// Refund implements driver.Refunder.
func (b *backend) Refund(ctx context.Context, key string, l driver.Limit, id string, n int) error {
	return b.change(ctx, key, l, func(s *limits.State, now int64) verdict {
		return putIf(s.Refund(l, now, id, n))
	})
}

// Reset implements driver.Limiter. What is not a state is left alone.
func (b *backend) Reset(ctx context.Context, key string, l driver.Limit) error {
	return b.change(ctx, key, l, func(*limits.State, int64) verdict { return deleteIt })
}

// change replaces a state by what fn makes of it.
//
// The newest state that this client has seen is decided upon, and written if the
// store still has it: one request. If it has another, the same request brings that. A
// decision that writes nothing is made on a state that was read during this call. A state of which
// nothing is known is taken for none: the first decision on a key is one request, and the first
// since its state was forgotten two.
func (b *backend) change(ctx context.Context, key string, l driver.Limit, fn stateFunc) error {
	if err := checkKey(key); err != nil {
		return err
	}
	call, done, err := b.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	c := b.limits.enter(b.names.limit(key, l))
	defer b.limits.leave(c)
	if err := take(call, c.turn); err != nil {
		return err
	}
	defer func() { <-c.turn }()
	read := false
	for defeats := 0; ; {
		guess := !c.known
		now := b.limits.now().UnixMicro()
		b.watchClock(c, l, now)
		v := fn(&c.state, now)
		if v == leaveIt || v == deleteIt && c.revision == 0 {
			if read {
				return nil
			}
			v = leaveIt
		}
		var swapped bool
		switch v {
		case putIt:
			swapped, err = b.put(call, c, l, now)
		case deleteIt:
			swapped, err = b.swap(call, []*cell{c}, []*pb.RequestOp{deletionOf([]byte(c.name))})
		default:
			err = b.load(call, c)
		}
		if err != nil || swapped {
			return err
		}
		if read = c.known; v == leaveIt || guess {
			continue // nobody was faster: we did not know the state
		}
		if err := b.limits.backOff(call, defeats); err != nil {
			return err
		}
		defeats++
	}
}

// watchClock warns of a state that is ahead of our clock, and ends one that stands still when it may.
func (b *backend) watchClock(c *cell, l driver.Limit, now int64) {
	if d, warn := b.limits.ahead.Look(&c.state, c.name, uint64(c.revision), l, now); warn {
		b.log.Warn("etcd: another client's clock is ahead of this one's: its limits deny, or grant too much, until the clocks agree", "ahead", d)
	}
}

// put writes the state of c, on a lease that lasts as long as the state says more than
// its absence. Should the server have lost the lease, nothing was written, and the
// decision is to be made again.
func (b *backend) put(ctx context.Context, c *cell, l driver.Limit, now int64) (swapped bool, err error) {
	op, err := b.putOp(ctx, c, l, now)
	if err != nil {
		c.forget()
		return false, err
	}
	swapped, err = b.swap(ctx, []*cell{c}, []*pb.RequestOp{op})
	if b.limits.leaseRefused(err) {
		return false, nil
	}
	return swapped, err
}

// putOp is the write of the state of c.
func (b *backend) putOp(ctx context.Context, c *cell, l driver.Limit, now int64) (*pb.RequestOp, error) {
	value, err := c.state.AppendBinary(nil)
	if err != nil {
		return nil, err
	}
	id, err := b.limits.lease(ctx, b, c, c.state.Expiry(l, now))
	return putOf([]byte(c.name), value, int64(id)), err
}
