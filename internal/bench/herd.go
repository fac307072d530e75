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

// Herd waits for one key with n goroutines, each of which gives it back at once and is done.
// The numbers of its goroutines begin at first.
func Herd(ctx context.Context, l Locker, key string, n, first int, words *Words) error {
	errs := make(chan error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			words.herd.waiting.Add(1)
			held, err := l.Lock(ctx, key)
			if err != nil {
				errs <- fmt.Errorf("lock: %w", err)
				return
			}
			who := int64(first + i + 1)
			words.register.Enter(who)
			words.register.Leave(who)
			if err := held.Unlock(ctx); err != nil {
				errs <- fmt.Errorf("unlock: %w", err)
				return
			}
			words.herd.last.Store(wall())
			words.herd.done.Add(1)
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

// HerdSample is what a herd did to the store.
type HerdSample struct {
	Waiting  time.Duration // for how long requests were counted while nothing moved
	Idle     float64       // requests meanwhile
	Drain    time.Duration // from Unlock until all n had had the lock
	Drained  float64       // requests meanwhile
	Overlaps int
}

// HoldUp holds the key that a herd of n waits for, counts what the store is asked meanwhile, and
// lets go. start starts the herd, in this process or others; count is the number of requests that
// the store has had so far.
func HoldUp(ctx context.Context, l Locker, key string, n int, hold time.Duration, words *Words, start func(), count func() float64) (*HerdSample, error) {
	held, err := l.Lock(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	start()
	if err := words.herd.await(ctx, &words.herd.waiting, n); err != nil {
		return nil, fmt.Errorf("%d of %d waiters came: %w", words.herd.waiting.Load(), n, err)
	}
	time.Sleep(hold / 4) // until the last of them has asked
	var s HerdSample
	before, began := count(), time.Now()
	time.Sleep(hold)
	s.Idle, s.Waiting = count()-before, time.Since(began)
	before, began = count(), time.Now()
	if err := held.Unlock(ctx); err != nil {
		return nil, fmt.Errorf("unlock: %w", err)
	}
	if err := words.herd.await(ctx, &words.herd.done, n); err != nil {
		return nil, fmt.Errorf("%w: %d of %d waiters had the lock in %v: %w", ErrHung, words.herd.done.Load(), n, time.Since(began).Round(time.Millisecond), err)
	}
	s.Drain, s.Drained = time.Duration(words.herd.last.Load()-began.UnixNano()), count()-before
	s.Overlaps = words.register.Overlaps()
	return &s, nil
}

func (*herdWords) await(ctx context.Context, w *atomic.Int64, n int) error {
	for w.Load() < int64(n) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		time.Sleep(look)
	}
	return nil
}
