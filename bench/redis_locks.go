package main

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

func redisLocks() []subject {
	const bsm, rueidis = "github.com/bsm/redislock", "github.com/redis/rueidis"
	return []subject{
		{store: "redis", name: "SET NX PX + script", kind: floor, use: alone | shared, locks: openBareRedis},
		{store: "redis", name: "BLPOP + LPUSH", kind: floor, use: contended, locks: openBlockingPop, about: "woken, in order; no lease"},
		{store: "redis", name: "redislock, 100 ms", module: bsm, use: alone | contended, locks: openRedislock(100 * time.Millisecond), about: "polls every 100 ms, as its README does"},
		{store: "redis", name: "redislock, 1 ms", module: bsm, use: contended, locks: openRedislock(time.Millisecond), about: "polls every 1 ms"},
		{store: "redis", name: "redsync", module: "github.com/go-redsync/redsync/v4", use: alone | contended, locks: openRedsync, about: "polls every 50 to 250 ms, its default"},
		{store: "redis", name: "rueidislock, 1 key", module: rueidis, use: alone | contended, locks: openRueidislock(1), about: "woken by invalidations"},
		{store: "redis", name: "rueidislock, 3 keys", module: rueidis, use: alone | contended, locks: openRueidislock(2), about: "woken by invalidations; its default"},
	}
}

func newRedis(s *store) *redis.Client { return redis.NewClient(&redis.Options{Addr: s.addr}) }

var compareAndDelete = redis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`)

// openBareRedis is the least that a lock on Redis can be. It does not wait.
func openBareRedis(ctx context.Context, s *store) (*locks, error) {
	c := newRedis(s)
	return &locks{c.Close, func(ctx context.Context, key string) (unlock, error) {
		id := rand.Text()
		err := c.SetArgs(ctx, key, id, redis.SetArgs{Mode: "NX", TTL: ttl}).Err()
		return func(ctx context.Context) error { return compareAndDelete.EvalSha(ctx, c, []string{key}, id).Err() }, err
	}}, compareAndDelete.Load(ctx, c).Err()
}

// fillOnce makes the list, unless somebody has.
var fillOnce = redis.NewScript(`if redis.call("SET", KEYS[1] .. ":made", 1, "NX") then redis.call("LPUSH", KEYS[1], 1) end return 1`)

// openBlockingPop waits by BLPOP for the one element of a list: how soon Redis can wake anybody. The
// element is not a lease: it is gone with a process that dies.
func openBlockingPop(_ context.Context, s *store) (*locks, error) {
	c := redis.NewClient(&redis.Options{Addr: s.addr, PoolSize: 100})
	var made sync.Map // of keys whose list was seen to
	return &locks{c.Close, func(ctx context.Context, key string) (unlock, error) {
		if _, seen := made.Load(key); !seen {
			if err := fillOnce.Run(ctx, c, []string{key}).Err(); err != nil {
				return nil, err
			}
			made.Store(key, true)
		}
		err := c.BLPop(ctx, ttl, key).Err()
		return func(ctx context.Context) error { return c.LPush(ctx, key, 1).Err() }, err
	}}, nil
}

func openRedislock(retry time.Duration) opener {
	return func(_ context.Context, s *store) (*locks, error) {
		c := newRedis(s)
		locker, options := redislock.New(c), &redislock.Options{RetryStrategy: redislock.LinearBackoff(retry)}
		return &locks{c.Close, func(ctx context.Context, key string) (unlock, error) {
			l, err := locker.Obtain(ctx, key, ttl, options)
			if err != nil {
				return nil, err
			}
			return l.Release, nil
		}}, nil
	}
}

// openRedsync is redsync on one server. It tries on: the default of 32 attempts is an error under contention.
func openRedsync(_ context.Context, s *store) (*locks, error) {
	c := newRedis(s)
	sync := redsync.New(goredis.NewPool(c))
	return &locks{c.Close, func(ctx context.Context, key string) (unlock, error) {
		m := sync.NewMutex(key, redsync.WithExpiry(ttl), redsync.WithTries(1<<20))
		return func(ctx context.Context) error {
			_, err := m.UnlockContext(ctx)
			return err
		}, m.LockContext(ctx)
	}}, nil
}

func openRueidislock(majority int32) opener {
	return func(_ context.Context, s *store) (*locks, error) {
		l, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption:   rueidis.ClientOption{InitAddress: []string{s.addr}},
			KeyMajority:    majority,
			KeyValidity:    ttl,
			NoLoopTracking: true,
		})
		if err != nil {
			return nil, err
		}
		return &locks{func() error { l.Close(); return nil }, func(ctx context.Context, key string) (unlock, error) {
			_, cancel, err := l.WithContext(ctx, key)
			return func(context.Context) error { cancel(); return nil }, err
		}}, nil
	}
}
