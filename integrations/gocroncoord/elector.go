package gocroncoord

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/go-co-op/gocron/v2"

	"github.com/coordgo/coord"
)

// Elector is gocron's Elector, for gocron.WithDistributedElector: it tells a scheduler whether its process
// leads, and the scheduler asks before each run. The zero value leads nothing until [Elector.Campaign] does.
// It is safe for concurrent use, and must not be copied.
//
// A run that has begun goes on when the term is lost, beside those of the next leader. A job that has to stop
// then runs under [Guarded].
type Elector struct {
	term atomic.Pointer[coord.Lock]
}

var _ gocron.Elector = (*Elector)(nil)

// Campaign leads key whenever this process can, and returns as [coord.Lead] does: when ctx ends, or when no term is
// possible, as after Close of the client. Run it in a goroutine of its own, once for an Elector. Shut the scheduler
// down first, and end ctx then.
func (e *Elector) Campaign(ctx context.Context, client coord.Locker, key string, opts ...coord.LockOption) error {
	return coord.Lead(ctx, client, key, func(ctx context.Context) error {
		lock, _ := coord.Held(ctx, key)
		e.term.Store(lock)
		defer e.term.Store(nil)
		<-ctx.Done()
		return context.Cause(ctx)
	}, opts...)
}

// IsLeader is nil while this process leads. Otherwise its error matches coord.ErrNotHeld. It asks the lock,
// which looks at the clock and not at the store: a process that was paused for longer than its lease knows.
func (e *Elector) IsLeader(context.Context) error {
	if lock := e.term.Load(); lock != nil {
		return lock.Err()
	}
	return fmt.Errorf("gocroncoord: this process does not lead: %w", coord.ErrNotHeld)
}
