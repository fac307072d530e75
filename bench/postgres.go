package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/coordgo/coord/internal/bench"
	"github.com/coordgo/coord/internal/testserver"
)

const (
	// postgresPool is how many connections each client has.
	postgresPool = 15
	// postgresPoll is how often those ask that nobody wakes.
	postgresPoll = 50 * time.Millisecond
)

// slowPostgres is a PostgreSQL whose commits take 5 ms, as they do on many disks.
const slowPostgres = "postgres-5ms"

// slowCommits are its flags: each commit waits for others, though there are none.
var slowCommits = testserver.WithFlags("-c", "commit_delay=5000", "-c", "commit_siblings=0")

// postgresSubjects are measured on both servers, on the slow one only where the disk counts.
func postgresSubjects() []subject {
	return slices.Concat(
		postgresLocks("postgres", shared, contended), postgresLocks(slowPostgres, 0, crowded),
		[]subject{{store: "postgres", name: "bare counter", kind: floor, limits: openCounter, about: "none"}},
	)
}

// postgresLocks are at their uses alone, and the bare statements and the others at these too.
func postgresLocks(store string, bare, others use) []subject {
	return []subject{
		{store: store, name: "two bare statements", kind: floor, use: alone | bare, locks: openPostgres(bareStatements), about: "does not wait"},
		{store: store, name: "advisory lock", use: alone | others, locks: openPostgres(advisoryLock), about: "woken, in order; no lease, no token"},
		{store: store, name: "ShedLock's statements", use: alone | others, locks: openPostgres(shedLock), about: "polls every 50 ms; no token"},
		{store: store, name: "a leader as River's", use: alone | others, locks: openPostgres(leaderRow), about: "polls every 50 ms; no token, and an unlogged table"},
		{store: store, name: "a job queue's statements", use: alone | others, locks: openPostgres(jobQueue), about: "polls every 50 ms; no lease, no token"},
	}
}

// peerTables are the tables of the others.
const peerTables = `
	CREATE TABLE bare (key text PRIMARY KEY, id text NOT NULL, until timestamptz NOT NULL) WITH (fillfactor = 50);
	CREATE TABLE counter (key text PRIMARY KEY, n bigint NOT NULL) WITH (fillfactor = 50);
	CREATE TABLE shedlock (name varchar(64) PRIMARY KEY, lock_until timestamp NOT NULL, locked_at timestamp NOT NULL, locked_by varchar(255) NOT NULL);
	CREATE UNLOGGED TABLE leader (name text PRIMARY KEY, leader_id text NOT NULL, elected_at timestamptz NOT NULL, expires_at timestamptz NOT NULL);
	CREATE TABLE job (id bigserial PRIMARY KEY, queue text NOT NULL UNIQUE, state text NOT NULL DEFAULT 'available', priority smallint NOT NULL DEFAULT 1,
		attempt int NOT NULL DEFAULT 0, attempted_at timestamptz, finalized_at timestamptz, scheduled_at timestamptz NOT NULL DEFAULT now());
	CREATE INDEX ON job (state, queue, priority, scheduled_at, id);`

// newPostgres makes a pool whose statements are not prepared, as those of coord.
func newPostgres(ctx context.Context, s *store) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(s.addr)
	if err != nil {
		return nil, err
	}
	config.MaxConns = postgresPool
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	return pgxpool.NewWithConfig(ctx, config)
}

func makePeerTables(ctx context.Context, s *store) error {
	pool, err := newPostgres(ctx, s)
	if err != nil {
		return err
	}
	defer pool.Close()
	_, err = pool.Exec(ctx, peerTables)
	return err
}

// openPostgres opens a pool for a way to lock.
func openPostgres(by func(*pgxpool.Pool) func(context.Context, string) (unlock, error)) opener {
	return func(ctx context.Context, s *store) (*locks, error) {
		pool, err := newPostgres(ctx, s)
		if err != nil {
			return nil, err
		}
		return &locks{func() error { pool.Close(); return nil }, by(pool)}, nil
	}
}

// executed is a statement that gives a lock back.
func executed(pool *pgxpool.Pool, sql string, arg any) unlock {
	return func(ctx context.Context) error {
		_, err := pool.Exec(ctx, sql, arg)
		return err
	}
}

// bareStatements are the simplest that lock and unlock a row. They leave nothing to a dead holder's successor.
func bareStatements(pool *pgxpool.Pool) func(context.Context, string) (unlock, error) {
	return func(ctx context.Context, key string) (unlock, error) {
		_, err := pool.Exec(ctx, `INSERT INTO bare AS l (key, id, until) VALUES ($1, 'a', now() + interval '30 seconds')
			ON CONFLICT (key) DO UPDATE SET id = excluded.id, until = excluded.until WHERE l.until <= now()`, key)
		return executed(pool, "UPDATE bare SET until = now() WHERE key = $1 AND id = 'a'", key), err
	}
}

// advisoryLock is the server's own: a lock is of a session, and ends with it.
func advisoryLock(pool *pgxpool.Pool) func(context.Context, string) (unlock, error) {
	return func(ctx context.Context, key string) (unlock, error) {
		c, err := pool.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		if _, err := c.Exec(ctx, "SELECT pg_advisory_lock(hashtextextended($1, 0))", key); err != nil {
			c.Release()
			return nil, err
		}
		return func(ctx context.Context) error {
			defer c.Release()
			_, err := c.Exec(ctx, "SELECT pg_advisory_unlock(hashtextextended($1, 0))", key)
			return err
		}, nil
	}
}

// shedLock has the statements of ShedLock for PostgreSQL by the server's time: PostgresSqlServerTimeStatementsSource of
// net.javacrumbs.shedlock. It does not wait: who wants to asks again.
func shedLock(pool *pgxpool.Pool) func(context.Context, string) (unlock, error) {
	return func(ctx context.Context, key string) (unlock, error) {
		err := poll(ctx, postgresPoll, func() (bool, error) {
			tag, err := pool.Exec(ctx, `INSERT INTO shedlock (name, lock_until, locked_at, locked_by)
				VALUES ($1, timezone('utc', CURRENT_TIMESTAMP) + interval '30 seconds', timezone('utc', CURRENT_TIMESTAMP), 'a')
				ON CONFLICT (name) DO UPDATE SET lock_until = timezone('utc', CURRENT_TIMESTAMP) + interval '30 seconds',
					locked_at = timezone('utc', CURRENT_TIMESTAMP), locked_by = 'a'
				WHERE shedlock.name = $1 AND shedlock.lock_until <= timezone('utc', CURRENT_TIMESTAMP)`, key)
			return tag.RowsAffected() > 0, err
		})
		return executed(pool, "UPDATE shedlock SET lock_until = timezone('utc', CURRENT_TIMESTAMP) WHERE name = $1 AND locked_by = 'a'", key), err
	}
}

// leaderRow elects a leader for each key as River does in its table river_leader, which is unlogged as here: what has expired is
// deleted, who inserts the row leads, and who resigns deletes it. River sends the steps of an election one by one in a
// transaction, they are one message here. It looks every five seconds, and wakes candidates by NOTIFY, which is not here.
func leaderRow(pool *pgxpool.Pool) func(context.Context, string) (unlock, error) {
	return func(ctx context.Context, key string) (unlock, error) {
		err := poll(ctx, postgresPoll, func() (bool, error) {
			election := new(pgx.Batch)
			election.Queue("DELETE FROM leader WHERE name = $1 AND expires_at < now()", key)
			election.Queue("INSERT INTO leader VALUES ($1, 'a', now(), now() + interval '30 seconds') ON CONFLICT DO NOTHING", key)
			sent := pool.SendBatch(ctx, election)
			_, err := sent.Exec()
			tag, insertErr := sent.Exec()
			return tag.RowsAffected() > 0, errors.Join(err, insertErr, sent.Close())
		})
		return executed(pool, "DELETE FROM leader WHERE name = $1 AND leader_id = 'a'", key), err
	}
}

// jobQueue takes a job as River does (JobGetAvailable of riverpgxv5): one job for each key, which is available again after it.
func jobQueue(pool *pgxpool.Pool) func(context.Context, string) (unlock, error) {
	var made sync.Map // of keys that have a job
	return func(ctx context.Context, key string) (unlock, error) {
		if _, ok := made.Load(key); !ok {
			if _, err := pool.Exec(ctx, "INSERT INTO job (queue) VALUES ($1) ON CONFLICT DO NOTHING", key); err != nil {
				return nil, err
			}
			made.Store(key, true)
		}
		var id int64
		err := poll(ctx, postgresPoll, func() (bool, error) {
			err := pool.QueryRow(ctx, `WITH locked_jobs AS (
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
		return executed(pool, "UPDATE job SET state = 'available', finalized_at = now() WHERE id = $1 AND state = 'running'", id), err
	}
}

// openCounter is the least that a decision on PostgreSQL can be: one write.
func openCounter(ctx context.Context, s *store, _ bench.Rate) (*limits, error) {
	pool, err := newPostgres(ctx, s)
	if err != nil {
		return nil, err
	}
	return &limits{func() error { pool.Close(); return nil }, func(ctx context.Context, key string) (bool, error) {
		_, err := pool.Exec(ctx, "INSERT INTO counter AS c VALUES ($1, 1) ON CONFLICT (key) DO UPDATE SET n = c.n + 1", key)
		return true, err
	}}, nil
}

// postgresURL is how coord opens the store, with a pool as large.
func (s *store) postgresURL() string { return fmt.Sprintf("%s&pool_size=%d", s.addr, postgresPool) }
