package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/testserver"
)

const (
	// postgresPool is how many connections each subject has.
	postgresPool = 20
	// postgresPoll is how often those ask that nobody wakes.
	postgresPoll = 50 * time.Millisecond
)

// postgresLocks is a way to lock on PostgreSQL. Lock waits.
type postgresLocks interface {
	lock(ctx context.Context, key string) (unlock func() error, err error)
}

func postgresURL(s *testserver.Server) string {
	return testserver.PostgresURL(testserver.PostgresUser, s.Addr)
}

// postgresConn makes a pool whose statements are not prepared, as those of coord.
func postgresConn(b *testing.B, s *testserver.Server) *pgxpool.Pool {
	config, err := pgxpool.ParseConfig(postgresURL(s))
	if err != nil {
		b.Fatal(err)
	}
	config.MaxConns = postgresPool
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	return pool
}

func postgresCoord(b *testing.B, s *testserver.Server) *coord.Client {
	client, err := coord.Open(context.Background(), fmt.Sprintf("%s?pool_size=%d", postgresURL(s), postgresPool))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := client.Close(); err != nil {
			b.Error(err)
		}
	})
	return client
}

// coordOnPostgres are two clients, so that a lock goes from one to the other over the server.
type coordOnPostgres struct{ clients [2]*coord.Client }

func (c *coordOnPostgres) lock(ctx context.Context, key string) (func() error, error) {
	l, err := c.clients[clientOf(ctx)].Lock(ctx, key)
	if err != nil {
		return nil, err
	}
	return func() error { return l.Unlock(ctx) }, nil
}

type clientKey struct{}

// clientOf is which of two clients a call is of.
func clientOf(ctx context.Context) int {
	n, _ := ctx.Value(clientKey{}).(int)
	return n
}

// bareStatements are the simplest that lock and unlock a row. They do not wait, and leave nothing to a dead holder's successor.
type bareStatements struct{ *pgxpool.Pool }

func (p bareStatements) lock(ctx context.Context, key string) (func() error, error) {
	_, err := p.Exec(ctx, `INSERT INTO bare AS l (key, id, until) VALUES ($1, 'a', now() + interval '30 seconds')
		ON CONFLICT (key) DO UPDATE SET id = excluded.id, until = excluded.until WHERE l.until <= now()`, key)
	return func() error {
		_, err := p.Exec(ctx, "UPDATE bare SET until = now() WHERE key = $1 AND id = 'a'", key)
		return err
	}, err
}

// advisoryLocks are the server's own: a lock is of a session, and ends with it. There is no lease and no token.
type advisoryLocks struct{ *pgxpool.Pool }

func (p advisoryLocks) lock(ctx context.Context, key string) (func() error, error) {
	c, err := p.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := c.Exec(ctx, "SELECT pg_advisory_lock(hashtextextended($1, 0))", key); err != nil {
		c.Release()
		return nil, err
	}
	return func() error {
		defer c.Release()
		_, err := c.Exec(ctx, "SELECT pg_advisory_unlock(hashtextextended($1, 0))", key)
		return err
	}, nil
}

// shedLock has the statements of ShedLock for PostgreSQL by the server's time: PostgresSqlServerTimeStatementsSource of
// net.javacrumbs.shedlock. It does not wait: who wants to asks again.
type shedLock struct{ *pgxpool.Pool }

func (p shedLock) lock(ctx context.Context, key string) (func() error, error) {
	err := pollPostgres(ctx, func() (bool, error) {
		tag, err := p.Exec(ctx, `INSERT INTO shedlock (name, lock_until, locked_at, locked_by)
			VALUES ($1, timezone('utc', CURRENT_TIMESTAMP) + interval '30 seconds', timezone('utc', CURRENT_TIMESTAMP), 'a')
			ON CONFLICT (name) DO UPDATE SET lock_until = timezone('utc', CURRENT_TIMESTAMP) + interval '30 seconds',
				locked_at = timezone('utc', CURRENT_TIMESTAMP), locked_by = 'a'
			WHERE shedlock.name = $1 AND shedlock.lock_until <= timezone('utc', CURRENT_TIMESTAMP)`, key)
		return tag.RowsAffected() > 0, err
	})
	return func() error {
		_, err := p.Exec(ctx, "UPDATE shedlock SET lock_until = timezone('utc', CURRENT_TIMESTAMP) WHERE name = $1 AND locked_by = 'a'", key)
		return err
	}, err
}

// jobQueue takes a job as River does (JobGetAvailable of riverpgxv5): one job for each key, which is available again after it.
type jobQueue struct{ *pgxpool.Pool }

func (p jobQueue) lock(ctx context.Context, key string) (func() error, error) {
	var id int64
	err := pollPostgres(ctx, func() (bool, error) {
		err := p.QueryRow(ctx, `WITH locked_jobs AS (
				SELECT id FROM job WHERE state = 'available' AND queue = $1 AND scheduled_at <= now()
				ORDER BY priority, scheduled_at, id LIMIT 1 FOR UPDATE SKIP LOCKED
			)
			UPDATE job SET state = 'running', attempt = attempt + 1, attempted_at = now()
			FROM locked_jobs WHERE job.id = locked_jobs.id RETURNING job.id`, key).Scan(&id)
		if errors.Is(err, pgx.ErrNoRows) {
			return false, nil
		}
		return err == nil, err
	})
	return func() error {
		_, err := p.Exec(ctx, "UPDATE job SET state = 'available', finalized_at = now() WHERE id = $1 AND state = 'running'", id)
		return err
	}, err
}

// pollPostgres tries until it succeeds.
func pollPostgres(ctx context.Context, try func() (bool, error)) error {
	for {
		if ok, err := try(); ok || err != nil {
			return err
		}
		select {
		case <-time.After(postgresPoll):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// peerTables are the tables of the others.
const peerTables = `
	CREATE TABLE bare (key text PRIMARY KEY, id text NOT NULL, until timestamptz NOT NULL) WITH (fillfactor = 50);
	CREATE TABLE counter (key text PRIMARY KEY, n bigint NOT NULL) WITH (fillfactor = 50);
	INSERT INTO counter VALUES ('k', 0);
	CREATE TABLE shedlock (name varchar(64) PRIMARY KEY, lock_until timestamp NOT NULL, locked_at timestamp NOT NULL, locked_by varchar(255) NOT NULL);
	CREATE TABLE job (id bigserial PRIMARY KEY, queue text NOT NULL, state text NOT NULL DEFAULT 'available', priority smallint NOT NULL DEFAULT 1,
		attempt int NOT NULL DEFAULT 0, attempted_at timestamptz, finalized_at timestamptz, scheduled_at timestamptz NOT NULL DEFAULT now());
	CREATE INDEX ON job (state, queue, priority, scheduled_at, id);
	INSERT INTO job (queue) SELECT 'k' || n FROM generate_series(0, 63) AS n;`
