package adapter

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/cas"
	"github.com/coordgo/coord/internal/repo/docsnippets/adapter/kv"
)

// lasting is versions for a store that never forgets a value by itself. Each value begins
// with the time, in Unix microseconds, until which it has to be kept.
type lasting struct{ versions }

// forever stands for a store without expiry.
const forever = 100 * 365 * 24 * time.Hour

// NewLasting opens the store at addr.
func NewLasting(addr string) driver.Backend {
	l := lasting{versions{newClient(addr)}}
	return cas.New(driver.Info{Name: "kv-lasting", Claims: Claims}, cas.Optimistic(l))
}

// CompareAndSwap puts the time before the value.
func (l lasting) CompareAndSwap(ctx context.Context, n cas.Name, revision uint64, c cas.Change) (bool, error) {
	if c.Value != nil {
		until := uint64(time.Now().Add(c.Keep).UnixMicro())
		c.Value = append(binary.BigEndian.AppendUint64(nil, until), c.Value...)
		c.Keep = forever
	}
	return l.versions.CompareAndSwap(ctx, n, revision, c)
}

// Load takes it off again.
func (l lasting) Load(ctx context.Context, n cas.Name) (cas.Loaded[uint64], error) {
	loaded, err := l.versions.Load(ctx, n)
	if err != nil || loaded.Value == nil {
		return loaded, err
	}
	if len(loaded.Value) < 8 {
		return loaded, fmt.Errorf("%w: value of %d bytes", driver.ErrCorrupt, len(loaded.Value))
	}
	loaded.Value = loaded.Value[8:]
	return loaded, nil
}

// slack is by how much clocks may disagree about what is over.
const slack = time.Hour

// sweep removes key if it says no more than its absence. It is removed at the revision that was
// read, so that a value which was written meanwhile stays.
func (l lasting) sweep(ctx context.Context, key string) error {
	r, err := l.get(ctx, key)
	if err != nil || len(r.Value) < 8 {
		return err
	}
	until := time.UnixMicro(int64(binary.BigEndian.Uint64(r.Value)))
	if time.Since(until) < slack {
		return nil
	}
	_, err = l.c.call(ctx, kv.Request{Op: "swap", Key: key, Revision: r.Revision})
	return err
}
