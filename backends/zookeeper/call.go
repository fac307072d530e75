package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord/driver"
	calls "github.com/coordgo/coord/driver/call"
)

// errClosing ends the calls under way when the backend is closed. The request
// may have been sent: the outcome is unknown.
var errClosing = errors.New("zookeeper: backend closed during the call")

// errNewSession ends what was begun in a session that has ended since.
var errNewSession = errors.New("zookeeper: the session has ended")

// connectPoll is how often a call looks whether there is a session again.
const connectPoll = 2 * time.Millisecond

// await waits for a session and gives its id. Requests are not handed to the library
// while it has no connection: it would send them whenever there is one again, be it
// in another session, long after their callers have gone.
//
// It fails at once when no host could be reached. Its errors match ErrNotSent.
func (b *backend) await(ctx context.Context) (session int64, err error) {
	for {
		if err := b.calls.Ready(ctx); err != nil {
			return 0, err
		}
		if ready, err := b.ready(); err != nil {
			return 0, err
		} else if id := b.conn.SessionID(); ready && id != 0 {
			return id, nil
		}
		_ = b.calls.Pause(ctx, connectPoll)
	}
}

// ready reports whether there is a connection with a session. The error is that no host
// could be reached.
func (b *backend) ready() (bool, error) {
	if b.conn.State() == zk.StateHasSession {
		return true, nil
	}
	if b.wire != nil {
		if err := b.wire.unreachable(); err != nil {
			return false, driver.NotSent(err)
		}
	}
	return false, nil
}

// down is for the calls. A request that was handed in while the connection broke waits in the library for the next one, however
// long there is none. It is sent then.
func (b *backend) down() error {
	if b.wire == nil || b.conn.State() == zk.StateHasSession {
		return nil
	}
	return b.wire.unreachable()
}

// errLeft is part of the error of a call whose request is still under way: late
// will be called, or has been.
var errLeft = errors.New("zookeeper: no answer yet")

// call makes requests, which do is, and returns when ctx ends at the latest. The
// library knows no ctx: the requests then stay under way, and late, unless it is nil, is
// called with their result. Close waits for late, but not for long over the application's connection, which may outlive
// the backend.
//
// An error says that nothing was begun, or with errLeft that do goes on, or is theirs.
func call[T any](ctx context.Context, b *backend, do func() (T, error), late func(T, error)) (none T, err error) {
	if _, err := b.await(ctx); err != nil {
		return none, err
	}
	v, left, err := calls.Do(ctx, b.calls, do, late)
	if left {
		return none, fmt.Errorf("%w: %w", errLeft, err)
	}
	return v, classify(b.named(err))
}

// run is call where there is only an error.
func (b *backend) run(ctx context.Context, do func() error, late func(error)) error {
	var after func(struct{}, error)
	if late != nil {
		after = func(_ struct{}, err error) { late(err) }
	}
	_, err := call(ctx, b, func() (struct{}, error) { return struct{}{}, do() }, after)
	return err
}

// named says whose nodes they are that the user may not touch. A digest is never wrong by itself: it makes another
// user.
func (b *backend) named(err error) error {
	if !errors.Is(err, zk.ErrNoAuth) {
		return err
	}
	return fmt.Errorf("the nodes under %s belong to another user, or the password is wrong: use the user who made them: %w", b.root, err)
}

// classify tells the errors after which nothing was changed for certain.
func classify(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, zk.ErrNoServer), errors.Is(err, zk.ErrNoAuth), errors.Is(err, zk.ErrInvalidACL), isRefusal(err):
		return driver.NotSent(err)
	}
	return err
}

// answered reports whether err, which may be nil, is a server's answer to the request:
// that it was done, or why not. After others the request may have been done.
func answered(err error) bool {
	for _, target := range []error{
		zk.ErrNoNode, zk.ErrNodeExists, zk.ErrBadVersion, zk.ErrNotEmpty, zk.ErrNoChildrenForEphemerals,
		zk.ErrNoAuth, zk.ErrInvalidACL, driver.ErrNotSent,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	return err == nil || isRefusal(err)
}

// isRefusal reports answers that the library has no name for: unimplemented, a quota that
// is used up, a request that a busy server did not take on.
func isRefusal(err error) bool {
	if err == nil {
		return false
	}
	_, code, ok := strings.Cut(err.Error(), "unknown error: ")
	return ok && (code == "-6" || code == "-125" || code == "-127")
}
