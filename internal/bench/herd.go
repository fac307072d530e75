package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// HerdSample is what a herd did to the store.
type HerdSample struct {
	Waiting  time.Duration // for how long requests were counted while nothing moved
	Idle     float64       // requests meanwhile
	Drain    time.Duration // from Unlock until all had had the lock
	Drained  float64       // requests meanwhile
	Overlaps int
}

// HoldUp holds a key for which n goroutines of the waiting clients wait, counts what the store is
// asked meanwhile, and lets go: each of them has the key once, and gives it back. The first that
// fails ends it for all. count is the number of requests that the store has had so far.
func HoldUp[L Locker](ctx context.Context, holder L, waiting []L, key string, n int, hold time.Duration, count func() (float64, error)) (*HerdSample, error) {
	held, err := holder.Lock(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var h herd
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if err := h.have(ctx, waiting[i%len(waiting)], key, int64(i+1)); err != nil {
				end(fmt.Errorf("a waiter: %w", err))
			}
		})
	}
	s, err := h.holdUp(ctx, held, n, hold, count)
	if err != nil {
		end(err)
	}
	wg.Wait()
	return s, err
}

// herd is what those who wait have done.
type herd struct {
	register    Register
	asked, done atomic.Int64
	last        atomic.Int64 // when the last one had had the lock
}

// have waits for key, as one of a herd, and gives it back.
func (h *herd) have(ctx context.Context, l Locker, key string, who int64) error {
	h.asked.Add(1)
	held, err := l.Lock(ctx, key)
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	h.register.Enter(who)
	h.register.Leave(who)
	if err := held.Unlock(ctx); err != nil {
		return fmt.Errorf("unlock: %w", err)
	}
	h.last.Store(time.Now().UnixNano())
	h.done.Add(1)
	return nil
}

func (h *herd) holdUp(ctx context.Context, held Held, n int, hold time.Duration, count func() (float64, error)) (*HerdSample, error) {
	if err := await(ctx, &h.asked, n); err != nil {
		return nil, fmt.Errorf("%d of %d waiters came: %w", h.asked.Load(), n, err)
	}
	if err := rest(ctx, hold/4); err != nil { // until the last of them has asked
		return nil, err
	}
	var s HerdSample
	began := time.Now()
	err := counted(count, &s.Idle, func() error { return rest(ctx, hold) })
	if err != nil {
		return nil, err
	}
	s.Waiting, began = time.Since(began), time.Now()
	err = counted(count, &s.Drained, func() error {
		if err := held.Unlock(ctx); err != nil {
			return fmt.Errorf("unlock: %w", err)
		}
		err := await(ctx, &h.done, n)
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("%w: %d of %d waiters had the lock in %v: %w", ErrHung, h.done.Load(), n, time.Since(began).Round(time.Millisecond), err)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	s.Drain, s.Overlaps = time.Duration(h.last.Load()-began.UnixNano()), h.register.Overlaps()
	return &s, nil
}

// counted sets n to how much higher the count is after do.
func counted(count func() (float64, error), n *float64, do func() error) error {
	before, err := count()
	if err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	after, err := count()
	*n = after - before
	return err
}

// await polls until n have been counted, or ctx ends.
func await(ctx context.Context, w *atomic.Int64, n int) error {
	for w.Load() < int64(n) {
		if err := rest(ctx, look); err != nil {
			return err
		}
	}
	return nil
}

// rest sleeps, unless ctx ends.
func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
