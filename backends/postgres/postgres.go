package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/call"
	"github.com/coordgo/coord/driver/limits"
	"github.com/coordgo/coord/driver/optimistic"
)

const (
	// minTTL and ttlStep: the server counts microseconds, but a lease shorter than minTTL would not outlast a round trip.
	minTTL  = 10 * time.Millisecond
	ttlStep = time.Microsecond
	maxTTL  = driver.MaxPer
	// maxKey keeps a row of an index far below what a page holds.
	maxKey = 2048
	// newWithin bounds New, which has no ctx.
	newWithin = 5 * time.Second
)

// Claims are what this store promises; the conformance suite proves them.
var Claims = driver.Claims{
	driver.Fair, driver.PerHoldTTL, driver.Inspect, driver.Break, driver.List, driver.Shared, driver.MinHoldAfterExit,
	driver.TokenProcess, driver.TokenRestart, driver.TokenClockSeeded,
	driver.DurableRestart, driver.NoEviction,
	driver.ServerClock, driver.AtomicMulti, driver.Reserve, driver.Charge, driver.ScopeHosts,
}

// Option configures New.
type Option func(*options)

type options struct {
	schema  string
	timeout time.Duration
}

// WithSchema sets the schema of the tables. The default is [DefaultSchema].
func WithSchema(name string) Option { return func(o *options) { o.schema = name } }

// WithTimeout bounds each call, the wait for a connection included, of a caller whose ctx does not end earlier. It is
// from 10 ms to 5 s; the default is 1 s. A statement that is late has three times as long, at most 5 s, before its
// connection is closed.
func WithTimeout(d time.Duration) Option { return func(o *options) { o.timeout = d } }

// New makes a store over the application's own pool, which Close leaves open. It looks within five seconds at the server,
// and whether the tables and functions are there. Unless they are, the first call that may write something makes them.
//
// Each statement is a transaction of its own. It is prepared if the pool prepares its statements, as pgx does by default
// (pgx.QueryExecModeCacheStatement), and otherwise not: a pool behind a pooler of transactions, unless that knows
// prepared statements, has pgx.QueryExecModeExec. The pool should have a connection for each call that is under way at a time:
// others wait for one. Renewals have a connection of their own, and releases another where the pool is busy: up to two beside
// the pool, made by its configuration.
//
// Refused: a session with synchronous_commit off, for a crash of the server would lose locks. No session of the pool may set
// it, or local, later: that is not seen.
func New(pool *pgxpool.Pool, opts ...Option) (driver.Backend, error) {
	if pool == nil {
		return nil, fmt.Errorf("%w: nil pool", driver.ErrInvalid)
	}
	b, err := newBackend(pool, opts)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), newWithin)
	defer cancel()
	if err := b.migrate(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// backend is the store.
type backend struct {
	optimistic.Limiter
	states   *optimistic.Table[int64] // of limits
	ahead    limits.Ahead
	clock    clock
	pool     *pgxpool.Pool
	reserve  reserve
	mode     pgx.QueryExecMode // of statements
	owned    *connections      // of the pool, if it is the backend's own
	late     atomic.Bool       // the last statement to end ran out of time
	sql      statements
	options  options
	info     driver.Info
	sweeping atomic.Bool
	tables   tables

	waits rowWaits
	asks  call.OnWay[string] // for locks, places and shares, by id
	calls *call.Calls
}

var _ driver.Backend = (*backend)(nil)

func newBackend(pool *pgxpool.Pool, opts []Option) (*backend, error) {
	o := options{schema: DefaultSchema, timeout: defaultTimeout}
	for _, opt := range opts {
		opt(&o)
	}
	if err := checkSchema(o.schema); err != nil {
		return nil, err
	}
	if o.timeout < minTimeout || o.timeout > maxTimeout {
		return nil, fmt.Errorf("%w: timeout %v: want %v to %v", driver.ErrInvalid, o.timeout, minTimeout, maxTimeout)
	}
	reserve, err := newReserve(pool)
	if err != nil {
		return nil, err
	}
	b := &backend{pool: pool, calls: call.New(call.Options{ErrClosing: errClosing}), reserve: reserve, sql: newStatements(o.schema), options: o, info: driver.Info{
		Name: "postgres", MinTTL: minTTL, TTLStep: ttlStep, MaxTTL: maxTTL, MaxKey: maxKey, Claims: slices.Clone(Claims),
	}}
	b.mode = pgx.QueryExecModeExec
	if pool.Config().ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
		b.mode = pgx.QueryExecModeCacheStatement
	}
	b.Limiter, b.states = optimistic.NewLimiter(b.update), optimistic.NewTable[int64](maxStates)
	b.waits.most = max(1, int(pool.Config().MaxConns)/4)
	b.tables.turn = make(chan struct{}, 1)
	return b, nil
}

// Info implements driver.Backend.
func (b *backend) Info() driver.Info {
	info := b.info
	info.Claims = slices.Clone(info.Claims)
	return info
}

// Ping implements driver.Operator. It wants a server that takes writes.
func (b *backend) Ping(ctx context.Context) error {
	_, err := run(ctx, b, func(ctx context.Context, c conn) (struct{}, error) {
		var readOnly bool
		_, err := c.row(ctx, "SELECT current_setting('transaction_read_only')::bool", nil, &readOnly)
		if err == nil && readOnly {
			err = &pgconn.PgError{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: readOnlyServer, Message: "transactions are read only"}
		}
		return struct{}{}, notSent(err)
	})
	return err
}

// Close implements driver.Backend. It ends the calls under way.
func (b *backend) Close() error {
	b.calls.Close()
	if b.owned != nil {
		b.owned.close()
		b.pool.Close()
	}
	b.reserve.close()
	b.calls.Wait(leaveWithin)
	return nil
}
