package optimistic_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
	"github.com/coordgo/coord/driver/optimistic"
)

// The limits of clients that decide on what they saw last, and that others may have changed meanwhile.
func TestConformance(t *testing.T) {
	conformance.RunInFakeTime(t, func(conformance.TB) conformance.Harness {
		s := &server{revision: make(map[string]int64), values: make(map[string][]byte)}
		return conformance.Harness{
			Open:   func(conformance.TB) driver.Backend { return newDistant(s) },
			Claims: distantClaims,
		}
	})
}

var distantClaims = driver.Claims{
	driver.AtomicMulti, driver.NoEviction, driver.ServerClock, driver.Reserve, driver.Charge, driver.ScopeProcess,
}

// distant is a backend a millisecond away from its server.
type distant struct {
	optimistic.Limiter
	*adapter
	closed atomic.Bool
}

func newDistant(s *server) *distant {
	d := &distant{adapter: newAdapter(s)}
	d.Limiter = optimistic.NewLimiter(func(ctx context.Context, key string, c optimistic.Change) error {
		return d.table.Do(ctx, d, key+" "+limits.Name(c.Limit), c)
	})
	return d
}

func (d *distant) Info() driver.Info { return driver.Info{Name: "distant", Claims: distantClaims} }

func (d *distant) Close() error {
	d.closed.Store(true)
	return nil
}

// request makes one request, which takes its time.
func (d *distant) request(ctx context.Context, serve func()) error {
	const oneWay = time.Millisecond / 2
	switch {
	case d.closed.Load():
		return driver.ErrClosed
	case ctx.Err() != nil:
		return driver.NotSent(ctx.Err())
	}
	time.Sleep(oneWay)
	serve()
	time.Sleep(oneWay)
	return nil
}

func (d *distant) Load(ctx context.Context, cells []*optimistic.Cell[int64], latest bool) (err error) {
	if refused := d.request(ctx, func() { err = d.adapter.Load(ctx, cells, latest) }); refused != nil {
		return refused
	}
	return err
}

func (d *distant) Swap(ctx context.Context, cells []*optimistic.Cell[int64], now int64) (swapped bool, err error) {
	if refused := d.request(ctx, func() { swapped, err = d.adapter.Swap(ctx, cells, now) }); refused != nil {
		return false, refused
	}
	return swapped, err
}

func (d *distant) TakeAll(ctx context.Context, demands []driver.Demand) ([]driver.Taken, error) {
	return d.takeAll(ctx, d, demands)
}
