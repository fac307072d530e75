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

func redisClient(b *testing.B) (goredis.UniversalClient, *coord.Client) {
	srv := testserver.Redis(b)
	return over(b, goredis.NewClient(&goredis.Options{Addr: srv.Addr, ContextTimeoutEnabled: true, MaxRetries: -1}))
}

func redisClusterClient(b *testing.B) (goredis.UniversalClient, *coord.Client) {
	c := testserver.RedisCluster(b, 0)
	return over(b, goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: c.Addrs(), ContextTimeoutEnabled: true, DisableRoutingPolicies: true}))
}

func over(b *testing.B, raw goredis.UniversalClient) (goredis.UniversalClient, *coord.Client) {
	b.Cleanup(func() { raw.Close() })
	backend, err := redis.New(raw)
	if err != nil {
		b.Fatal(err)
	}
	client, err := coord.New(backend)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { client.Close() })
	return raw, client
}

var compareAndDelete = goredis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`)

func BenchmarkRedisLockUnlock(b *testing.B) {
	raw, client := redisClient(b)
	lockUnlock(b, raw, client)
}

func BenchmarkRedisClusterLockUnlock(b *testing.B) {
	raw, client := redisClusterClient(b)
	lockUnlock(b, raw, client)
}

func lockUnlock(b *testing.B, raw goredis.UniversalClient, client *coord.Client) {
	ctx := context.Background()
	if err := compareAndDelete.Load(ctx, raw).Err(); err != nil {
		b.Fatal(err)
	}
	bare := func() error {
		if err := raw.SetArgs(ctx, "bare", "id", goredis.SetArgs{Mode: "NX", TTL: 30 * time.Second}).Err(); err != nil {
			return err
		}
		return compareAndDelete.EvalSha(ctx, raw, []string{"bare"}, "id").Err()
	}
	ours := func() error {
		l, err := client.Lock(ctx, "bench")
		if err != nil {
			return err
		}
		return l.Unlock(ctx)
	}
	b.Run("ratio", func(b *testing.B) { testserver.Ratio(b, bare, ours) })
	b.Run("bare", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := bare(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("coord", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := ours(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkRedisAllow(b *testing.B) {
	raw, client := redisClient(b)
	allow(b, raw, client)
}

func BenchmarkRedisClusterAllow(b *testing.B) {
	raw, client := redisClusterClient(b)
	allow(b, raw, client)
}

func allow(b *testing.B, raw goredis.UniversalClient, client *coord.Client) {
	ctx := context.Background()
	touch := goredis.NewScript(`return redis.call("INCR", KEYS[1])`)
	if err := touch.Load(ctx, raw).Err(); err != nil {
		b.Fatal(err)
	}
	bare := func() error { return touch.EvalSha(ctx, raw, []string{"bare"}, "1").Err() }
	for name, limit := range map[string]coord.Limit{
		"sliding-window": coord.PerSecond(1_000_000_000),
		"token-bucket":   {Rate: 1_000_000, Per: time.Second, Burst: 1_000_000},
		"fixed-window":   {Rate: 1_000_000_000, Per: time.Second, Algorithm: coord.FixedWindow},
	} {
		b.Run(name, func(b *testing.B) {
			testserver.Ratio(b, bare, func() error {
				_, err := client.Allow(ctx, "bench", limit)
				return err
			})
		})
	}
}
