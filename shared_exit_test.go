package coord_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
)

// slowUnlock is a store whose exclusive locks, thus places in queues, are given back late.
type slowUnlock struct {
	polled
	after    time.Duration
	unlocked atomic.Int64
}

func (s *slowUnlock) Unlock(ctx context.Context, key, id string) error {
	time.Sleep(s.after)
	defer s.unlocked.Add(1)
	return s.polled.Unlock(ctx, key, id)
}

// A process may end when Unlock returns: nothing of its hold is at the store then, nor its place in the queue.
func TestUnlockLeavesNoPlaceInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		slow := &slowUnlock{polled: polled{store.Open()}, after: 100 * time.Millisecond}
		c, err := coord.New(slow)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		holder, err := coord.New(store.Open())
		if err != nil {
			t.Fatal(err)
		}
		defer holder.Close()
		held := mustShare(t, holder.Semaphore(1))
		time.AfterFunc(time.Second, func() { mustUnlock(t, held) })
		l, err := c.Semaphore(1).Lock(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		mustUnlock(t, l)
		if took := time.Since(begin); slow.unlocked.Load() != 1 || took > slow.after {
			t.Errorf("Unlock returned after %v, and %d places were given back: want one, within %v", took, slow.unlocked.Load(), slow.after)
		}
		held = mustShare(t, holder.Semaphore(1))
		time.AfterFunc(time.Second, func() { mustUnlock(t, held) })
		if l, err = c.Semaphore(1).Lock(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), slow.after/2)
		defer cancel()
		begin = time.Now()
		if err := l.Unlock(ctx); err != nil {
			t.Errorf("Unlock: %v", err)
		}
		if took := time.Since(begin); took > slow.after/2 {
			t.Errorf("Unlock returned after %v, its context ended after %v", took, slow.after/2)
		}
	})
}
