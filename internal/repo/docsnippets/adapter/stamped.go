package adapter

import (
	"context"
	"fmt"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/cas"
)

// stamped is versions for a store that shows its clock only by the time that it puts on
// what it writes.
type stamped struct {
	versions
	clock *cas.Clock
}

// longest is the slowest round trip that the store's clock is learned from.
const longest = 20 * time.Millisecond

// NewStamped opens the store at addr.
func NewStamped(addr string, claims driver.Claims) driver.Backend {
	s := stamped{versions{newClient(addr)}, new(cas.Clock)}
	info := driver.Info{Name: "kv-stamped", Claims: claims}
	return cas.New(info, cas.Optimistic(s), cas.WithSkew(2*longest+10*time.Millisecond))
}

// Load reads a cell.
func (s stamped) Load(ctx context.Context, n cas.Name) (cas.Loaded[uint64], error) {
	loaded, err := s.versions.Load(ctx, n)
	if err == nil {
		loaded.Now, err = s.now(ctx)
	}
	return loaded, err
}

// now is the store's clock.
func (s stamped) now(ctx context.Context) (time.Time, error) {
	for {
		if now, known := s.clock.Now(); known {
			return now, nil
		}
		sent := time.Now()
		stamp, err := s.stamp(ctx)
		came := time.Now()
		switch {
		case err != nil:
			return time.Time{}, err
		case came.Sub(sent) <= longest:
			s.clock.Learn(sent, came, stamp, 0)
		case ctx.Err() != nil:
			return time.Time{}, fmt.Errorf("the store's clock: %w", ctx.Err())
		}
	}
}

// stamp asks the store for a time.
func (s stamped) stamp(ctx context.Context) (time.Time, error) {
	r, err := s.get(ctx, "clock")
	return r.Now, err
}
