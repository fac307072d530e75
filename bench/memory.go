package main

import (
	"context"
	"sync"
	"time"

	golimiter "github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2/store/memstore"
	"github.com/ulule/limiter/v3"
	limitermemory "github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"

	"github.com/coordgo/coord/internal/bench"
)

func memorySubjects() []subject {
	return []subject{
		{store: "memory", name: "sync.Mutex by key", kind: bench.Floor, locks: openMutexes, waits: "woken"},
		{store: "memory", name: "x/time/rate by key", module: "golang.org/x/time", kind: bench.Floor, limits: openTimeRate, limit: "token bucket; in a map, for keys"},
		{store: "memory", name: "go-limiter", module: "github.com/sethvargo/go-limiter", kind: bench.Peer, limits: openGoLimiter, limit: "fixed window, from the first permit on"},
		{store: "memory", name: "throttled", module: "github.com/throttled/throttled/v2", kind: bench.Peer, limits: openThrottledMemory, limit: "GCRA, burst = rate"},
		{store: "memory", name: "ulule/limiter", module: "github.com/ulule/limiter/v3", kind: bench.Peer, limits: openUluleMemory, limit: "fixed window, from the first permit on"},
	}
}

func nothing() error { return nil }

// mutexes is the least that a lock in memory can be.
type mutexes struct{ byKey sync.Map }

type mutexHeld sync.Mutex

func (h *mutexHeld) Unlock(context.Context) error {
	(*sync.Mutex)(h).Unlock()
	return nil
}

func openMutexes(context.Context, *store) (lockClient, error) { return new(mutexes), nil }

func (m *mutexes) Lock(_ context.Context, key string) (bench.Held, error) {
	v, ok := m.byKey.Load(key)
	if !ok {
		v, _ = m.byKey.LoadOrStore(key, new(sync.Mutex))
	}
	mu := v.(*sync.Mutex)
	mu.Lock()
	return (*mutexHeld)(mu), nil
}

func (*mutexes) Close() error { return nil }

// timeRate is x/time/rate, which knows no keys, in a map.
type timeRate struct {
	byKey sync.Map
	limit rate.Limit
	burst int
}

func openTimeRate(_ context.Context, _ *store, r bench.Rate) (limitClient, error) {
	return &timeRate{limit: rate.Limit(float64(r.N) / r.Per.Seconds()), burst: r.N}, nil
}

func (t *timeRate) Allow(_ context.Context, key string) (bool, error) {
	v, ok := t.byKey.Load(key)
	if !ok {
		v, _ = t.byKey.LoadOrStore(key, rate.NewLimiter(t.limit, t.burst))
	}
	return v.(*rate.Limiter).Allow(), nil
}

func (*timeRate) Close() error { return nil }

type goLimiter struct{ golimiter.Store }

func openGoLimiter(_ context.Context, _ *store, r bench.Rate) (limitClient, error) {
	s, err := memorystore.New(&memorystore.Config{Tokens: uint64(r.N), Interval: r.Per})
	return goLimiter{s}, err
}

func (g goLimiter) Allow(ctx context.Context, key string) (bool, error) {
	_, _, _, ok, err := g.Take(ctx, key)
	return ok, err
}

func (g goLimiter) Close() error { return g.Store.Close(context.Background()) }

func openThrottledMemory(_ context.Context, _ *store, r bench.Rate) (limitClient, error) {
	s, err := memstore.NewCtx(1 << 16)
	if err != nil {
		return nil, err
	}
	return newGCRA(s, r, nothing)
}

func openUluleMemory(_ context.Context, _ *store, r bench.Rate) (limitClient, error) {
	s := limitermemory.NewStoreWithOptions(limiter.StoreOptions{Prefix: "bench", CleanUpInterval: time.Minute})
	return &ulule{limiter.New(s, limiter.Rate{Limit: int64(r.N), Period: r.Per}), nothing}, nil
}
