package middleware

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(start)) // the bubble's clock begins in the past
		var g Throttle
		var told, counted atomic.Int64
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if skipped, ok := g.Pass(time.Second); ok {
					told.Add(1)
					counted.Store(skipped) // some of the others may have come first
				}
			})
		}
		wg.Wait()
		if told.Load() != 1 {
			t.Errorf("%d of 20 at once were told: want 1", told.Load())
		}
		time.Sleep(time.Second)
		if skipped, ok := g.Pass(time.Second); !ok || skipped+counted.Load() != 19 {
			t.Errorf("after a second: %v, %d skipped, %d before: want 19", ok, skipped, counted.Load())
		}
		if _, ok := g.Pass(time.Second); ok {
			t.Error("two were told within a second")
		}
	})
}
