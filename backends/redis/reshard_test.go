package redis

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/testserver"
)

// TestNightlyReshardUnderLoad: a slot goes round the masters of a cluster while ten goroutines
// lock a key in it. None is refused, none loses the lock, no two hold it, and a limit of
// the slot counts every permit.
func TestNightlyReshardUnderLoad(t *testing.T) {
	t.Parallel()
	c := testserver.RedisCluster(t, 0, silently)
	r := replicated{client: func() redis.UniversalClient { return clusterClient(c, nil) }}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	limit := coord.Limit{Rate: 1_000_000_000, Per: 24 * time.Hour}
	counter, permits := 0, 0 // both guarded by the lock
	var last coord.Token
	var holds atomic.Int64
	var wg sync.WaitGroup
	for range 5 {
		client := contender(t, r)
		for range 2 {
			wg.Go(func() {
				for ctx.Err() == nil {
					err := coord.Do(ctx, client, "k", func(held context.Context) error {
						l, _ := coord.Held(held, "k")
						if l.Token() <= last {
							t.Errorf("token %d after %d", l.Token(), last)
						}
						last = l.Token()
						counter++ // the race detector watches over it
						holds.Add(1)
						res, err := client.Allow(held, "k", limit)
						if err == nil && res.Allowed {
							permits++
						}
						return err
					})
					if err != nil && !errors.Is(err, context.Canceled) {
						t.Errorf("while the slot moves: %v", err)
						return
					}
				}
			})
		}
	}
	slot := c.RedisSlot(lockKey("k"))
	first := slices.Index(c.Nodes, c.RedisMaster(slot))
	for i := range 6 {
		move := c.BeginRedisMove(slot, c.Nodes[(first+i+1)%3])
		move.Keys()
		move.End()
		for before := holds.Load(); holds.Load() < before+20 && !t.Failed(); {
			time.Sleep(time.Millisecond)
		}
	}
	cancel()
	wg.Wait()
	res, err := contender(t, r).Peek(t.Context(), "k", limit)
	if err != nil {
		t.Fatal(err)
	}
	// The last calls, which were cancelled, may have taken a permit each.
	if taken := limit.Rate - res.Remaining; taken < permits || taken > permits+10 {
		t.Errorf("%d permits taken, %d given", taken, permits)
	}
	if int64(counter) != holds.Load() {
		t.Errorf("%d holds counted under the lock, of %d", counter, holds.Load())
	}
	t.Logf("%d holds while the slot moved six times", counter)
}
