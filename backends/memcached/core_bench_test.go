package memcached_test

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memcached"
	"github.com/coordgo/coord/internal/testserver"
)

// clients are a bare client, and coord over clients of its own and over the bare one.
func clients(b *testing.B) (raw *memcache.Client, own, over *coord.Client) {
	srv := testserver.Memcached(b, testserver.WithFlags("-M"))
	raw = memcache.New(srv.Addr)
	raw.Timeout, raw.MaxIdleConns = time.Second, 64
	b.Cleanup(func() { raw.Close() })
	own, err := coord.Open(b.Context(), "memcached://"+srv.Addr)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { own.Close() })
	backend, err := memcached.New(raw)
	if err != nil {
		b.Fatal(err)
	}
	over, err = coord.New(backend)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { over.Close() })
	return raw, own, over
}

// bareLockUnlock is what a lock with a fencing token costs by hand: six commands.
func bareLockUnlock(raw *memcache.Client) error {
	value := bytes.Repeat([]byte("v"), 150) // as long as coord's
	if err := raw.Add(&memcache.Item{Key: "bare", Value: value, Expiration: 32}); err != nil {
		return err
	}
	item, err := raw.Get("bare")
	if err != nil {
		return err
	}
	if _, err := raw.Increment("bare-fence", 1); err != nil {
		return err
	}
	if err := raw.CompareAndSwap(item); err != nil {
		return err
	}
	if item, err = raw.Get("bare"); err != nil {
		return err
	}
	item.Expiration = -1
	return raw.CompareAndSwap(item)
}

func lockUnlock(ctx context.Context, client *coord.Client) func() error {
	return func() error {
		l, err := client.Lock(ctx, "bench")
		if err != nil {
			return err
		}
		return l.Unlock(ctx)
	}
}

func BenchmarkMemcachedLockUnlock(b *testing.B) {
	raw, own, over := clients(b)
	ctx := b.Context()
	if err := raw.Set(&memcache.Item{Key: "bare-fence", Value: []byte("1")}); err != nil {
		b.Fatal(err)
	}
	bare := func() error { return bareLockUnlock(raw) }
	b.Run("ratio", func(b *testing.B) { testserver.Ratio(b, bare, lockUnlock(ctx, own)) })
	b.Run("over the application's client, ratio", func(b *testing.B) { testserver.Ratio(b, bare, lockUnlock(ctx, over)) })
	for name, fn := range map[string]func() error{"bare": bare, "coord": lockUnlock(ctx, own)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := fn(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// bareIncrement reads, adds one and swaps, until nobody was faster.
func bareIncrement(raw *memcache.Client, key string) error {
	for {
		item, err := raw.Get(key)
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(item.Value))
		if err != nil {
			return err
		}
		item.Value = strconv.AppendInt(nil, int64(n+1), 10)
		if err := raw.CompareAndSwap(item); !errors.Is(err, memcache.ErrCASConflict) {
			return err
		}
	}
}

func BenchmarkMemcachedAllow(b *testing.B) {
	raw, client, _ := clients(b)
	ctx := b.Context()
	if err := raw.Set(&memcache.Item{Key: "bare", Value: []byte("0")}); err != nil {
		b.Fatal(err)
	}
	for name, limit := range limits() {
		b.Run(name, func(b *testing.B) {
			testserver.Ratio(b, func() error { return bareIncrement(raw, "bare") }, func() error {
				_, err := client.Allow(ctx, "bench", limit)
				return err
			})
		})
	}
}

func limits() map[string]coord.Limit {
	return map[string]coord.Limit{
		"sliding-window": coord.PerSecond(1_000_000_000),
		"token-bucket":   {Rate: 1_000_000, Per: time.Second, Burst: 1_000_000},
		"fixed-window":   {Rate: 1_000_000_000, Per: time.Second, Algorithm: coord.FixedWindow},
	}
}

// Twelve writers of one client on one key, against one that reads and swaps alone.
func BenchmarkMemcachedTwelveWriters(b *testing.B) {
	raw, client, _ := clients(b)
	if err := raw.Set(&memcache.Item{Key: "bare", Value: []byte("0")}); err != nil {
		b.Fatal(err)
	}
	const writers, each = 12, 100
	for name, limit := range limits() {
		b.Run(name, func(b *testing.B) {
			var ratios []float64
			for b.Loop() {
				start := time.Now()
				for range each {
					if err := bareIncrement(raw, "bare"); err != nil {
						b.Fatal(err)
					}
				}
				alone := each / time.Since(start).Seconds()
				start = time.Now()
				var wg sync.WaitGroup
				for range writers {
					wg.Go(func() {
						for range each {
							if _, err := client.Allow(b.Context(), "hot", limit); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				ratios = append(ratios, writers*each/time.Since(start).Seconds()/alone)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(testserver.Median(ratios), "×alone")
		})
	}
}
