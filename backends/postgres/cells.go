package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/coordgo/coord/driver"
)

// cell is a row of the table cells: the state of a limit, or those who share a key.
type cell struct {
	kind, key, name string
	version         int64  // 0: there is none
	value           []byte // nil if there is none
	keep            time.Duration
	same            bool // for swap: only compare the version
}

// span is the times of the server's clock at which a swap is made.
type span struct{ from, to pgtype.Timestamptz }

// anyTime is always.
var anyTime = span{
	pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true},
	pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true},
}

// load reads cells into cs, and gives the server's clock.
func (b *backend) load(ctx context.Context, cs []cell) (read []cell, now time.Time, err error) {
	type answer struct {
		read []cell
		now  int64
	}
	a, err := run(ctx, b, func(ctx context.Context, c conn) (answer, error) {
		var a answer
		var version int64
		var value []byte
		kinds, keys, names := columns(cs)
		sent := time.Now()
		err := c.rows(ctx, b.sql.load, []any{kinds, keys, names}, []any{&version, hexed{&value}, &a.now}, func() error {
			has := cs[len(a.read)]
			has.version, has.value = version, value
			a.read = append(a.read, has)
			return nil
		})
		if err == nil {
			b.clock.learn(sent, time.UnixMicro(a.now))
		}
		return a, notSent(err)
	})
	if errors.Is(err, driver.ErrNotHeld) { // there are no tables yet
		a.read = cs
		a.now, err = b.askClock(ctx)
	}
	return a.read, time.UnixMicro(a.now), err
}

// askClock gives the server's clock.
func (b *backend) askClock(ctx context.Context) (int64, error) {
	return run(ctx, b, func(ctx context.Context, c conn) (now int64, err error) {
		_, err = c.row(ctx, expand("SELECT {now}"), nil, &now)
		return now, notSent(err)
	})
}

// swapResult is what a swap gives: the versions that were written, or what the server has, unless several cells were
// to be swapped, or one came too late; and the server's clock.
type swapResult struct {
	swapped bool
	cells   []cell
	now     time.Time
}

// swap writes cells, all or none, if the server still has the versions that they say, and its clock is within at.
func (b *backend) swap(ctx context.Context, cs []cell, at span) (swapResult, error) {
	gets := make([]int64, len(cs))
	for i, c := range cs {
		if gets[i] = c.version; !c.same {
			gets[i] = 1 + rand.Int64N(1<<62) // never the same again, whatever was lost meanwhile
		}
	}
	if err := b.beReady(ctx); err != nil {
		return swapResult{}, err
	}
	r, err := run(ctx, b, func(ctx context.Context, c conn) (swapResult, error) {
		if len(cs) == 1 && !cs[0].same {
			return b.swapOne(ctx, c, cs[0], gets[0], at)
		}
		return b.swapAll(ctx, c, cs, gets, at)
	})
	if r.swapped {
		b.sweep()
	}
	return r, err
}

func (b *backend) swapOne(ctx context.Context, c conn, s cell, gets int64, at span) (r swapResult, err error) {
	var has, now int64
	var value []byte
	sent := time.Now()
	_, err = c.row(ctx, b.sql.swap, []any{s.kind, []byte(s.key), s.name, s.version, gets, s.value, ceil(s.keep), at.from, at.to},
		&r.swapped, &has, hexed{&value}, &now)
	if sqlState(err) == refusedSwap {
		return swapResult{}, nil
	}
	if err != nil {
		return swapResult{}, err
	}
	r.now = time.UnixMicro(now)
	b.clock.learn(sent, r.now)
	if r.swapped {
		s.version = gets
	} else {
		s.version, s.value = has, value
	}
	r.cells = []cell{s}
	return r, nil
}

// refusedSwap is the SQLSTATE by which the functions refuse a swap without reading the cells.
const refusedSwap = "CO003"

func (b *backend) swapAll(ctx context.Context, c conn, cs []cell, gets []int64, at span) (r swapResult, err error) {
	kinds, keys, names := columns(cs)
	var had []int64
	var values [][]byte
	var keeps []time.Duration
	for _, c := range cs {
		had, values, keeps = append(had, c.version), append(values, c.value), append(keeps, ceil(c.keep))
	}
	var now int64
	sent := time.Now()
	_, err = c.row(ctx, b.sql.swapAll, []any{kinds, keys, names, had, gets, values, keeps, at.from, at.to}, &now)
	if sqlState(err) == refusedSwap {
		return swapResult{}, nil
	}
	if err != nil {
		return swapResult{}, err
	}
	r = swapResult{swapped: true, cells: slices.Clone(cs), now: time.UnixMicro(now)}
	b.clock.learn(sent, r.now)
	for i := range cs {
		r.cells[i].version = gets[i]
	}
	return r, nil
}

// columns gives what names cells, as the statements want it.
func columns(cs []cell) (kinds []string, keys [][]byte, names []string) {
	for _, c := range cs {
		kinds, keys, names = append(kinds, c.kind), append(keys, []byte(c.key)), append(names, c.name)
	}
	return kinds, keys, names
}
