package cas

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
	"github.com/coordgo/coord/driver/optimistic"
)

// Backend is a driver.Backend over cells. Use New.
type Backend struct {
	optimistic.Limiter

	info   driver.Info
	cells  Cells
	skew   time.Duration
	ahead  limits.Ahead
	closed atomic.Bool
	close  func() error
}

var _ driver.Backend = (*Backend)(nil)

// New makes a backend of cells. info is what Info answers; its claims are the
// store's to make. Close of the backend closes the cells.
func New(info driver.Info, cells Cells, opts ...Option) *Backend {
	b := &Backend{info: info, cells: cells, close: sync.OnceValue(cells.Close)}
	b.Limiter = optimistic.NewLimiter(b.updateState)
	for _, opt := range opts {
		opt(b)
	}
	return b
}

// Info describes the store.
func (b *Backend) Info() driver.Info {
	info := b.info
	info.Claims = slices.Clone(info.Claims)
	return info
}

// Close closes the cells. Later calls answer ErrClosed.
func (b *Backend) Close() error {
	b.closed.Store(true)
	return b.close()
}

// Ping makes a round trip, if the cells, or the versions that they are made of,
// have a method Ping, too.
func (b *Backend) Ping(ctx context.Context) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	return ping(ctx, b.cells)
}

func ping(ctx context.Context, store any) error {
	if p, ok := store.(interface{ Ping(context.Context) error }); ok {
		return p.Ping(ctx)
	}
	return nil
}

// Describe tells how the cells, or the versions that they are made of, describe
// themselves: nothing, if they have no method Describe.
func (b *Backend) Describe(ctx context.Context) (map[string]string, error) {
	if err := b.ready(ctx); err != nil {
		return nil, err
	}
	return describe(ctx, b.cells)
}

func describe(ctx context.Context, store any) (map[string]string, error) {
	if d, ok := store.(interface {
		Describe(context.Context) (map[string]string, error)
	}); ok {
		return d.Describe(ctx)
	}
	return nil, nil
}

// ready refuses a call that comes after Close or after the end of ctx.
func (b *Backend) ready(ctx context.Context) error {
	if b.closed.Load() {
		return driver.ErrClosed
	}
	if ctx.Err() != nil {
		return driver.NotSent(ctx.Err())
	}
	return nil
}
