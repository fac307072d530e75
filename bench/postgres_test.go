package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/testserver"
)

// postgresFor is how long each figure is measured.
const postgresFor = 5 * time.Second

// postgresTable is what is printed at the end: a line for each subject.
type postgresTable struct {
	heads []string
	lines []string
	cells map[[2]string]string
}

func (t *postgresTable) set(line, head, cell string) {
	if !slices.Contains(t.heads, head) {
		t.heads = append(t.heads, head)
	}
	if !slices.Contains(t.lines, line) {
		t.lines = append(t.lines, line)
	}
	t.cells[[2]string{line, head}] = cell
}

func (t *postgresTable) print() {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 1, ' ', 0)
	fmt.Fprintf(w, "\n| \t| %s\t|\n|---\t%s|\n", strings.Join(t.heads, "\t| "), strings.Repeat("|---\t", len(t.heads)))
	for _, line := range t.lines {
		fmt.Fprintf(w, "| %s", line)
		for _, head := range t.heads {
			fmt.Fprintf(w, "\t| %s", t.cells[[2]string{line, head}])
		}
		fmt.Fprint(w, "\t|\n")
	}
	w.Flush()
}

// BenchmarkPostgres compares coord with what else locks and counts on PostgreSQL, over pools of the same size, without
// prepared statements, in one run. Run it with -benchtime 1x: each figure is of some seconds of calls.
func BenchmarkPostgres(b *testing.B) {
	s := testserver.Postgres(b)
	pool := postgresConn(b, s)
	if _, err := pool.Exec(context.Background(), peerTables); err != nil {
		b.Fatal(err)
	}
	both := &coordOnPostgres{[2]*coord.Client{postgresCoord(b, s), postgresCoord(b, s)}}
	table := &postgresTable{cells: map[[2]string]string{}}
	for _, subject := range []struct {
		name  string
		locks postgresLocks
		waits bool
	}{
		{"coord", both, true},
		{"two bare statements", bareStatements{pool}, false},
		{"advisory lock", advisoryLocks{pool}, true},
		{"ShedLock", shedLock{pool}, true},
		{"job queue", jobQueue{pool}, true},
	} {
		b.Run("lock/"+subject.name, func(b *testing.B) {
			took := repeatPostgres(b, 1, func(int) error { return lockOnce(subject.locks, "k0") })
			table.set(subject.name, "lock and unlock p50, µs", report(b, "alone-p50-µs", percentile(took, 50)))
			table.set(subject.name, "p99, µs", report(b, "alone-p99-µs", percentile(took, 99)))
			took = repeatPostgres(b, 64, func(i int) error { return lockOnce(subject.locks, fmt.Sprint("k", i)) })
			table.set(subject.name, "64 keys, locks/s", report(b, "parallel-locks/s", int64(float64(len(took))/postgresFor.Seconds())))
			if subject.waits {
				table.set(subject.name, "hand-over p50, µs", report(b, "hand-over-p50-µs", percentile(handOvers(b, subject.locks), 50)))
			}
		})
	}
	client := both.clients[0]
	for name, take := range map[string]func() error{
		"coord": func() error {
			_, err := client.Allow(context.Background(), "limit", coord.PerSecond(1_000_000_000))
			return err
		},
		"bare counter": func() error {
			var n int64
			return pool.QueryRow(context.Background(), "UPDATE counter SET n = n + 1 WHERE key = $1 RETURNING n", "k").Scan(&n)
		},
	} {
		b.Run("limit/"+name, func(b *testing.B) {
			took := repeatPostgres(b, 1, func(int) error { return take() })
			table.set(name, "limit p50, µs", report(b, "alone-p50-µs", percentile(took, 50)))
			took = repeatPostgres(b, 64, func(int) error { return take() })
			table.set(name, "64 on one limit, /s", report(b, "parallel/s", int64(float64(len(took))/postgresFor.Seconds())))
		})
	}
	table.print()
}

func report(b *testing.B, unit string, n int64) string {
	b.ReportMetric(float64(n), unit)
	return fmt.Sprint(n)
}

// percentile is one of the times, in microseconds.
func percentile(took []time.Duration, percent int) int64 {
	slices.Sort(took)
	return took[min(len(took)*percent/100, len(took)-1)].Microseconds()
}

func lockOnce(locks postgresLocks, key string) error {
	unlock, err := locks.lock(context.Background(), key)
	if err != nil {
		return err
	}
	return unlock()
}

// repeatPostgres calls fn for a while in so many goroutines, and gives how long each call took.
func repeatPostgres(b *testing.B, goroutines int, fn func(i int) error) (took []time.Duration) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed atomic.Bool
	for i := range goroutines {
		wg.Go(func() {
			var mine []time.Duration
			for begun := time.Now(); time.Since(begun) < postgresFor && !failed.Load(); {
				start := time.Now()
				if err := fn(i); err != nil {
					failed.Store(true)
					b.Error(err)
				}
				mine = append(mine, time.Since(start))
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, mine...)
		})
	}
	wg.Wait()
	return took
}

// handOvers gives how long after the call of unlock the next one had the lock, who waited in another client.
func handOvers(b *testing.B, locks postgresLocks) (took []time.Duration) {
	const key = "k1"
	ctx := context.Background()
	unlock, err := locks.lock(ctx, key)
	if err != nil {
		b.Fatal(err)
	}
	type next struct {
		unlock func() error
		at     time.Time
		err    error
	}
	for i, begun := 1, time.Now(); time.Since(begun) < 2*postgresFor; i++ {
		granted := make(chan next)
		go func() {
			unlock, err := locks.lock(context.WithValue(ctx, clientKey{}, i%2), key)
			granted <- next{unlock, time.Now(), err}
		}()
		time.Sleep(postgresPoll/2 + rand.N(postgresPoll)) // meanwhile it waits, at any moment of its poll
		start := time.Now()
		if err := unlock(); err != nil {
			b.Fatal(err)
		}
		n := <-granted
		if n.err != nil {
			b.Fatal(n.err)
		}
		unlock = n.unlock
		took = append(took, n.at.Sub(start))
	}
	if err := unlock(); err != nil {
		b.Fatal(err)
	}
	return took
}
