package main

import (
	"context"
	"crypto/rand"
	mathrand "math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
)

func redisShared() []subject {
	return []subject{
		{store: "redis", name: "sorted set of 16", use: shared | saturated, locks: openSortedSet(permits), about: "polls every 0.5 to 1.5 ms"},
		{store: "redis", name: "sorted set of 1", use: sharedWake, locks: openSortedSet(1), about: "polls every 0.5 to 1.5 ms"},
	}
}

// enter adds ARGV[1] until ARGV[2] (ms), now being ARGV[3], if there are less than ARGV[4].
var enter = redis.NewScript(`
redis.call("ZREMRANGEBYSCORE", KEYS[1], "-inf", ARGV[3])
if redis.call("ZCARD", KEYS[1]) >= tonumber(ARGV[4]) then return 0 end
return redis.call("ZADD", KEYS[1], ARGV[2], ARGV[1])`)

// openSortedSet is the classical semaphore on Redis: a member for each holder, whose score is when its lease ends.
func openSortedSet(of int) opener {
	return func(ctx context.Context, s *store) (*locks, error) {
		c := newRedis(s)
		return &locks{c.Close, func(ctx context.Context, key string) (unlock, error) {
			id := rand.Text()
			err := poll(ctx, time.Millisecond/2+mathrand.N(time.Millisecond), func() (bool, error) {
				now := time.Now()
				entered, err := enter.EvalSha(ctx, c, []string{key}, id, now.Add(ttl).UnixMilli(), now.UnixMilli(), of).Int()
				return entered == 1, err
			})
			return func(ctx context.Context) error { return c.ZRem(ctx, key, id).Err() }, err
		}}, enter.Load(ctx, c).Err()
	}
}

// poll tries until it succeeds.
func poll(ctx context.Context, every time.Duration, try func() (bool, error)) error {
	for {
		if ok, err := try(); ok || err != nil {
			return err
		}
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
