package guide

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
)

func sharingClients(t *testing.T, n int) (clients []*coord.Client) {
	t.Helper()
	store := memory.NewStore()
	for range n {
		c, err := coord.New(store.Open(), coord.WithLockDefaults(coord.TTL(3*time.Second)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		clients = append(clients, c)
	}
	return clients
}

// Twenty permits are never exceeded, and large jobs get theirs.
func TestRender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sharingClients(t, 1)[0]
		var now, most atomic.Int64
		var all sync.WaitGroup
		for i := range 60 {
			all.Go(func() {
				weight := int64(1)
				if i%5 == 0 {
					weight = 4
				}
				err := render(t.Context(), c, weight == 4, func(context.Context) error {
					if n := now.Add(weight); n > most.Load() {
						most.Store(n)
					}
					time.Sleep(time.Second)
					now.Add(-weight)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if most.Load() > 20 || most.Load() < 17 {
			t.Errorf("%d permits at once, want 20, or a few less", most.Load())
		}
	})
}

// A search waits for a rebuild, and not for its check.
func TestRebuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sharingClients(t, 2)
		begin := time.Now()
		var rebuilding sync.WaitGroup
		rebuilding.Go(func() {
			step := func(d time.Duration) func(context.Context) error {
				return func(context.Context) error { time.Sleep(d); return nil }
			}
			if err := rebuild(t.Context(), c[0], step(10*time.Second), step(time.Minute)); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		err := search(t.Context(), c[1], func(context.Context) error { return nil })
		if waited := time.Since(begin); err != nil || waited < 10*time.Second || waited > 11*time.Second {
			t.Errorf("the search came after %v: %v, want after the rebuild, beside its check", waited, err)
		}
		rebuilding.Wait()
	})
}

// When a worker ends, the others have its shards.
func TestDivideWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sharingClients(t, 3)
		var mu sync.Mutex
		has := make([][]int, len(c))
		var working sync.WaitGroup
		stops := make([]context.CancelFunc, len(c))
		for i := range c {
			ctx, stop := context.WithCancel(t.Context())
			stops[i] = stop
			working.Go(func() {
				err := divideWork(ctx, c[i], "worker", 7, func(shards []int) {
					mu.Lock()
					defer mu.Unlock()
					has[i] = shards
				})
				if !errors.Is(err, context.Canceled) {
					t.Errorf("worker %d: %v", i, err)
				}
				mu.Lock()
				defer mu.Unlock()
				has[i] = nil
			})
			synctest.Wait()
		}
		want := []int{0, 1, 2, 3, 4, 5, 6}
		all := func() []int {
			mu.Lock()
			defer mu.Unlock()
			return slices.Sorted(slices.Values(slices.Concat(has...)))
		}
		time.Sleep(10 * time.Second)
		if got := all(); !slices.Equal(got, want) {
			t.Errorf("three workers have %v, want %v", got, want)
		}
		stops[1]()
		time.Sleep(10 * time.Second)
		if got := all(); !slices.Equal(got, want) {
			t.Errorf("two workers have %v, want %v", got, want)
		}
		stops[0]()
		stops[2]()
		working.Wait()
	})
}
