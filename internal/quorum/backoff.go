package quorum

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

const (
	// contendFor is how long contenders that split the votes ask again.
	contendFor = callBound / 4
	minPause   = time.Millisecond
	maxPause   = contendFor / 8
)

// backoff is how contenders for one key part: each gives back its votes, and asks again after a pause of random length,
// which grows from the time that a majority takes to answer. The zero value is ready.
type backoff struct {
	pause time.Duration
	until time.Time
	over  atomic.Bool // the call that contends has returned
}

func (o *backoff) end() { o.over.Store(true) }

// begin takes in how long a majority took. Only the first call counts.
func (o *backoff) begin(took time.Duration) {
	if o.pause == 0 {
		o.pause, o.until = max(took, minPause), time.Now().Add(contendFor)
	}
}

// wait waits for the next attempt: who has the vote of a member waits less than who has that of a later one. It reports
// false if there is no other attempt.
func (o *backoff) wait(ctx context.Context, member int) bool {
	if time.Now().After(o.until) {
		return false
	}
	pause := time.Duration(member)*o.pause + rand.N(o.pause)
	o.pause = max(o.pause, min(2*o.pause, maxPause))
	return sleep(ctx, pause)
}

// sleep reports false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
