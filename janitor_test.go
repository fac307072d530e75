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

// What the janitor does for one hold costs as much among many as among few. That it is
// sixteen times as many makes one that looks at all of them sixteen times as slow.
func TestJanitorDoesNotSlowDownWithItsChores(t *testing.T) {
	each := func(n int) time.Duration {
		f := newFake()
		hung := make(chan struct{})
		f.setIntercept(func(string, string) outcome { <-hung; return outcome{} })
		c := newTestClient(t, f)
		defer close(hung)
		now := c.clock.now().mono
		began := time.Now()
		for range n {
			c.janitor.put(&chore{key: "k", id: "id", at: now, until: now + time.Hour, known: true})
		}
		return time.Since(began) / time.Duration(n)
	}
	const few, many, factor = 1000, 16_000, 6
	var best [2]time.Duration
	for range 5 {
		for i, n := range []int{few, many} {
			if d := each(n); best[i] == 0 || d < best[i] {
				best[i] = d
			}
		}
	}
	if best[1] > factor*best[0] {
		t.Errorf("a chore takes %v among %d, %v among %d", best[0], few, best[1], many)
	}
}
