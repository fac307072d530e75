package redis_test

import (
	"context"
	"sync"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/redis"
	"github.com/coordgo/coord/internal/testserver"
)

// BenchmarkRedisFair is four clients with four goroutines each that want one key, each its turn, and what
// each lock costs the server.
func BenchmarkRedisFair(b *testing.B) {
	const clients, each = 4, 4
	srv := testserver.Redis(b)
	ctx := context.Background()
	var wg sync.WaitGroup
	before := srv.Commands()
	for i := range clients {
		raw := goredis.NewClient(&goredis.Options{Addr: srv.Addr, ContextTimeoutEnabled: true, MaxRetries: -1})
		b.Cleanup(func() { raw.Close() })
		store, err := redis.New(raw)
		if err != nil {
			b.Fatal(err)
		}
		client, err := coord.New(store)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { client.Close() })
		for j := range each {
			wg.Go(func() {
				for range b.N/(clients*each) + min(1, max(0, b.N%(clients*each)-(i*each+j))) {
					l, err := client.Lock(ctx, "k", coord.Fair())
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
	}
	wg.Wait()
	var commands int64
	for name, n := range srv.Commands() {
		commands += n - before[name]
	}
	b.ReportMetric(float64(commands)/float64(b.N), "commands/lock")
}
