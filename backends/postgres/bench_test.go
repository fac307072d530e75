package postgres

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coordgo/coord/driver"
)

// A lock and its unlock, beside two bare statements that change a row over the same pool. They take turns, so that whatever
// else the machine does slows both.
func BenchmarkLock(b *testing.B) {
	s := open(b, patientURL(b, server(b).Addr))
	ctx := b.Context()
	key := []byte("bare")
	besides(b, func() error {
		r := request("a", time.Minute)
		if _, err := s.TryLock(ctx, "k", r); err != nil {
			return err
		}
		return s.Unlock(ctx, "k", r.ID)
	}, func() error {
		_, err := s.pool.Exec(ctx, `INSERT INTO coord.locks AS l (key, id, state, token, until, ttl) VALUES ($1, 'a', 'held', 1, now(), '0')
			ON CONFLICT (key) DO UPDATE SET token = l.token + 1, until = now() WHERE l.until <= now()`, pgx.QueryExecModeExec, key)
		if err != nil {
			return err
		}
		_, err = s.pool.Exec(ctx, "UPDATE coord.locks SET until = now() WHERE key = $1 AND id = 'a'", pgx.QueryExecModeExec, key)
		return err
	})
}

// besides runs one and the other in turn, and reports the medians and how they compare.
func besides(b *testing.B, one, other func() error) {
	var took [2][]time.Duration
	for b.Loop() {
		for i, fn := range []func() error{one, other} {
			start := time.Now()
			if err := fn(); err != nil {
				b.Fatal(err)
			}
			took[i] = append(took[i], time.Since(start))
		}
	}
	var median [2]float64
	for i := range took {
		slices.Sort(took[i])
		median[i] = float64(took[i][len(took[i])/2].Microseconds())
	}
	b.ReportMetric(median[0], "coord-µs")
	b.ReportMetric(median[1], "bare-µs")
	b.ReportMetric(median[0]/median[1], "ratio")
}

// A decision on a limit that the client knows, beside a bare counter.
func BenchmarkLimit(b *testing.B) {
	s := open(b, patientURL(b, server(b).Addr))
	ctx := b.Context()
	l, err := driver.Limit{Rate: 1_000_000_000, Per: time.Second}.Normal()
	if err != nil {
		b.Fatal(err)
	}
	besides(b, func() error {
		_, err := s.TakeOne(ctx, "k", l, driver.Ask{Min: 1, N: 1})
		return err
	}, func() error {
		var n int64
		return s.pool.QueryRow(ctx, `INSERT INTO coord.fences AS f (key, token) VALUES ($1, 1)
			ON CONFLICT (key) DO UPDATE SET token = f.token + 1 RETURNING token`, pgx.QueryExecModeExec, []byte("bare")).Scan(&n)
	})
}
