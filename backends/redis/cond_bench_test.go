package redis_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/coordgo/coord"
)

// BenchmarkRedisCond is how long after a signal a waiter of a condition goes on, with the lock that the one who signals
// gives back, next to how long after its release a lock is another client's that waited for it, in turn on the same
// server.
func BenchmarkRedisCond(b *testing.B) {
	ctx := context.Background()
	raw, holder := redisClient(b)
	_, waiter := second(b, raw)
	var locks, signals []time.Duration
	for b.Loop() {
		locks = append(locks, lockAfterUnlock(b, ctx, holder, waiter))
		signals = append(signals, waitAfterSignal(b, ctx, holder, waiter))
	}
	slices.Sort(locks)
	slices.Sort(signals)
	at := func(d []time.Duration, share float64) float64 {
		return float64(d[int(share*float64(len(d)-1))].Microseconds())
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(at(locks, 0.5), "p50-µs/Lock")
	b.ReportMetric(at(locks, 0.99), "p99-µs/Lock")
	b.ReportMetric(at(signals, 0.5), "p50-µs/Cond")
	b.ReportMetric(at(signals, 0.99), "p99-µs/Cond")
	b.ReportMetric(at(signals, 0.5)/at(locks, 0.5), "×Lock")
}

func waitAfterSignal(b *testing.B, ctx context.Context, signaller, waiter *coord.Client) time.Duration {
	under, woken := make(chan struct{}), make(chan time.Time, 1)
	done := make(chan error, 1)
	go func() {
		done <- coord.Do(ctx, waiter, "cond", func(ctx context.Context) error {
			close(under)
			defer func() { woken <- time.Now() }()
			return waiter.Cond("cond").Wait(ctx)
		})
	}()
	<-under
	var start time.Time
	err := coord.Do(ctx, signaller, "cond", func(ctx context.Context) error { // once it waits, for it has given the lock up
		time.Sleep(settling)
		start = time.Now()
		return signaller.Cond("cond").Signal(ctx)
	})
	if err != nil {
		b.Fatal(err)
	}
	took := (<-woken).Sub(start)
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	return took
}
