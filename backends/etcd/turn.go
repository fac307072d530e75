package etcd

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
)

// turn lets one call at a time make a request that serves all who want it. Its
// zero value is free.
//
// Nobody waits for another's request without end: that may hang on a member which does not
// answer, under a context that lasts longer than one's own, while the next request would go
// to another member. After patience the next in turn therefore makes one, too; the
// others then wait for that.
type turn struct {
	mu   sync.Mutex
	last chan struct{} // of who took the turn last, closed when it is done; nil: nobody has it
}

// patience is how long a call waits for the request of another. Renewals of the
// shortest lease allow for three times as much.
const patience = 100 * time.Millisecond

// take waits for the turn. Its caller calls done when the request is over.
func (t *turn) take(ctx context.Context) (done func(), err error) {
	var waited <-chan struct{} // who had the turn when our patience began
	var timer *time.Timer
	var enough <-chan time.Time
	for overtake := false; ; {
		t.mu.Lock()
		if t.last == nil || overtake && t.last == waited {
			mine := make(chan struct{})
			t.last = mine
			t.mu.Unlock()
			return func() { t.leave(mine) }, nil
		}
		if overtake || t.last != waited {
			waited, overtake = t.last, false
			if timer == nil {
				timer = time.NewTimer(patience)
				defer timer.Stop()
				enough = timer.C
			} else {
				timer.Reset(patience)
			}
		}
		t.mu.Unlock()
		select {
		case <-waited:
		case <-enough:
			overtake = true
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", driver.ErrNotSent, ended(ctx))
		}
	}
}

func (t *turn) leave(mine chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == mine {
		t.last = nil
	}
	close(mine)
}
