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
		{store: "redis", name: "EVALSHA of an INCR", kind: bench.Floor, limits: openTouch, limit: "none"},
		{store: "redis", name: "redis_rate", module: "github.com/go-redis/redis_rate/v10", kind: bench.Peer, limits: openRedisRate, limit: "GCRA, burst = rate"},
		{store: "redis", name: "throttled", module: "github.com/throttled/throttled/v2", kind: bench.Peer, limits: openThrottledRedis, limit: "GCRA, burst = rate"},
		{store: "redis", name: "ulule/limiter", module: "github.com/ulule/limiter/v3", kind: bench.Peer, limits: openUluleRedis, limit: "fixed window, from the first permit on"},
	}
}

// touch is the least that a decision on Redis can be: one script that writes.
type touch struct{ *redis.Client }

var increment = redis.NewScript(`return redis.call("INCR", KEYS[1])`)

func openTouch(ctx context.Context, s *store, _ bench.Rate) (limitClient, error) {
	c := newRedis(s)
	return touch{c}, increment.Load(ctx, c).Err()
}

func (t touch) Allow(ctx context.Context, key string) (bool, error) {
	return true, increment.EvalSha(ctx, t.Client, []string{key}, 1).Err()
}

type redisRate struct {
	redis   *redis.Client
	limiter *redis_rate.Limiter
	limit   redis_rate.Limit
}

func openRedisRate(_ context.Context, s *store, r bench.Rate) (limitClient, error) {
	c := newRedis(s)
	return &redisRate{c, redis_rate.NewLimiter(c), redis_rate.Limit{Rate: r.N, Burst: r.N, Period: r.Per}}, nil
}

func (l *redisRate) Allow(ctx context.Context, key string) (bool, error) {
	r, err := l.limiter.Allow(ctx, key, l.limit)
	return err == nil && r.Allowed > 0, err
}

func (l *redisRate) Close() error { return l.redis.Close() }

// gcra is throttled, on any of its stores.
type gcra struct {
	*throttled.GCRARateLimiterCtx
	close func() error
}

func newGCRA(s throttled.GCRAStoreCtx, r bench.Rate, closing func() error) (limitClient, error) {
	quota := throttled.RateQuota{MaxRate: throttled.PerDuration(r.N, r.Per), MaxBurst: r.N - 1}
	l, err := throttled.NewGCRARateLimiterCtx(s, quota)
	if err != nil {
		return nil, err
	}
	return &gcra{l, closing}, nil
}

func openThrottledRedis(_ context.Context, s *store, r bench.Rate) (limitClient, error) {
	c := newRedis(s)
	store, err := goredisstore.NewCtx(c, "throttled:")
	if err != nil {
		return nil, err
	}
	return newGCRA(store, r, c.Close)
}

func (g *gcra) Allow(ctx context.Context, key string) (bool, error) {
	limited, _, err := g.RateLimitCtx(ctx, key, 1)
	return !limited, err
}

func (g *gcra) Close() error { return g.close() }

// ulule is ulule/limiter, on any of its stores.
type ulule struct {
	*limiter.Limiter
	close func() error
}

func openUluleRedis(_ context.Context, s *store, r bench.Rate) (limitClient, error) {
	c := newRedis(s)
	store, err := limiterredis.NewStore(c)
	if err != nil {
		return nil, err
	}
	return &ulule{limiter.New(store, limiter.Rate{Limit: int64(r.N), Period: r.Per}), c.Close}, nil
}

func (u *ulule) Allow(ctx context.Context, key string) (bool, error) {
	c, err := u.Get(ctx, key)
	return !c.Reached, err
}

func (u *ulule) Close() error { return u.close() }
