package main

import (
	"context"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	"github.com/ulule/limiter/v3"
	limiterredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/coordgo/coord/internal/bench"
)

func redisLimits() []subject {
	return []subject{
		{store: "redis", name: "EVALSHA of an INCR", kind: floor, limits: openTouch, about: "none"},
		{store: "redis", name: "redis_rate", module: "github.com/go-redis/redis_rate/v10", limits: openRedisRate, about: "GCRA, burst = rate"},
		{store: "redis", name: "throttled", module: "github.com/throttled/throttled/v2", limits: openThrottledRedis, about: "GCRA, burst = rate"},
		{store: "redis", name: "ulule/limiter", module: "github.com/ulule/limiter/v3", limits: openUluleRedis, about: "fixed window, from the first permit on"},
	}
}

var increment = redis.NewScript(`return redis.call("INCR", KEYS[1])`)

// openTouch is the least that a decision on Redis can be: one script that writes.
func openTouch(ctx context.Context, s *store, _ bench.Rate) (*limits, error) {
	c := newRedis(s)
	return &limits{c.Close, func(ctx context.Context, key string) (bool, error) {
		return true, increment.EvalSha(ctx, c, []string{key}, 1).Err()
	}}, increment.Load(ctx, c).Err()
}

func openRedisRate(_ context.Context, s *store, r bench.Rate) (*limits, error) {
	c := newRedis(s)
	limiter := redis_rate.NewLimiter(c)
	return &limits{c.Close, func(ctx context.Context, key string) (bool, error) {
		r, err := limiter.Allow(ctx, key, redis_rate.Limit{Rate: r.N, Burst: r.N, Period: r.Per})
		return err == nil && r.Allowed > 0, err
	}}, nil
}

func openThrottledRedis(_ context.Context, s *store, r bench.Rate) (*limits, error) {
	c := newRedis(s)
	store, err := goredisstore.NewCtx(c, "throttled:")
	if err != nil {
		return nil, err
	}
	return gcra(store, r, c.Close)
}

// gcra is throttled, on any of its stores.
func gcra(s throttled.GCRAStoreCtx, r bench.Rate, closing func() error) (*limits, error) {
	quota := throttled.RateQuota{MaxRate: throttled.PerDuration(r.N, r.Per), MaxBurst: r.N - 1}
	l, err := throttled.NewGCRARateLimiterCtx(s, quota)
	if err != nil {
		return nil, err
	}
	return &limits{closing, func(ctx context.Context, key string) (bool, error) {
		limited, _, err := l.RateLimitCtx(ctx, key, 1)
		return !limited, err
	}}, nil
}

func openUluleRedis(_ context.Context, s *store, r bench.Rate) (*limits, error) {
	c := newRedis(s)
	store, err := limiterredis.NewStore(c)
	if err != nil {
		return nil, err
	}
	return ulule(store, r, c.Close), nil
}

// ulule is ulule/limiter, on any of its stores.
func ulule(s limiter.Store, r bench.Rate, closing func() error) *limits {
	l := limiter.New(s, limiter.Rate{Limit: int64(r.N), Period: r.Per})
	return &limits{closing, func(ctx context.Context, key string) (bool, error) {
		c, err := l.Get(ctx, key)
		return !c.Reached, err
	}}
}
