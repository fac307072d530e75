package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// herdWords is where a herd and the one it waits for meet.
type herdWords struct {
	waiting, done atomic.Int64
	settled       atomic.Bool
	// last is when the last waiter had had the lock.
	last atomic.Int64
}

// Herd waits for one key with n goroutines, each of which gives it back at once and is done. The
// first that fails ends it for all. The numbers of its goroutines begin at first.
func Herd(ctx context.Context, l Locker, key string, n, first int, words *Words) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	errs := make(chan error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if err := words.have(ctx, l, key, int64(first+i+1)); err != nil {
				errs <- err
				end()
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// have waits for key, as one of a herd, and gives it back.
func (w *Words) have(ctx context.Context, l Locker, key string, who int64) error {
	w.herd.waiting.Add(1)
	held, err := l.Lock(ctx, key)
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	w.register.Enter(who)
	w.register.Leave(who)
	if err := held.Unlock(ctx); err != nil {
		return fmt.Errorf("unlock: %w", err)
	}
	w.herd.last.Store(wall())
	w.herd.done.Add(1)
	return nil
}

// HerdSample is what a herd did to the store.
type HerdSample struct {
	Waiting  time.Duration // for how long requests were counted while nothing moved
	Idle     float64       // requests meanwhile
	Drain    time.Duration // from Unlock until all n had had the lock
	Drained  float64       // requests meanwhile
	Overlaps int
}

// HoldUp holds the key that a herd of n waits for, counts what the store is asked meanwhile, and
// lets go. herd is the herd, in this process or others, until each has had the key or one has
// failed: that ends it all. count is the number of requests that the store has had so far. HoldUp
// returns when herd has.
func HoldUp(ctx context.Context, l Locker, key string, n int, hold time.Duration, words *Words, herd func(context.Context) error, count func(context.Context) float64) (*HerdSample, error) {
	held, err := l.Lock(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var failed error
	over := make(chan struct{})
	go func() {
		defer close(over)
		if err := herd(ctx); err != nil {
			failed = fmt.Errorf("a waiter: %w", err)
			end(failed)
		}
	}()
	s, err := words.holdUp(ctx, held, n, hold, count)
	if err != nil {
		end(err)
	}
	<-over
	if failed != nil && (err == nil || context.Cause(ctx) == failed) { // not because it was ended
		return nil, failed
	}
	return s, err
}

func (w *Words) holdUp(ctx context.Context, held Held, n int, hold time.Duration, count func(context.Context) float64) (*HerdSample, error) {
	if err := await(ctx, &w.herd.waiting, n); err != nil {
		return nil, fmt.Errorf("%d of %d waiters came: %w", w.herd.waiting.Load(), n, err)
	}
	if err := rest(ctx, hold/4); err != nil { // until the last of them has asked
		return nil, err
	}
	var s HerdSample
	before, began := count(ctx), time.Now()
	if err := rest(ctx, hold); err != nil {
		return nil, err
	}
	s.Idle, s.Waiting = count(ctx)-before, time.Since(began)
	before, began = count(ctx), time.Now()
	if err := held.Unlock(ctx); err != nil {
		return nil, fmt.Errorf("unlock: %w", err)
	}
	if err := await(ctx, &w.herd.done, n); err != nil {
		return nil, fmt.Errorf("%w: %d of %d waiters had the lock in %v: %w", ErrHung, w.herd.done.Load(), n, time.Since(began).Round(time.Millisecond), err)
	}
	s.Drain, s.Drained = time.Duration(w.herd.last.Load()-began.UnixNano()), count(ctx)-before
	s.Overlaps = w.register.Overlaps()
	return &s, nil
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
