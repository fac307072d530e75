package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/coordgo/coord/internal/testserver"
)

// bloatFor is how long locks are taken, at most; bloatLocks is how many, at most.
const (
	bloatFor   = 3 * time.Minute
	bloatLocks = 1_000_000
)

// BenchmarkPostgresBloat takes locks, of ten keys and each of a key of its own, and gives what the tables are then. Run
// it with -benchtime 1x -timeout 30m.
func BenchmarkPostgresBloat(b *testing.B) {
	table := &postgresTable{cells: map[[2]string]string{}}
	for _, keys := range []int64{10, bloatLocks} {
		name := fmt.Sprint(keys, " keys")
		b.Run(name, func(b *testing.B) {
			s := testserver.Postgres(b)
			client, pool := postgresCoord(b, s), postgresConn(b, s)
			ctx := context.Background()
			note := func(when string) {
				size, dead := postgresSize(b, pool)
				table.set(name, when+": KiB", report(b, when+"-KiB", size/1024))
				table.set(name, when+": dead rows", report(b, when+"-dead", dead))
			}
			note("before")
			var n atomic.Int64
			begun := time.Now()
			repeatFor(b, 16, func() (more bool, err error) {
				i := n.Add(1)
				if i > bloatLocks || time.Since(begun) > bloatFor {
					n.Add(-1)
					return false, nil
				}
				l, err := client.Lock(ctx, fmt.Sprint("key ", i%keys))
				if err == nil {
					err = l.Unlock(ctx)
				}
				return true, err
			})
			table.set(name, "locks", report(b, "locks", n.Load()))
			note("after")
			awaitVacuum(b, pool)
			note("vacuumed")
		})
	}
	table.print()
}

// repeatFor calls fn in so many goroutines until it says that there is no more to do.
func repeatFor(b *testing.B, goroutines int, fn func() (more bool, err error)) {
	done := make(chan error)
	for range goroutines {
		go func() {
			for {
				if more, err := fn(); !more || err != nil {
					done <- err
					return
				}
			}
		}()
	}
	for range goroutines {
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
}

// postgresSize is the size of coord's tables with their indexes, and their dead rows as the server counts them.
func postgresSize(b *testing.B, pool *pgxpool.Pool) (bytes, dead int64) {
	err := pool.QueryRow(context.Background(), `SELECT coalesce(sum(pg_total_relation_size(relid)), 0)::bigint, coalesce(sum(n_dead_tup), 0)::bigint
		FROM pg_stat_user_tables WHERE schemaname = 'coord'`).Scan(&bytes, &dead)
	if err != nil {
		b.Fatal(err)
	}
	return bytes, dead
}

// awaitVacuum waits until autovacuum has been at the locks after now. By default it looks once a minute.
func awaitVacuum(b *testing.B, pool *pgxpool.Pool) {
	const most = 3 * time.Minute
	var begun time.Time
	if err := pool.QueryRow(context.Background(), "SELECT clock_timestamp()").Scan(&begun); err != nil {
		b.Fatal(err)
	}
	for start := time.Now(); time.Since(start) < most; time.Sleep(time.Second) {
		var at *time.Time
		err := pool.QueryRow(context.Background(), "SELECT last_autovacuum FROM pg_stat_user_tables WHERE schemaname = 'coord' AND relname = 'locks'").Scan(&at)
		if err != nil {
			b.Fatal(err)
		}
		if at != nil && at.After(begun) {
			return
		}
	}
	b.Logf("no autovacuum in %v", most)
}
