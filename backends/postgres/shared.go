package postgres

import (
	"context"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/cas"
)

// sharedKind is the kind of the cells of those who share a key.
const sharedKind = "shared"

// Shared implements driver.Sharer: those who share a key are kept as package cas does, in one cell.
func (b *backend) Shared() driver.SharedLocker { return b.shared }

// sharers implements cas.Versions.
type sharers struct{ b *backend }

// Load reads the record and the server's clock.
func (s sharers) Load(ctx context.Context, n cas.Name) (cas.Loaded[int64], error) {
	if err := s.b.swaps.wait(ctx, n.Key); err != nil {
		return cas.Loaded[int64]{}, err
	}
	read, now, err := s.b.load(ctx, []cell{{kind: sharedKind, key: n.Key}})
	if err != nil {
		return cas.Loaded[int64]{}, err
	}
	return cas.Loaded[int64]{Value: read[0].value, Version: read[0].version, Now: now}, nil
}

// CompareAndSwap writes the record.
func (s sharers) CompareAndSwap(ctx context.Context, n cas.Name, version int64, c cas.Change) (bool, error) {
	cells := []cell{{kind: sharedKind, key: n.Key, version: version, value: c.Value, keep: c.Keep}}
	r, err := s.b.swap(ctx, cells, anyTime, s.b.swaps.begin(n.Key))
	return r.swapped, err
}

// Close has nothing to close: the backend is closed by itself.
func (s sharers) Close() error { return nil }
