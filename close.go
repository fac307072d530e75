package coord

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/coordgo/coord/internal/errs"
	"github.com/coordgo/coord/internal/hold"
)

const (
	// closeBound is how long Close works on giving holds back and cleaning up
	// before it leaves the rest to their leases.
	closeBound = 2 * time.Second
	// stepBound is how long Close waits for one of these steps: a call that was begun in time ends later.
	stepBound = closeBound + 500*time.Millisecond
	// backendBound is how long the backend may take to close and to end the calls under way.
	backendBound = 5 * time.Second
)

// errStuck is the error of Close when calls under way do not end with their context, nor when the backend is closed.
var errStuck = errors.New("the store has not ended its calls: their goroutines are left behind")

// Shutdown takes no new locks, waits until those held are unlocked or lost, and
// closes. Limits work until then. Waiters end with ErrClosed; owners may still
// re-enter what they hold. When ctx ends first, it closes all the same and
// returns ctx's cause.
func (c *Client) Shutdown(ctx context.Context) error {
	c.state.CompareAndSwap(stateOpen, stateDraining)
	c.stopLocks()
	var err error
	for _, m := range c.engines() {
		if err == nil {
			err = m.AwaitIdle(ctx)
		}
	}
	if err != nil {
		err = c.fail("shutdown", "", err)
	}
	return errors.Join(err, c.Close())
}

// Close ends every hold of the Client: first Done closes, then the holds are
// given back. Waiters end with ErrClosed. It takes at most a few seconds,
// whatever the store does, and leaves no goroutine. Closing twice is fine.
//
// A driver that ignores contexts and its own Close can delay Close for up to
// ten seconds. Then the error is ErrUnavailable, and its calls are left behind.
func (c *Client) Close() error {
	if c.state.Swap(stateClosed) == stateClosed {
		<-c.done
		return nil
	}
	defer close(c.done)
	c.stopLocks()
	c.permits.Stop()
	c.overrides.close()
	ctx, cancel := context.WithTimeout(context.Background(), closeBound)
	defer cancel()
	var giving, cleaning sync.WaitGroup
	for _, m := range c.engines() {
		giving.Go(func() { m.GiveBack(ctx) })
	}
	giving.Go(func() { c.permits.GiveBack(ctx) })
	within(stepBound, giving.Wait)
	for _, m := range c.engines() {
		cleaning.Go(func() { m.CleanUp(ctx) })
	}
	within(stepBound, cleaning.Wait)
	closed := make(chan error, 1)
	if !within(backendBound, func() {
		err := c.calls.Quietly("close", c.backend.Close) // which ends the calls that are stuck in it
		giving.Wait()
		cleaning.Wait()
		for _, m := range c.engines() {
			m.Wait()
		}
		c.permits.Wait()
		c.overrides.wait()
		closed <- err
	}) {
		return c.fail("close", "", errs.Chain(ErrUnavailable, errStuck))
	}
	if err := <-closed; err != nil {
		return c.fail("close", "", err)
	}
	return nil
}

// stopLocks lets no lock begin any more.
func (c *Client) stopLocks() {
	for _, m := range c.engines() {
		m.Stop()
	}
}

// engines are those behind locks: shared ones first, for they queue in the others.
func (c *Client) engines() []*hold.Manager {
	if c.shared == nil {
		return []*hold.Manager{c.locks}
	}
	return []*hold.Manager{c.shared, c.locks}
}

// within runs fn, and reports whether it has returned in time. One that has not runs on: a driver's call
// that ignores its context must not keep Close.
func within(bound time.Duration, fn func()) bool {
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		fn()
	}()
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-returned:
		return true
	case <-timer.C:
		return false
	}
}
