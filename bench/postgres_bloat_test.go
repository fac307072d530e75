package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/coordgo/coord"
)

// bloatFor is how long locks are taken, at most; bloatLocks is how many, at most.
const (
	bloatFor   = 3 * time.Minute
	bloatLocks = 1_000_000
)

// BenchmarkPostgresBloat takes locks, of ten keys and each of a key of its own, and gives what the tables are then. Run
// it with -benchtime 1x -timeout 30m.
func BenchmarkPostgresBloat(b *testing.B) {
	for _, keys := range []int64{10, bloatLocks} {
		b.Run(fmt.Sprint(keys, "-keys"), func(b *testing.B) {
			s, err := openStore(b, "postgres")
			if err != nil {
				b.Fatal(err)
			}
			ctx := b.Context()
			pool, err := newPostgres(ctx, s)
			if err != nil {
				b.Fatal(err)
			}
			defer pool.Close()
			client, err := coord.Open(ctx, s.url())
			if err != nil {
				b.Fatal(err)
			}
			defer client.Close()
			b.ReportMetric(float64(lockMany(ctx, b, client, keys)), "locks")
			reportSize(b, pool, "after")
			awaitVacuum(b, pool)
			reportSize(b, pool, "vacuumed")
		})
	}
}

// lockMany takes locks of 16 goroutines for a while, and gives how many.
func lockMany(ctx context.Context, b *testing.B, client *coord.Client, keys int64) int64 {
	var n atomic.Int64
	var wg sync.WaitGroup
	begun := time.Now()
	for range 16 {
		wg.Go(func() {
			for time.Since(begun) < bloatFor {
				i := n.Add(1)
				if i > bloatLocks {
					return
				}
				l, err := client.Lock(ctx, fmt.Sprint("key ", i%keys))
				if err == nil {
					err = l.Unlock(ctx)
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return min(n.Load(), bloatLocks)
}

// reportSize reports the size of coord's tables with their indexes, and their dead rows as the server counts them.
func reportSize(b *testing.B, pool *pgxpool.Pool, when string) {
	var bytes, dead int64
	err := pool.QueryRow(b.Context(), `SELECT coalesce(sum(pg_total_relation_size(relid)), 0)::bigint, coalesce(sum(n_dead_tup), 0)::bigint
		FROM pg_stat_user_tables WHERE schemaname = 'coord'`).Scan(&bytes, &dead)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(bytes/1024), when+"-KiB")
	b.ReportMetric(float64(dead), when+"-dead")
}

// awaitVacuum waits until autovacuum has been at the locks after now. By default it looks once a minute.
func awaitVacuum(b *testing.B, pool *pgxpool.Pool) {
	const most = 3 * time.Minute
	var begun time.Time
	if err := pool.QueryRow(b.Context(), "SELECT clock_timestamp()").Scan(&begun); err != nil {
		b.Fatal(err)
	}
	for start := time.Now(); time.Since(start) < most; time.Sleep(time.Second) {
		var at *time.Time
		err := pool.QueryRow(b.Context(), "SELECT last_autovacuum FROM pg_stat_user_tables WHERE schemaname = 'coord' AND relname = 'locks'").Scan(&at)
		if err != nil {
			b.Fatal(err)
		}
		if at != nil && at.After(begun) {
			return
		}
	}
	b.Logf("no autovacuum in %v", most)
}
