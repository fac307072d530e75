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

	"github.com/coordgo/coord/internal/bench"
)

func redisLocks() []subject {
	return []subject{
		{store: "redis", name: "SET NX PX + script", kind: bench.Floor, uses: uncontended, locks: openBareRedis},
		{store: "redis", name: "BLPOP + LPUSH", kind: bench.Floor, uses: contended, locks: openBlockingPop, waits: "woken, in order; no lease"},
		{store: "redis", name: "redislock, 100 ms", module: "github.com/bsm/redislock", kind: bench.Peer, locks: openRedislock(100 * time.Millisecond), waits: "polls every 100 ms, as its README does"},
		{store: "redis", name: "redislock, 1 ms", module: "github.com/bsm/redislock", kind: bench.Peer, uses: contended, locks: openRedislock(time.Millisecond), waits: "polls every 1 ms"},
		{store: "redis", name: "redsync", module: "github.com/go-redsync/redsync/v4", kind: bench.Peer, locks: openRedsync, waits: "polls every 50 to 250 ms, its default"},
		{store: "redis", name: "rueidislock, 1 key", module: "github.com/redis/rueidis", kind: bench.Peer, locks: openRueidislock(1), waits: "woken by invalidations"},
		{store: "redis", name: "rueidislock, 3 keys", module: "github.com/redis/rueidis", kind: bench.Peer, locks: openRueidislock(2), waits: "woken by invalidations; its default"},
	}
}

func newRedis(s *store) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.addr})
}

// bareRedis is the least that a lock on Redis can be. It does not wait.
type bareRedis struct{ *redis.Client }

var compareAndDelete = redis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`)

func openBareRedis(ctx context.Context, s *store) (lockClient, error) {
	c := newRedis(s)
	return bareRedis{c}, compareAndDelete.Load(ctx, c).Err()
}

type bareRedisHeld struct {
	c       *redis.Client
	key, id string
}

func (b bareRedis) Lock(ctx context.Context, key string) (bench.Held, error) {
	id := rand.Text()
	if err := b.SetArgs(ctx, key, id, redis.SetArgs{Mode: "NX", TTL: ttl}).Err(); err != nil {
		return nil, err
	}
	return &bareRedisHeld{b.Client, key, id}, nil
}

func (h *bareRedisHeld) Unlock(ctx context.Context) error {
	return compareAndDelete.EvalSha(ctx, h.c, []string{h.key}, h.id).Err()
}

// blockingPop waits by BLPOP for the one element of a list: how soon Redis can wake anybody. The
// element is not a lease: it is gone with a process that dies.
type blockingPop struct {
	*redis.Client
	made *sync.Map // of keys whose list was seen to
}

// fillOnce makes the list, unless somebody has.
var fillOnce = redis.NewScript(`if redis.call("SET", KEYS[1] .. ":made", 1, "NX") then redis.call("LPUSH", KEYS[1], 1) end return 1`)

func openBlockingPop(ctx context.Context, s *store) (lockClient, error) {
	c := redis.NewClient(&redis.Options{Addr: s.addr, PoolSize: 100})
	return blockingPop{c, new(sync.Map)}, nil
}

type blockingPopHeld struct {
	c   *redis.Client
	key string
}

func (b blockingPop) Lock(ctx context.Context, key string) (bench.Held, error) {
	if _, seen := b.made.Load(key); !seen {
		if err := fillOnce.Run(ctx, b.Client, []string{key}).Err(); err != nil {
			return nil, err
		}
		b.made.Store(key, true)
	}
	if err := b.BLPop(ctx, ttl, key).Err(); err != nil {
		return nil, err
	}
	return &blockingPopHeld{b.Client, key}, nil
}

func (h *blockingPopHeld) Unlock(ctx context.Context) error {
	return h.c.LPush(ctx, h.key, 1).Err()
}

// bsm is redislock.
type bsm struct {
	redis   *redis.Client
	locker  *redislock.Client
	options *redislock.Options
}

type bsmHeld redislock.Lock

func (h *bsmHeld) Unlock(ctx context.Context) error { return (*redislock.Lock)(h).Release(ctx) }

func openRedislock(retry time.Duration) func(context.Context, *store) (lockClient, error) {
	return func(_ context.Context, s *store) (lockClient, error) {
		c := newRedis(s)
		return &bsm{c, redislock.New(c), &redislock.Options{RetryStrategy: redislock.LinearBackoff(retry)}}, nil
	}
}

func (b *bsm) Lock(ctx context.Context, key string) (bench.Held, error) {
	l, err := b.locker.Obtain(ctx, key, ttl, b.options)
	if err != nil {
		return nil, err
	}
	return (*bsmHeld)(l), nil
}

func (b *bsm) Close() error { return b.redis.Close() }

// redsyncs is redsync on one server.
type redsyncs struct {
	redis *redis.Client
	*redsync.Redsync
}

type redsyncHeld redsync.Mutex

func (h *redsyncHeld) Unlock(ctx context.Context) error {
	_, err := (*redsync.Mutex)(h).UnlockContext(ctx)
	return err
}

func openRedsync(_ context.Context, s *store) (lockClient, error) {
	c := newRedis(s)
	return &redsyncs{c, redsync.New(goredis.NewPool(c))}, nil
}

// Lock tries on: the default of 32 attempts is an error under contention.
func (r *redsyncs) Lock(ctx context.Context, key string) (bench.Held, error) {
	m := r.NewMutex(key, redsync.WithExpiry(ttl), redsync.WithTries(1<<20))
	if err := m.LockContext(ctx); err != nil {
		return nil, err
	}
	return (*redsyncHeld)(m), nil
}

func (r *redsyncs) Close() error { return r.redis.Close() }

// rueidisLocks is rueidislock.
type rueidisLocks struct{ rueidislock.Locker }

type rueidisHeld context.CancelFunc

func (h rueidisHeld) Unlock(context.Context) error { h(); return nil }

func openRueidislock(majority int32) func(context.Context, *store) (lockClient, error) {
	return func(_ context.Context, s *store) (lockClient, error) {
		l, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption:   rueidis.ClientOption{InitAddress: []string{s.addr}},
			KeyMajority:    majority,
			KeyValidity:    ttl,
			NoLoopTracking: true,
		})
		if err != nil {
			return nil, err
		}
		return rueidisLocks{l}, nil
	}
}

func (r rueidisLocks) Lock(ctx context.Context, key string) (bench.Held, error) {
	_, cancel, err := r.WithContext(ctx, key)
	if err != nil {
		return nil, err
	}
	return rueidisHeld(cancel), nil
}

func (r rueidisLocks) Close() error {
	r.Locker.Close()
	return nil
}
