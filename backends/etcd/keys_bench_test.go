package etcd

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// BenchmarkManyKeys is goroutines of one client that lock and unlock a key each.
func BenchmarkManyKeys(b *testing.B) {
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprint("goroutines=", n), func(b *testing.B) {
			manyAtOnce(b, n, func(ctx context.Context, c *coord.Client, i int) error {
				l, err := c.Lock(ctx, fmt.Sprint("k", i))
				if err != nil {
					return err
				}
				return l.Unlock(ctx)
			})
		})
	}
}

// BenchmarkManyLimits is goroutines of one client that decide on a limit each.
func BenchmarkManyLimits(b *testing.B) {
	for _, n := range []int{64, 500} {
		b.Run(fmt.Sprint("goroutines=", n), func(b *testing.B) {
			limit := coord.PerSecond(1_000_000_000)
			manyAtOnce(b, n, func(ctx context.Context, c *coord.Client, i int) error {
				_, err := c.Allow(ctx, fmt.Sprint("k", i), limit)
				return err
			})
		})
	}
}

// manyAtOnce has n goroutines do it for two seconds. It reports how often they did, and what each time took of the
// server.
func manyAtOnce(b *testing.B, n int, do func(ctx context.Context, c *coord.Client, i int) error) {
	srv := testserver.Etcd(b)
	cfg, count := counting(clientConfig(srv.Addr))
	c := must[*coord.Client](b)(coord.New(must[driver.Backend](b)(New(rawWith(b, cfg)))))
	defer c.Close()
	var done atomic.Int64
	run := func(span time.Duration) {
		var wg sync.WaitGroup
		until := time.Now().Add(span)
		for i := range n {
			wg.Go(func() {
				for time.Now().Before(until) {
					if err := do(b.Context(), c, i); err != nil {
						b.Error(err)
						return
					}
					done.Add(1)
				}
			})
		}
		wg.Wait()
	}
	run(500 * time.Millisecond) // takes leases, and opens the streams
	done.Store(0)
	count.take()
	began, busy := time.Now(), cpuOf(b, srv.Pid())
	run(2 * time.Second)
	times, requests := float64(done.Load()), 0
	for _, n := range count.take() {
		requests += n
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(times/time.Since(began).Seconds(), "done/s")
	b.ReportMetric(float64((cpuOf(b, srv.Pid())-busy).Microseconds())/times, "server-µs/done")
	b.ReportMetric(float64(requests)/times, "requests/done")
}

// BenchmarkClientsOnOneKey is clients with a goroutine each that lock and unlock one key.
func BenchmarkClientsOnOneKey(b *testing.B) {
	const clients = 8
	srv := testserver.Etcd(b)
	cfg, count := counting(clientConfig(srv.Addr))
	var all [clients]*coord.Client
	for i := range all {
		all[i] = must[*coord.Client](b)(coord.New(must[driver.Backend](b)(New(rawWith(b, cfg)))))
		defer all[i].Close()
	}
	run := func(span time.Duration) (n int) {
		var wg sync.WaitGroup
		until := time.Now().Add(span)
		for _, c := range all {
			wg.Go(func() {
				for time.Now().Before(until) {
					l, err := c.Lock(b.Context(), "k")
					if err == nil {
						n++ // the lock guards it
						err = l.Unlock(b.Context())
					}
					if err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		return n
	}
	run(500 * time.Millisecond)
	count.take()
	began, busy := time.Now(), cpuOf(b, srv.Pid())
	times, requests := float64(run(3*time.Second)), 0
	for _, n := range count.take() {
		requests += n
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(times/time.Since(began).Seconds(), "locks/s")
	b.ReportMetric(float64((cpuOf(b, srv.Pid())-busy).Microseconds())/times, "server-µs/lock")
	b.ReportMetric(float64(requests)/times, "requests/lock")
}
