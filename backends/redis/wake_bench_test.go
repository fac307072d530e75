package redis_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/redis"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// BenchmarkRedisWakeUp is how long after its release a lock is another client's that
// waited for it, next to how long after a push a blocking pop returns, in turn on
// the same server.
func BenchmarkRedisWakeUp(b *testing.B) {
	b.Run("server", func(b *testing.B) { wakeUp(b, redisClient) })
	b.Run("cluster", func(b *testing.B) { wakeUp(b, redisClusterClient) })
}

func wakeUp(b *testing.B, open func(*testing.B) (goredis.UniversalClient, *coord.Client)) {
	ctx := context.Background()
	raw, holder := open(b)
	other, waiter := second(b, raw)
	var pops, locks []time.Duration
	for b.Loop() {
		pops = append(pops, popAfterPush(b, ctx, raw, other))
		locks = append(locks, lockAfterUnlock(b, ctx, holder, waiter))
	}
	slices.Sort(pops)
	slices.Sort(locks)
	at := func(d []time.Duration, share float64) float64 {
		return float64(d[int(share*float64(len(d)-1))].Microseconds())
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(at(pops, 0.5), "p50-µs/BLPOP")
	b.ReportMetric(at(pops, 0.99), "p99-µs/BLPOP")
	b.ReportMetric(at(locks, 0.5), "p50-µs/Lock")
	b.ReportMetric(at(locks, 0.99), "p99-µs/Lock")
	b.ReportMetric(at(locks, 0.5)/at(pops, 0.5), "×BLPOP")
}

// second is another client of the same servers.
func second(b *testing.B, raw goredis.UniversalClient) (goredis.UniversalClient, *coord.Client) {
	switch c := raw.(type) {
	case *goredis.Client:
		return over(b, goredis.NewClient(c.Options()))
	case *goredis.ClusterClient:
		return over(b, goredis.NewClusterClient(c.Options()))
	default:
		b.Fatalf("%T", raw)
		return nil, nil
	}
}

// settling is how long a waiter is given to be asleep at the server.
const settling = time.Millisecond

func popAfterPush(b *testing.B, ctx context.Context, from, to goredis.UniversalClient) time.Duration {
	popped := make(chan time.Time, 1)
	go func() {
		if err := to.BLPop(ctx, time.Minute, "list").Err(); err != nil {
			b.Error(err)
		}
		popped <- time.Now()
	}()
	time.Sleep(settling)
	start := time.Now()
	if err := from.RPush(ctx, "list", "x").Err(); err != nil {
		b.Fatal(err)
	}
	return (<-popped).Sub(start)
}

func lockAfterUnlock(b *testing.B, ctx context.Context, holder, waiter *coord.Client) time.Duration {
	l, err := holder.Lock(ctx, "wake")
	if err != nil {
		b.Fatal(err)
	}
	locked := make(chan time.Time, 1)
	go func() {
		l, err := waiter.Lock(ctx, "wake")
		locked <- time.Now()
		if err == nil {
			err = l.Unlock(ctx)
		}
		if err != nil {
			b.Error(err)
		}
		locked <- time.Now()
	}()
	for {
		h, err := holder.Inspect(ctx, "wake")
		if err != nil {
			b.Fatal(err)
		}
		if h.Waiters == 1 {
			break
		}
	}
	time.Sleep(settling)
	start := time.Now()
	if err := l.Unlock(ctx); err != nil {
		b.Fatal(err)
	}
	took := (<-locked).Sub(start)
	<-locked
	return took
}

// BenchmarkRedisHerd is two hundred waiters in four clients, of which each takes the lock and
// gives it back.
func BenchmarkRedisHerd(b *testing.B) {
	const clients, each = 4, 50
	srv := testserver.Redis(b)
	ctx := context.Background()
	var stores [clients]driver.Backend
	for i := range stores {
		raw := goredis.NewClient(&goredis.Options{Addr: srv.Addr, ContextTimeoutEnabled: true, MaxRetries: -1})
		b.Cleanup(func() { raw.Close() })
		store, err := redis.New(raw)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { store.Close() })
		stores[i] = store
	}
	var drained time.Duration
	rounds := 0
	for b.Loop() {
		rounds++
		first := driver.Request{ID: "first" + strconv.Itoa(rounds), TTL: time.Minute}
		if _, err := stores[0].TryLock(ctx, "herd", first); err != nil {
			b.Fatal(err)
		}
		var wg sync.WaitGroup
		for i := range clients * each {
			wg.Go(func() {
				s := stores[i%clients]
				r := driver.Request{ID: strconv.Itoa(rounds) + "-" + strconv.Itoa(i), TTL: time.Minute}
				if _, err := s.Lock(ctx, "herd", r, func() {}); err != nil {
					b.Error(err)
					return
				}
				if err := s.Unlock(ctx, "herd", r.ID); err != nil {
					b.Error(err)
				}
			})
		}
		for waiting := 0; waiting < clients*each; {
			h, err := stores[0].Inspect(ctx, "herd")
			if err != nil {
				b.Fatal(err)
			}
			waiting = h.Waiters
		}
		start := time.Now()
		if err := stores[0].Unlock(ctx, "herd", first.ID); err != nil {
			b.Fatal(err)
		}
		wg.Wait()
		drained += time.Since(start)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(drained.Microseconds())/float64(rounds*clients*each), "µs/hand-over")
}
