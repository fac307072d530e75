package gocron

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/coordgo/coord"
)

var errNotLeader = errors.New("another process leads")

// Elector tells a scheduler whether its process leads. A scheduler asks before each run. A run that has begun goes on when the
// term is lost: a job that must stop then runs under Guarded.
type Elector struct {
	term atomic.Pointer[coord.Lock]
}

// Campaign leads key whenever this process can, until ctx ends. Shut the scheduler down first, and end ctx then.
func (e *Elector) Campaign(ctx context.Context, client coord.Locker, key string, opts ...coord.LockOption) error {
	return coord.Lead(ctx, client, key, func(ctx context.Context) error {
		lock, _ := coord.Held(ctx, key)
		e.term.Store(lock)
		defer e.term.Store(nil)
		<-ctx.Done()
		return context.Cause(ctx)
	}, opts...)
}

// IsLeader is nil while this process leads. It asks the lock, which looks at the clock: a process that was paused for longer
// than its lease knows.
func (e *Elector) IsLeader(context.Context) error {
	if lock := e.term.Load(); lock != nil {
		return lock.Err()
	}
	return errNotLeader
}
