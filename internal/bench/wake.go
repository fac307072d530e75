package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// wakeWords is where the two sides of a hand-over meet.
type wakeWords struct {
	waiting  [2]atomic.Int64 // this side has called Lock
	released atomic.Int64    // when the lock was given back
	handed   atomic.Int64    // how often it went to the other
	over     atomic.Int64    // a side has seen the end
}

// enough reports whether the time is over. There is to be one hand-over at least.
func (w *wakeWords) enough(until time.Time) bool {
	return !time.Now().Before(until) && w.handed.Load() > 0
}

// look is how often a side looks at the words.
const look = 200 * time.Microsecond

// Wake measures how long it takes from the call of Unlock until a waiter has the lock. Two
// sides, 0 and 1, call it at once with the same words, each with a client of its own, and hand
// the key to and fro until the time is over. Each gives the times of its own waits.
func Wake(ctx context.Context, l Locker, key string, side int, until time.Time, words *Words) (*Hist, error) {
	w, h := &words.wake, new(Hist)
	mine, other := &w.waiting[side], &w.waiting[1-side]
	for {
		mine.Store(1)
		held, err := l.Lock(ctx, key)
		now := wall()
		if err != nil {
			return nil, fmt.Errorf("lock: %w", err)
		}
		words.register.Enter(int64(side + 1))
		mine.Store(0)
		if at := w.released.Swap(0); at != 0 {
			h.Add(time.Duration(now - at))
			w.handed.Add(1)
		}
		there := w.await(ctx, func() bool { return other.Load() == 1 }, func() bool { return w.enough(until) })
		if there {
			// The other has called Lock: let it come to rest, where it comes to rest at all.
			time.Sleep(5*time.Millisecond + rand.N(10*time.Millisecond))
			w.released.Store(wall())
		}
		words.register.Leave(int64(side + 1))
		if err := held.Unlock(ctx); err != nil {
			return nil, fmt.Errorf("unlock: %w", err)
		}
		if !there || w.enough(until) {
			w.over.Store(1)
			return h, nil
		}
		// Not to be had again before the other has had it.
		if !w.await(ctx, func() bool { return other.Load() == 0 }, func() bool { return false }) {
			return nil, fmt.Errorf("%w: the other side was not woken: %w", ErrHung, context.Cause(ctx))
		}
	}
}

// await polls for what the other side does, and reports whether it came before it was late or ctx
// ended. A side that has ended does nothing more.
func (w *wakeWords) await(ctx context.Context, is, late func() bool) bool {
	for !is() {
		if ctx.Err() != nil || w.over.Load() != 0 || late() {
			return is()
		}
		time.Sleep(look)
	}
	return true
}
