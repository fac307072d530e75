package zookeeper

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/go-zookeeper/zk"
)

// A waiter makes no request before the node that it watches goes. Meanwhile the access lists may have become those of
// another user: then it could not see that it is its turn, or would hold up those behind it with a node that it may not
// remove.

// checkRights asks, four times in each TTL, whether the user may still do what a waiter will have to. It does so at
// once while the answer is that it may not.
func (a *attempt) checkRights(ctx context.Context) error {
	if a.denied.IsZero() && time.Since(a.asked) < a.r.TTL/4 {
		return nil
	}
	a.asked = time.Now()
	bound, stop := context.WithTimeout(ctx, a.b.timeout()/4)
	defer stop()
	err := a.b.run(bound, a.mayStay, nil)
	if err == nil {
		a.denied = time.Time{}
	}
	if errors.Is(err, zk.ErrNoAuth) || errors.Is(err, zk.ErrNoNode) {
		return err
	}
	return nil // others are seen by the requests that follow
}

// mayStay asks to see the queue and to leave it, in a transaction whose last request is for another version of the
// node.
func (a *attempt) mayStay() error {
	_, err := a.b.conn.Multi(
		&zk.CheckVersionRequest{Path: a.e.dir, Version: -1},
		&zk.DeleteRequest{Path: a.t.path, Version: math.MaxInt32})
	if errors.Is(err, zk.ErrBadVersion) {
		return nil
	}
	return err
}

// endures reports whether the attempt goes on after a refusal, and waits a little: a waiter does for a TTL.
func (a *attempt) endures(ctx context.Context) bool {
	if a.denied.IsZero() {
		a.denied = time.Now()
	}
	return !a.isOut() && a.b.calls.Pause(ctx, min(a.r.TTL/32, time.Second)) == nil
}

// isOut reports whether the user was refused for a whole TTL.
func (a *attempt) isOut() bool { return !a.denied.IsZero() && time.Since(a.denied) >= a.r.TTL }
