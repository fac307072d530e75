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
// sixteen times as many makes one that looks at all of them sixteen times as slow. It is
// timed in handfuls, the quickest of which is one that the machine did not interrupt.
func TestJanitorDoesNotSlowDownWithItsChores(t *testing.T) {
	const few, many, handful, handfuls, factor = 1000, 16_000, 50, 20, 6
	among := func(n int) time.Duration {
		f := newFake()
		hung := make(chan struct{})
		f.setIntercept(func(string, string) outcome { <-hung; return outcome{} })
		c := newTestClient(t, f)
		defer close(hung)
		now := c.clock.Now().Mono
		put := func(n int) {
			for range n {
				c.janitor.put(&chore{key: "k", id: "id", at: now, until: now + time.Hour, known: true})
			}
		}
		put(n)
		best := time.Hour
		for range handfuls {
			began := time.Now()
			put(handful)
			best = min(best, time.Since(began))
		}
		return best
	}
	if a, b := among(few), among(many); b > factor*a {
		t.Errorf("%d chores take %v among %d, %v among %d", handful, a, few, b, many)
	}
}
