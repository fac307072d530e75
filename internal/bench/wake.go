package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// look is how often one looks at what another does.
const look = 200 * time.Microsecond

// Wake measures how long it takes from the call of Unlock until a waiter of another client has the
// lock, and how often both had it: the two hand the key to and fro until the time is over.
func Wake[L Locker](ctx context.Context, sides [2]L, key string, until time.Time) (took Hist, overlaps int, err error) {
	var w handOver
	var hists [2]Hist
	var errs [2]error
	var wg sync.WaitGroup
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	for side := range sides {
		wg.Go(func() {
			if errs[side] = w.side(ctx, sides[side], key, side, until, &hists[side]); errs[side] != nil {
				end(errs[side])
			}
		})
	}
	wg.Wait()
	hists[0].Merge(&hists[1])
	return hists[0], w.register.Overlaps(), errors.Join(errs[:]...)
}

// handOver is where the two sides meet.
type handOver struct {
	register Register
	waiting  [2]atomic.Int64 // this side has called Lock
	released atomic.Int64    // when the lock was given back
	handed   atomic.Int64    // how often it went to the other
	over     atomic.Int64    // a side has seen the end
}

// enough reports whether the time is over. There is to be one hand-over at least.
func (w *handOver) enough(until time.Time) bool {
	return !time.Now().Before(until) && w.handed.Load() > 0
}

func (w *handOver) side(ctx context.Context, l Locker, key string, side int, until time.Time, h *Hist) error {
	mine, other := &w.waiting[side], &w.waiting[1-side]
	for {
		mine.Store(1)
		held, err := l.Lock(ctx, key)
		now := time.Now().UnixNano()
		if err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		w.register.Enter(int64(side + 1))
		mine.Store(0)
		if at := w.released.Swap(0); at != 0 {
			h.Add(time.Duration(now - at))
			w.handed.Add(1)
		}
		there := w.await(ctx, func() bool { return other.Load() == 1 }, func() bool { return w.enough(until) })
		if there {
			// The other has called Lock: let it come to rest, where it comes to rest at all.
			time.Sleep(5*time.Millisecond + rand.N(10*time.Millisecond))
			w.released.Store(time.Now().UnixNano())
		}
		w.register.Leave(int64(side + 1))
		if err := held.Unlock(ctx); err != nil {
			return fmt.Errorf("unlock: %w", err)
		}
		if !there || w.enough(until) {
			w.over.Store(1)
			return nil
		}
		// Not to be had again before the other has had it.
		if !w.await(ctx, func() bool { return other.Load() == 0 }, func() bool { return false }) {
			return fmt.Errorf("%w: the other side was not woken: %w", ErrHung, context.Cause(ctx))
		}
	}
}

// await polls for what the other side does, and reports whether it came before it was late or ctx
// ended. A side that has ended does nothing more.
func (w *handOver) await(ctx context.Context, is, late func() bool) bool {
	for !is() {
		if ctx.Err() != nil || w.over.Load() != 0 || late() {
			return is()
		}
		time.Sleep(look)
	}
	return true
}
