package cas

import (
	"context"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/optimistic"
)

// Versions is a store with a read and a compare-and-swap. V is the store's
// mark of one version of a cell: a revision, a version, a cas id.
type Versions[V any] interface {
	// Load reads a cell. An error of Load never changed anything.
	Load(ctx context.Context, name Name) (Loaded[V], error)
	// CompareAndSwap makes the change if the cell still has the version that
	// was loaded, and reports whether it did. False is definite: the cell had
	// another version. The errors follow the rule of package driver.
	CompareAndSwap(ctx context.Context, name Name, loaded V, c Change) (swapped bool, err error)
	// Close gives back what the store opened. It is called once.
	Close() error
}

// Loaded is a cell as it was read.
type Loaded[V any] struct {
	// Value is nil if there is no cell.
	Value []byte
	// Version marks it, or marks its absence.
	Version V
	// Now is the store's clock, or the client's where the store has none.
	Now time.Time
}

// Optimistic makes cells of v: it reads, decides, swaps, and begins again when
// another client was faster, with growing random pauses, until ctx ends.
func Optimistic[V any](v Versions[V]) Cells { return &optimisticCells[V]{v: v} }

type optimisticCells[V any] struct {
	v       Versions[V]
	backoff optimistic.Backoff
}

func (o *optimisticCells[V]) Update(ctx context.Context, name Name, fn Func) error {
	for defeats := 0; ; defeats++ {
		cell, err := o.v.Load(ctx, name)
		if err != nil {
			return driver.NotSent(err)
		}
		change, err := fn(cell.Value, cell.Now)
		if err != nil || !change.Write {
			return err
		}
		sent := time.Now()
		swapped, err := o.v.CompareAndSwap(ctx, name, cell.Version, change)
		if err != nil || swapped {
			return err
		}
		o.backoff.Observe(time.Since(sent))
		if err := o.backoff.Pause(ctx, defeats); err != nil {
			return err
		}
	}
}

// Describe is that of what the cells are made of.
func (o *optimisticCells[V]) Describe(ctx context.Context) (map[string]string, error) {
	return describe(ctx, o.v)
}

func (o *optimisticCells[V]) Ping(ctx context.Context) error { return ping(ctx, o.v) }

func (o *optimisticCells[V]) Close() error { return o.v.Close() }
