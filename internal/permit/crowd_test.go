package permit

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
)

// A crowd on a store that is far away is answered in time, however large it is.
func TestCrowdIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f := newPool(t, nil)
		f.before = func() { time.Sleep(20 * time.Millisecond) }
		d := demand(t, "k", driver.Limit{Rate: 1_000_000, Per: time.Hour}, 1)
		var wg sync.WaitGroup
		var late atomic.Int64
		const each, ms = 40, 500
		for range ms {
			for range each {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
					defer cancel()
					var r Result
					if _, err := p.Take(ctx, &r, d, driver.Ask{Min: 1, N: 1}); err != nil {
						late.Add(1)
					}
				})
			}
			time.Sleep(time.Millisecond)
		}
		wg.Wait()
		if n := late.Load(); n > 0 {
			t.Errorf("%d of %d requests had no answer in time", n, each*ms)
		}
	})
}
