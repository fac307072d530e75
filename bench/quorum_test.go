package main

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/quorum"
	"github.com/coordgo/coord/internal/testserver"
)

// BenchmarkQuorum takes and gives back a lock on three servers of Redis, with coord and with redsync in turn, and then
// while one server hangs. It waits until the servers have a vote. Run it with -benchtime 1x: each figure is of some
// seconds of calls.
func BenchmarkQuorum(b *testing.B) {
	const each = 5 * time.Second
	servers := []*testserver.Server{testserver.Redis(b), testserver.Redis(b), testserver.Redis(b)}
	ready := time.Now().Add(time.Minute + time.Second)
	ctx := context.Background()
	urls := make([]string, len(servers))
	pools := make([]redsyncredis.Pool, len(servers))
	for i, s := range servers {
		urls[i] = "redis://" + s.Addr
		client := redis.NewClient(&redis.Options{Addr: s.Addr, ContextTimeoutEnabled: true})
		b.Cleanup(func() { _ = client.Close() }) // of a peer's: it has no part in the figures
		pools[i] = goredis.NewPool(client)
	}
	locks, _, err := quorum.Open(ctx, urls...)
	if err != nil {
		b.Fatal(err)
	}
	client, err := coord.New(locks)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := client.Close(); err != nil {
			b.Error(err)
		}
	})
	peer := redsync.New(pools...)
	time.Sleep(time.Until(ready))
	subjects := []struct {
		name string
		once func(key string) error
	}{
		{"coord", func(key string) error {
			l, err := client.Lock(ctx, key, coord.TTL(8*time.Second))
			if err != nil {
				return err
			}
			return l.Unlock(ctx)
		}},
		{"redsync", func(key string) error {
			m := peer.NewMutex(key)
			if err := m.LockContext(ctx); err != nil {
				return err
			}
			_, err := m.UnlockContext(ctx)
			return err
		}},
	}
	for _, hung := range []int{-1, 0, 2} {
		state := "healthy"
		if hung >= 0 {
			state = fmt.Sprintf("member-%d-hangs", hung+1)
			servers[hung].Pause()
		}
		for _, s := range subjects {
			b.Run(state+"/"+s.name, func(b *testing.B) {
				var took []time.Duration
				for begun := time.Now(); time.Since(begun) < each || len(took) == 0; {
					start := time.Now()
					if err := s.once(fmt.Sprintf("%s/%s/%d", state, s.name, len(took))); err != nil {
						b.Fatal(err)
					}
					took = append(took, time.Since(start))
				}
				slices.Sort(took)
				b.ReportMetric(float64(len(took)), "locks")
				b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
			})
		}
		if hung >= 0 {
			servers[hung].Resume()
			time.Sleep(10 * time.Second) // go-redis dials it again, after a dial that may be under way for five
		}
	}
}
