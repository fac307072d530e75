package coord

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/coordgo/coord/internal/errs"
)

// closeBound is how long Close works on giving holds back and cleaning up
// before it leaves the rest to their leases.
const closeBound = 2 * time.Second

// stopper waits until a condition on the client holds. Guarded by Client.mu.
type stopper struct {
	met  func() bool
	wake chan struct{}
}

// await returns when met is true, or ctx ends.
func (c *Client) await(ctx context.Context, met func() bool) error {
	s := &stopper{met, make(chan struct{})}
	c.mu.Lock()
	c.stoppers = append(c.stoppers, s)
	c.wakeStoppers()
	c.mu.Unlock()
	select {
	case <-s.wake:
		return nil
	case <-ctx.Done():
		return errs.OfContext(ctx)
	}
}

// wakeStoppers wakes those whose condition holds. Client.mu is held.
func (c *Client) wakeStoppers() {
	if c.stoppers == nil {
		return
	}
	waiting := c.stoppers[:0]
	for _, s := range c.stoppers {
		if s.met() {
			close(s.wake)
		} else {
			waiting = append(waiting, s)
		}
	}
	clear(c.stoppers[len(waiting):])
	c.stoppers = waiting
}

// Shutdown takes no new locks, waits until those held are unlocked or lost, and
// closes. Limits work until then. Waiters end with ErrClosed; owners may still
// re-enter what they hold. When ctx ends first, it closes all the same and
// returns ctx's cause.
func (c *Client) Shutdown(ctx context.Context) error {
	c.state.CompareAndSwap(stateOpen, stateDraining)
	c.stop()
	err := c.await(ctx, func() bool { return len(c.holds) == 0 && c.attempts == 0 })
	if err != nil {
		err = c.fail("shutdown", "", err)
	}
	return errors.Join(err, c.Close())
}

// Close ends every hold of the Client: first Done closes, then the holds are
// given back. Waiters end with ErrClosed. It takes at most a few seconds,
// whatever the store does, and leaves no goroutine. Closing twice is fine.
func (c *Client) Close() error {
	if c.state.Swap(stateClosed) == stateClosed {
		<-c.done
		return nil
	}
	defer close(c.done)
	c.stop()
	close(c.ended)
	c.permits.Stop()
	c.sched.stop()
	ctx, cancel := context.WithTimeout(context.Background(), closeBound)
	defer cancel()
	var giving sync.WaitGroup
	giving.Go(func() { c.releaseAll(ctx) })
	giving.Go(func() { c.permits.GiveBack(ctx) })
	giving.Wait()
	// Calls under way end by themselves: acquisitions see the state and withdraw
	// what they are granted, releases go on. One that is stuck in the store is
	// ended by closing the backend.
	_ = c.await(ctx, func() bool { return len(c.holds) == 0 && c.attempts == 0 })
	c.drainJanitor(ctx)
	err := c.backend.Close()
	c.bg.Wait()
	c.permits.Wait()
	if err != nil {
		return c.fail("close", "", err)
	}
	return nil
}

// drainJanitor does what is left to clean up. If a part of the store that hangs has used up
// ctx, the others have a moment more.
func (c *Client) drainJanitor(ctx context.Context) {
	if deadline, _ := ctx.Deadline(); time.Until(deadline) < unlockTry {
		more, cancel := context.WithTimeout(context.Background(), unlockTry)
		defer cancel()
		ctx = more
	}
	c.janitor.drain(ctx)
}
