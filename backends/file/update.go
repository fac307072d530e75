package file

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/call"
	"github.com/coordgo/coord/driver/cas"
)

const (
	// grace is how long a call whose ctx has ended waits for its update, which
	// may know the outcome in a moment. It is half of the 100 ms that it has.
	grace = 50 * time.Millisecond
	// closeTime bounds Close, which has no ctx: updates take microseconds.
	closeTime = time.Second
)

// errClosing ends the calls under way when the store is closed.
var errClosing = errors.New("the store is closed")

// noAnswer is the error of a call that was left behind.
func noAnswer(err error) error { return fmt.Errorf("the file system does not answer: %w", err) }

// inTurn calls do when nobody else of this process is in turn. It runs in a goroutine of its own, because nothing
// ends a system call that waits for the file system, such as one that is frozen
// for a snapshot. The caller leaves when its ctx ends. There are no more of these
// goroutines than turns: each has its turn until it ends.
func (s *store) inTurn(ctx context.Context, turn chan struct{}, do func(*call.Call) error) (left bool, err error) {
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return false, driver.NotSent(ctx.Err())
	case <-s.calls.Life().Done():
		return false, driver.ErrClosed
	}
	begun, left, err := call.DoSend(ctx, s.calls, func(in *call.Call) (bool, error) {
		defer func() { <-turn }()
		return true, do(in)
	}, nil)
	switch {
	case left:
		err = noAnswer(err)
	case !begun:
		<-turn
	}
	return left, err
}

// update is one call of Update.
type update struct {
	sh   *shard
	file string
	fn   cas.Func
	in   *call.Call
	// panicked is what fn panicked with.
	panicked any

	calling sync.Mutex // held while fn runs
}

// decide calls the function of the update, unless the caller has left.
func (u *update) decide(old []byte, now time.Time) (change cas.Change, err error) {
	u.calling.Lock()
	defer u.calling.Unlock()
	if u.in.Left() {
		return cas.Change{}, driver.ErrNotSent
	}
	defer func() {
		if u.panicked = recover(); u.panicked != nil {
			err = fmt.Errorf("panic: %v", u.panicked)
		}
	}()
	return u.fn(old, now)
}

// stop returns when the function of an update whose caller has left is not called any more.
func (u *update) stop() {
	u.calling.Lock()
	defer u.calling.Unlock()
}
