package cas

import (
	"context"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
)

// Take evaluates asks in order in one update.
func (b *Backend) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	if err := b.checkAsks(ctx, key, l, asks); err != nil {
		return driver.Taken{}, err
	}
	var taken driver.Taken
	err := b.updateState(ctx, key, l, func(s *limits.State, now int64) (dirty bool) {
		taken, dirty = s.TakeEach(l, now, asks)
		return dirty
	})
	if err != nil {
		return driver.Taken{}, err
	}
	return taken, nil
}

// TakeOne is Take for one ask.
func (b *Backend) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (one driver.TakenOne, err error) {
	if err := b.checkAsks(ctx, key, l, []driver.Ask{a}); err != nil {
		return driver.TakenOne{}, err
	}
	err = b.updateState(ctx, key, l, func(s *limits.State, now int64) (dirty bool) {
		one, dirty = s.Take(l, now, a)
		return dirty
	})
	if err != nil {
		return driver.TakenOne{}, err
	}
	return one, nil
}

// Refund gives back n of what the ask id was granted.
func (b *Backend) Refund(ctx context.Context, key string, l driver.Limit, id string, n int) error {
	if err := b.checkKey(ctx, key); err != nil {
		return err
	}
	return b.updateState(ctx, key, l, func(s *limits.State, now int64) (dirty bool) {
		return s.Refund(l, now, id, n)
	})
}

// Reset forgets the state of key under l. What is not a state is left alone.
func (b *Backend) Reset(ctx context.Context, key string, l driver.Limit) error {
	if err := b.checkKey(ctx, key); err != nil {
		return err
	}
	return b.cells.Update(ctx, limitName(key, l), func(old []byte, _ time.Time) (Change, error) {
		if old == nil {
			return Change{}, nil
		}
		var s limits.State
		return Change{Write: true}, s.UnmarshalBinary(old)
	})
}

// updateState runs fn on the state of key and stores it if fn says so.
func (b *Backend) updateState(ctx context.Context, key string, l driver.Limit, fn func(*limits.State, int64) (dirty bool)) error {
	return b.cells.Update(ctx, limitName(key, l), func(old []byte, t time.Time) (Change, error) {
		var s limits.State
		if old != nil {
			if err := s.UnmarshalBinary(old); err != nil {
				return Change{}, err
			}
		}
		now := t.UnixMicro()
		if !fn(&s, now) {
			return Change{}, nil
		}
		value, err := s.AppendBinary(nil)
		if err != nil {
			return Change{}, err
		}
		return Change{Write: true, Value: value, Keep: s.Expiry(l, now)}, nil
	})
}

func limitName(key string, l driver.Limit) Name {
	return Name{Kind: Limit, Key: key, State: limits.Name(l)}
}

func (b *Backend) checkAsks(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) error {
	if err := b.checkKey(ctx, key); err != nil {
		return err
	}
	return limits.CheckEach(l, asks)
}
