package postgres

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// A lock and its unlock, beside two bare statements that change a row over the same pool.
func BenchmarkLock(b *testing.B) {
	url := patientURL(server(b).Addr)
	s := open(b, url)
	ctx := b.Context()
	key := []byte("bare")
	for name, s := range map[string]*backend{"coord": s, "prepared": open(b, url+"&prepared=true")} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r := request("a", time.Minute)
				if _, err := s.TryLock(ctx, "k", r); err != nil {
					b.Fatal(err)
				}
				if err := s.Unlock(ctx, "k", r.ID); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			_, err := s.pool.Exec(ctx, `INSERT INTO coord.locks AS l (key, id, state, token, until) VALUES ($1, 'a', 'held', 1, now())
				ON CONFLICT (key) DO UPDATE SET token = l.token + 1, until = now() WHERE l.until <= now()`, pgx.QueryExecModeExec, key)
			if err != nil {
				b.Fatal(err)
			}
			_, err = s.pool.Exec(ctx, "UPDATE coord.locks SET until = now() WHERE key = $1 AND id = 'a'", pgx.QueryExecModeExec, key)
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}
