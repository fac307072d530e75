package postgres

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coordgo/coord/driver"
)

// rowsOf counts the rows of the tables that are swept.
func rowsOf(t *testing.T, b *backend) (n int) {
	t.Helper()
	err := b.pool.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM coord.locks) + (SELECT count(*) FROM coord.waiters) + (SELECT count(*) FROM coord.cells)").Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Rows that are over are removed wherever they are in a table, and others are not.
func TestSweep(t *testing.T) {
	t.Parallel()
	srv := server(t)
	b := open(t, patientURL(t, srv.Addr))
	admin(t, superuser(t, srv.Addr), `
		INSERT INTO coord.locks (key, id, state, token, until, ttl)
			SELECT convert_to('old' || n, 'UTF8'), '', 'free', 1, clock_timestamp() - interval '2 hours', '0' FROM generate_series(1, 20000) AS n;
		INSERT INTO coord.waiters (key, id, until) SELECT key, '', until FROM coord.locks LIMIT 2500;
		INSERT INTO coord.cells (kind, key, name, version, value, until) SELECT 'limit', key, '', 1, '', until FROM coord.locks LIMIT 2500;
		INSERT INTO coord.locks (key, id, state, token, until, ttl)
			SELECT convert_to('new' || n, 'UTF8'), '', 'free', 1, clock_timestamp() - interval '1 minute', '0' FROM generate_series(1, 5) AS n;
		INSERT INTO coord.waiters (key, id, until) SELECT 'new1', '', clock_timestamp() + interval '10 minutes';
		INSERT INTO coord.cells (kind, key, name, version, value, until) SELECT 'limit', 'new', '', 1, '', clock_timestamp() + interval '10 minutes';`)
	const sweeps = 1000 // each has a chance of one in four to meet a certain block
	for range sweeps {
		if rowsOf(t, b) == 7 {
			break
		}
		if err := answered(func() error { return b.sweepOnce(t.Context()) }); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		if err := answered(func() error { return b.sweepOnce(t.Context()) }); err != nil {
			t.Fatal(err)
		}
	}
	if n := rowsOf(t, b); n != 7 {
		t.Errorf("%d rows are left, want 7", n)
	}
}

// Jobs of cron take a dated key once, and end: the tables do not grow for ever.
func TestShortLivedClientsSweep(t *testing.T) {
	t.Parallel()
	srv := server(t)
	pool := open(t, patientURL(t, srv.Addr)).pool
	l := limitOf(t, 5, time.Hour)
	for opened := 0; ; {
		for range 100 {
			b := must[*backend](t)(newBackend(pool, []Option{WithTimeout(maxTimeout)}))
			b.tables.there.Store(true)
			r := request("a", time.Minute)
			mustTry(t, b, r.ID, r)
			must[driver.TakenOne](t)(b.TakeOne(t.Context(), r.ID, l, driver.Ask{Min: 1, N: 1}))
			for opened++; b.sweeping.Load(); {
				pause(time.Millisecond)
			}
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if rowsOf(t, &backend{pool: pool}) < opened { // half of them, of two tables
			return
		}
		if opened == 10_000 { // where a hundred have swept, most likely
			t.Fatalf("%d rows after %d openings, want fewer than half of those that were made", rowsOf(t, &backend{pool: pool}), opened)
		}
		for _, table := range []string{"locks", "cells"} { // the day is over
			if _, err := pool.Exec(t.Context(), "UPDATE coord."+table+" SET until = clock_timestamp() - interval '2 hours'", pgx.QueryExecModeExec); err != nil {
				t.Fatal(err)
			}
		}
	}
}
