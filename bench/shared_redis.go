package main

import (
	"context"
	"crypto/rand"
	mathrand "math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/internal/bench"
)

func sharedRedis() []subject {
	return []subject{
		{store: "redis", name: "SET NX PX + DEL", kind: bench.Floor, locks: openBareDelete, shares: alone},
		usedAt("redis", "SET NX PX + script", alone),
		{store: "redis", name: "sorted set of 16, 1 ms", kind: bench.Peer, locks: openSortedSet(permits, time.Millisecond), shares: alone | saturated, waits: "polls every 0.5 to 1.5 ms"},
		{store: "redis", name: "sorted set of 16, 10 ms", kind: bench.Peer, locks: openSortedSet(permits, 10*time.Millisecond), shares: saturated, waits: "polls every 5 to 15 ms"},
		{store: "redis", name: "sorted set of 1, 1 ms", kind: bench.Peer, locks: openSortedSet(1, time.Millisecond), shares: woken, waits: "polls every 0.5 to 1.5 ms"},
		{store: "redis", name: "sorted set of 1, 10 ms", kind: bench.Peer, locks: openSortedSet(1, 10*time.Millisecond), shares: woken, waits: "polls every 5 to 15 ms"},
	}
}

// bareDelete is bareRedis that gives back what may be another's.
type bareDelete struct{ *redis.Client }

type bareDeleteHeld struct {
	c   *redis.Client
	key string
}

func openBareDelete(_ context.Context, s *store) (lockClient, error) {
	return bareDelete{newRedis(s)}, nil
}

func (b bareDelete) Lock(ctx context.Context, key string) (bench.Held, error) {
	if err := b.SetArgs(ctx, key, rand.Text(), redis.SetArgs{Mode: "NX", TTL: ttl}).Err(); err != nil {
		return nil, err
	}
	return &bareDeleteHeld{b.Client, key}, nil
}

func (h *bareDeleteHeld) Unlock(ctx context.Context) error { return h.c.Del(ctx, h.key).Err() }

// sortedSet is the classical semaphore on Redis: a member for each holder, whose score is when its lease ends.
type sortedSet struct {
	*redis.Client
	of    int
	pause time.Duration
}

// enter adds ARGV[1] until ARGV[2] (ms), now being ARGV[3], if there are less than ARGV[4].
var enter = redis.NewScript(`
redis.call("ZREMRANGEBYSCORE", KEYS[1], "-inf", ARGV[3])
if redis.call("ZCARD", KEYS[1]) >= tonumber(ARGV[4]) then return 0 end
return redis.call("ZADD", KEYS[1], ARGV[2], ARGV[1])`)

func openSortedSet(of int, pause time.Duration) func(context.Context, *store) (lockClient, error) {
	return func(ctx context.Context, s *store) (lockClient, error) {
		c := newRedis(s)
		return sortedSet{c, of, pause}, enter.Load(ctx, c).Err()
	}
}

func (s sortedSet) Lock(ctx context.Context, key string) (bench.Held, error) {
	id := rand.Text()
	for {
		now := time.Now()
		entered, err := enter.EvalSha(ctx, s.Client, []string{key}, id, now.Add(ttl).UnixMilli(), now.UnixMilli(), s.of).Int()
		if err != nil {
			return nil, err
		}
		if entered == 1 {
			return &sortedSetHeld{s.Client, key, id}, nil
		}
		select {
		case <-time.After(s.pause/2 + mathrand.N(s.pause)):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

type sortedSetHeld struct {
	c       *redis.Client
	key, id string
}

func (h *sortedSetHeld) Unlock(ctx context.Context) error { return h.c.ZRem(ctx, h.key, h.id).Err() }
