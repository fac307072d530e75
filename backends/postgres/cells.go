package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// cell is a row of the table cells: the state of a limit, or those who share a key.
type cell struct {
	kind, key, name string
	version         int64  // 0: there is none
	value           []byte // nil if there is none
	keep            time.Duration
}

// load reads cells into cs, and gives the server's clock.
func (b *backend) load(ctx context.Context, cs []cell) (read []cell, now time.Time, err error) {
	type answer struct {
		read []cell
		now  int64
	}
	a, err := run(ctx, b, func(ctx context.Context, c conn) (answer, error) {
		a := answer{read: slices.Clone(cs)}
		var n, version int64
		var value []byte
		kinds, keys, names := columns(cs)
		err := c.rows(ctx, b.sql.load, []any{kinds, keys, names}, []any{&n, &version, &value, &a.now}, func() error {
			a.read[n-1].version, a.read[n-1].value = version, value
			value = nil // the next row must not write to it
			return nil
		})
		return a, notSent(err)
	})
	return a.read, time.UnixMicro(a.now), err
}

// swap writes cells, all or none, if the server still has the versions that they say, and gives their new ones. It calls over
// as runWithin does.
func (b *backend) swap(ctx context.Context, cs []cell, over func()) (versions []int64, swapped bool, err error) {
	kinds, keys, names := columns(cs)
	var was, keeps []int64
	var values [][]byte
	for _, c := range cs {
		was, values, keeps = append(was, c.version), append(values, c.value), append(keeps, ceil(c.keep))
		versions = append(versions, 1+rand.Int64N(1<<62)) // never the same again, whatever was lost meanwhile
	}
	swapped, err = runWithin(ctx, b, b.options.timeout, over, func(ctx context.Context, c conn) (bool, error) {
		var n int
		_, err := c.row(ctx, b.sql.swap, []any{kinds, keys, names, was, versions, values, keeps}, &n)
		var e *pgconn.PgError
		if errors.As(err, &e) && e.Code == "22012" {
			return false, nil
		}
		return n == len(cs), err
	})
	if swapped {
		b.sweep()
	}
	return versions, swapped, err
}

// columns gives what names cells, as the statements want it.
func columns(cs []cell) (kinds []string, keys [][]byte, names []string) {
	for _, c := range cs {
		kinds, keys, names = append(kinds, c.kind), append(keys, []byte(c.key)), append(names, c.name)
	}
	return kinds, keys, names
}
