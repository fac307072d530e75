package coord

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Many holds that are lost in one moment are all told before anything is sent for one of them:
// the last must not learn of it when the first is another's already.
func TestManyLossesAreToldBeforeCleaningUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 2000
		f := newFake()
		c := newTestClient(t, f)
		locks := make([]*Lock, n)
		for i := range locks {
			locks[i] = must[*Lock](t)(c.Lock(t.Context(), fmt.Sprint("k", i), TTL(time.Second)))
			_ = locks[i].Done()
		}
		var untold atomic.Int64
		var looked atomic.Bool
		f.setIntercept(func(op, _ string) outcome {
			if op == "unlock" && looked.CompareAndSwap(false, true) {
				for _, l := range locks {
					if !isClosed(l.Done()) {
						untold.Add(1)
					}
				}
			}
			return outcome{before: errWire}
		})
		time.Sleep(time.Second)
		synctest.Wait()
		if !looked.Load() {
			t.Fatal("nothing was cleaned up")
		}
		if left := untold.Load(); left != 0 {
			t.Errorf("%d of %d did not know when the first was being freed", left, n)
		}
	})
}
