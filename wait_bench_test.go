package coord

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
)

// farStore is a limiter that is one round trip away, and costs nothing else.
type farStore struct {
	*fakeLimits
	trip time.Duration
}

func (f *farStore) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (driver.TakenOne, error) {
	return driver.One(f.Take(ctx, key, l, []driver.Ask{a}))
}

func (f *farStore) Take(_ context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	time.Sleep(f.trip)
	f.mu.Lock()
	defer f.mu.Unlock()
	taken, _ := f.state(key, l).TakeEach(l, time.Now().UnixMicro(), asks)
	return taken, nil
}

// nearStore is a limiter in this process.
func nearStore() *farStore {
	f := &farStore{fakeLimits: newFakeLimits()}
	f.states = map[string]*limits.State{}
	f.info.Claims = append(f.info.Claims, driver.ScopeProcess)
	return f
}

// BenchmarkWait is waits for one limit that is far from reached, at a round trip of 1 ms and on a
// store in this process. Allow is there for comparison.
func BenchmarkWait(b *testing.B) {
	window, bucket := PerHour(1<<39), Limit{Rate: 1 << 30, Per: time.Second, Burst: 1 << 30}
	for _, tc := range []struct {
		name       string
		store      *farStore
		limit      Limit
		goroutines int
		call       func(*Client, context.Context, Limit) error
	}{
		{"window/1ms", &farStore{newFakeLimits(), time.Millisecond}, window, 500, waitOne},
		{"bucket/1ms", &farStore{newFakeLimits(), time.Millisecond}, bucket, 500, waitOne},
		{"allow/1ms", &farStore{newFakeLimits(), time.Millisecond}, window, 500, allowOne},
		{"window/here", nearStore(), window, 1, waitOne},
		{"bucket/here", nearStore(), bucket, 1, waitOne},
		{"window/here", nearStore(), window, 16, waitOne},
	} {
		b.Run(fmt.Sprint(tc.name, "/", tc.goroutines), func(b *testing.B) {
			c := newTestClient(b, tc.store)
			ctx := context.Background()
			b.ReportAllocs()
			b.ResetTimer()
			inParallel(b, tc.goroutines, func() error { return tc.call(c, ctx, tc.limit) })
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
		})
	}
}

func waitOne(c *Client, ctx context.Context, l Limit) error { return c.Wait(ctx, "k", l) }

func allowOne(c *Client, ctx context.Context, l Limit) error {
	_, err := c.Allow(ctx, "k", l)
	return err
}
