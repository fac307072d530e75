package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/coordgo/coord/driver"
)

const (
	// reserved is how many connections a client has beside its pool: one for renewals, and one for a release, or a renewal that
	// waits for a row, where the pool has none.
	reserved = 2
	// spares is how long a release waits for a connection of the pool.
	spares = 50 * time.Millisecond
)

// way is how a call comes by its connection.
type way int

const (
	// ordinary calls share the pool. An application's long queries may have all of it, or calls by the thousand.
	ordinary way = iota
	// renewing has a connection of its own, and one of the pool where there is none to be had.
	renewing
	// ending prefers the pool, which has more, and gets a connection at once where that is busy.
	ending
)

// reserve is the connections beside the pool. They are made when they are needed first, and stay.
type reserve struct {
	pool *pgxpool.Pool
	turn chan struct{} // has a value while a call that is ending uses it
}

// newReserve makes connections as pool does.
func newReserve(pool *pgxpool.Pool) (reserve, error) {
	config := pool.Config()
	config.MaxConns, config.MinConns, config.MinIdleConns = reserved, 0, 0
	own, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return reserve{}, fmt.Errorf("%w: %w", driver.ErrInvalid, err)
	}
	return reserve{own, make(chan struct{}, 1)}, nil
}

// acquire gives a connection, and what gives it back.
func (b *backend) acquire(ctx context.Context, by way) (*pgxpool.Conn, func(), error) {
	first, second, within := b.pool, b.reserve.pool, spares
	switch by {
	case ordinary:
		c, err := b.pool.Acquire(ctx)
		return c, func() { c.Release() }, err
	case renewing:
		first, second, within = second, first, b.options.timeout/2
	}
	bound, cancel := context.WithTimeout(ctx, within)
	c, err := first.Acquire(bound)
	cancel()
	if err == nil || ctx.Err() != nil {
		return c, func() { c.Release() }, err
	}
	free := func() {}
	if by == ending {
		select {
		case b.reserve.turn <- struct{}{}:
			free = func() { <-b.reserve.turn }
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
	c, err = second.Acquire(ctx)
	if err != nil {
		free()
	}
	return c, func() { c.Release(); free() }, err
}

// close closes the connections, within leaveWithin.
func (r reserve) close() {
	over := make(chan struct{})
	go func() {
		defer close(over)
		r.pool.Close()
	}()
	select {
	case <-over:
	case <-time.After(leaveWithin):
	}
}
