package redis_test

import (
	"context"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/redis"
	"github.com/coordgo/coord/internal/testserver"
)

// Sixteen goroutines of one client and one key, against one goroutine that sets and deletes a
// key in a loop; and what each lock costs the store.
func BenchmarkContended(b *testing.B) {
	for name, section := range map[string]time.Duration{"section=0": 0, "section=1ms": time.Millisecond} {
		b.Run(name, func(b *testing.B) {
			srv := testserver.Redis(b)
			raw := goredis.NewClient(&goredis.Options{Addr: srv.Addr, ContextTimeoutEnabled: true, MaxRetries: -1})
			defer raw.Close()
			backend, err := redis.New(raw)
			if err != nil {
				b.Fatal(err)
			}
			client, err := coord.New(backend)
			if err != nil {
				b.Fatal(err)
			}
			defer client.Close()
			ctx := context.Background()
			if err := compareAndDelete.Load(ctx, raw).Err(); err != nil {
				b.Fatal(err)
			}
			locks, before := 0, scripts(srv)
			bares := 0
			testserver.CompareContended(b, 16, 250*time.Millisecond, func() error {
				bares++
				if err := raw.SetArgs(ctx, "bare", "id", goredis.SetArgs{Mode: "NX", TTL: 30 * time.Second}).Err(); err != nil {
					return err
				}
				time.Sleep(section)
				return compareAndDelete.EvalSha(ctx, raw, []string{"bare"}, "id").Err()
			}, func() error {
				l, err := client.Lock(ctx, "k")
				if err != nil {
					return err
				}
				locks++ // the lock guards it
				time.Sleep(section)
				return l.Unlock(ctx)
			})
			b.ReportMetric(float64(scripts(srv)-before-int64(bares))/float64(locks), "scripts/lock")
		})
	}
}

// scripts counts the scripts that srv has run.
func scripts(srv *testserver.Server) int64 {
	n := srv.Commands()
	return n["eval"] + n["evalsha"]
}
