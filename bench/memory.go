package main

import (
	"context"
	"sync"
	"time"

	golimiter "github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2/store/memstore"
	"github.com/ulule/limiter/v3"
	limitermemory "github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"

	"github.com/coordgo/coord/internal/bench"
)

func memorySubjects() []subject {
	byKey := new(sync.Map)
	return []subject{
		{store: "memory", name: "sync.Mutex by key", kind: floor, use: alone | contended, locks: openMutexes(new(sync.Map), (*sync.RWMutex).Lock, (*sync.RWMutex).Unlock), about: "woken"},
		{
			store: "memory", name: "sync.RWMutex by key", kind: floor, use: shared | amongReaders, about: "woken",
			locks: openMutexes(byKey, (*sync.RWMutex).Lock, (*sync.RWMutex).Unlock), reads: openMutexes(byKey, (*sync.RWMutex).RLock, (*sync.RWMutex).RUnlock),
		},
		{store: "memory", name: "x/time/rate by key", module: "golang.org/x/time", kind: floor, limits: openTimeRate, about: "token bucket; in a map, for keys"},
		{store: "memory", name: "go-limiter", module: "github.com/sethvargo/go-limiter", limits: openGoLimiter, about: "fixed window, from the first permit on"},
		{store: "memory", name: "throttled", module: "github.com/throttled/throttled/v2", limits: openThrottledMemory, about: "GCRA, burst = rate"},
		{store: "memory", name: "ulule/limiter", module: "github.com/ulule/limiter/v3", limits: openUluleMemory, about: "fixed window, from the first permit on"},
	}
}

// byKeyOf is what a map has for a key, made by make if it has nothing.
func byKeyOf[T any](m *sync.Map, key string, make func() *T) *T {
	v, ok := m.Load(key)
	if !ok {
		v, _ = m.LoadOrStore(key, make())
	}
	return v.(*T)
}

// openMutexes is the least that a lock in memory can be.
func openMutexes(byKey *sync.Map, enter, leave func(*sync.RWMutex)) opener {
	return func(context.Context, *store) (*locks, error) {
		return &locks{nothing, func(_ context.Context, key string) (unlock, error) {
			mu := byKeyOf(byKey, key, func() *sync.RWMutex { return new(sync.RWMutex) })
			enter(mu)
			return func(context.Context) error { leave(mu); return nil }, nil
		}}, nil
	}
}

// openTimeRate is x/time/rate, which knows no keys, in a map.
func openTimeRate(_ context.Context, _ *store, r bench.Rate) (*limits, error) {
	byKey := new(sync.Map)
	return &limits{nothing, func(_ context.Context, key string) (bool, error) {
		return byKeyOf(byKey, key, func() *rate.Limiter { return rate.NewLimiter(rate.Limit(float64(r.N)/r.Per.Seconds()), r.N) }).Allow(), nil
	}}, nil
}

func openGoLimiter(_ context.Context, _ *store, r bench.Rate) (*limits, error) {
	s, err := golimiter.New(&golimiter.Config{Tokens: uint64(r.N), Interval: r.Per})
	if err != nil {
		return nil, err
	}
	return &limits{func() error { return s.Close(context.Background()) }, func(ctx context.Context, key string) (bool, error) {
		_, _, _, ok, err := s.Take(ctx, key)
		return ok, err
	}}, nil
}

func openThrottledMemory(_ context.Context, _ *store, r bench.Rate) (*limits, error) {
	s, err := memstore.NewCtx(1 << 16)
	if err != nil {
		return nil, err
	}
	return gcra(s, r, nothing)
}

func openUluleMemory(_ context.Context, _ *store, r bench.Rate) (*limits, error) {
	s := limitermemory.NewStoreWithOptions(limiter.StoreOptions{Prefix: "bench", CleanUpInterval: time.Minute})
	return ulule(s, r, nothing), nil
}
