package cas

import (
	"context"
	"hash/maphash"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
	"github.com/coordgo/coord/driver/optimistic"
)

// updateState implements optimistic.Update. A state that says no more than its absence is removed.
func (b *Backend) updateState(ctx context.Context, key string, c optimistic.Change) error {
	if err := b.checkKey(ctx, key); err != nil {
		return err
	}
	name := limitName(key, c.Limit)
	return b.cells.Update(ctx, name, func(old []byte, t time.Time) (Change, error) {
		var s limits.State
		if old != nil {
			if err := s.UnmarshalBinary(old); err != nil {
				return Change{}, err
			}
		}
		now := t.UnixMicro()
		// A clock that was wrong may have made the state. It is the same as before if nothing was granted since.
		b.ahead.Look(&s, name.State+" "+key, maphash.Bytes(versions, old), c.Limit, now)
		if !c.Apply(&s, now) {
			return Change{}, nil
		}
		keep := s.Expiry(c.Limit, now)
		if keep == 0 {
			return Change{Write: true}, nil
		}
		value, err := s.AppendBinary(nil)
		if err != nil {
			return Change{}, err
		}
		return Change{Write: true, Value: value, Keep: keep}, nil
	})
}

// versions makes a version of a state.
var versions = maphash.MakeSeed()

func limitName(key string, l driver.Limit) Name {
	return Name{Kind: Limit, Key: key, State: limits.Name(l)}
}
