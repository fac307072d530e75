package postgres

import (
	"context"
	"sync/atomic"
)

// sweepEach is after how many grants a page of each table is looked through for rows that are over: the more rows are
// made, the more are removed, and a client that does nothing sends nothing.
const sweepEach = 100

// sweeper removes rows whose time is over, in the order of their keys.
type sweeper struct {
	grants atomic.Int64
	busy   atomic.Bool
	// The last keys of the pages before; used by whoever is busy.
	lock []byte
	cell cell
}

// sweep looks through one page of rows of each table, now and then, in the background.
func (b *backend) sweep() {
	s := &b.sweeper
	if s.grants.Add(1)%sweepEach != 0 || !s.busy.CompareAndSwap(false, true) {
		return
	}
	if !b.enter() {
		return
	}
	go func() {
		defer b.calls.Done()
		defer s.busy.Store(false)
		last, err := run(b.life, b, func(ctx context.Context, c conn) (last []byte, err error) {
			_, err = c.row(ctx, b.sql.sweepLocks, []any{s.lock}, hexed{&last})
			return last, err
		})
		if err == nil {
			s.lock = last // nil after the last page: then it begins anew
		}
		after, err := run(b.life, b, func(ctx context.Context, c conn) (after cell, err error) {
			var key []byte
			_, err = c.row(ctx, b.sql.sweepCells, []any{[]byte(s.cell.key), s.cell.kind, s.cell.name}, hexed{&key}, &after.kind, &after.name)
			after.key = string(key)
			return after, err
		})
		if err == nil {
			s.cell = after
		}
	}()
}
