package file

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/cas"
)

const (
	// grace is how long a call whose ctx has ended waits for its update, which
	// may know the outcome in a moment. It is half of the 100 ms that it has.
	grace = 50 * time.Millisecond
	// closeTime bounds Close, which has no ctx: updates take microseconds.
	closeTime = time.Second
)

// update is one call of Update. It runs in a goroutine of its own, because nothing
// ends a system call that waits for the file system, such as one that is frozen
// for a snapshot. The caller gives the update up when its ctx ends. There are no more of these
// goroutines than shards: each has the turn at its shard until it ends.
type update struct {
	sh   *shard
	file string
	fn   cas.Func
	done chan struct{}
	err  error // once done is closed
	// panicked is what fn panicked with.
	panicked any

	mu     sync.Mutex
	gaveUp bool // fn is not called any more
	writes bool // the change may have been made
}

// decide calls the function of the update, unless the caller has given up.
func (u *update) decide(old []byte, now time.Time) (change cas.Change, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.gaveUp {
		return cas.Change{}, driver.ErrNotSent
	}
	defer func() {
		if u.panicked = recover(); u.panicked != nil {
			err = fmt.Errorf("panic: %v", u.panicked)
		}
	}()
	change, err = u.fn(old, now)
	u.writes = err == nil && change.Write
	return change, err
}

// absent is decide for a cell that is not there. It makes no change.
func (u *update) absent(now time.Time) (writes bool, err error) {
	change, err := u.decide(nil, now)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.writes = false
	return err == nil && change.Write && change.Value != nil, err
}

// wait waits for the end of the update, or of ctx.
func (u *update) wait(ctx context.Context) error {
	select {
	case <-u.done:
	case <-ctx.Done():
		t := time.NewTimer(grace)
		defer t.Stop()
		select {
		case <-u.done:
		case <-t.C:
			return u.giveUp(ctx)
		}
	}
	if u.panicked != nil {
		panic(u.panicked)
	}
	return u.err
}

// giveUp leaves the update to itself. Its outcome is unknown if it was about to
// write, or has.
func (u *update) giveUp(ctx context.Context) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.gaveUp = true
	err := fmt.Errorf("the file system does not answer: %w", ctx.Err())
	if u.writes {
		return err
	}
	return driver.NotSent(err)
}

// within runs f and returns when it does, or shortly after the end of ctx; then f
// goes on, and late takes what it gives.
func within[T any](ctx context.Context, f func() (T, error), late func(T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	results := make(chan result)
	left := make(chan struct{})
	go func() {
		v, err := f()
		select {
		case results <- result{v, err}:
		case <-left:
			late(v, err)
		}
	}()
	select {
	case r := <-results:
		return r.value, r.err
	case <-ctx.Done():
	}
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case r := <-results:
		return r.value, r.err
	case <-t.C:
		close(left)
		var none T
		return none, driver.NotSent(fmt.Errorf("the file system does not answer: %w", ctx.Err()))
	}
}
