package cas_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/cas"
)

// distant is a store that is a millisecond away.
type distant struct{ *shelf }

func (d distant) Load(ctx context.Context, n cas.Name) (cas.Loaded[int], error) {
	time.Sleep(time.Millisecond / 2)
	defer time.Sleep(time.Millisecond / 2)
	return d.shelf.Load(ctx, n)
}

func (d distant) CompareAndSwap(ctx context.Context, n cas.Name, loaded int, c cas.Change) (bool, error) {
	time.Sleep(time.Millisecond / 2)
	defer time.Sleep(time.Millisecond / 2)
	return d.shelf.CompareAndSwap(ctx, n, loaded, c)
}

// Many writers on one cell: all get through within their time, and each
// is counted once.
func TestManyChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const writers, budget = 64, 2 * time.Second
		b := cas.New(info, cas.Optimistic(distant{newShelf()}))
		begin := time.Now()
		var wg sync.WaitGroup
		for range writers {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), budget)
				defer cancel()
				one, err := b.TakeOne(ctx, "k", normal(driver.Limit{Rate: 1000, Per: time.Hour}), n(1))
				if err != nil || one.N != 1 {
					t.Errorf("TakeOne: %+v, %v", one, err)
				}
			})
		}
		wg.Wait()
		t.Logf("%d writers took %v", writers, time.Since(begin))
		one, err := b.TakeOne(t.Context(), "k", normal(driver.Limit{Rate: 1000, Per: time.Hour}), driver.Ask{})
		if err != nil || one.Remaining != 1000-writers {
			t.Errorf("afterwards: %+v, %v, want %d remaining", one, err, 1000-writers)
		}
	})
}
