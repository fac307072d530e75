package optimistic

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/driver"
)

const (
	// maxPause bounds a pause after a defeat.
	maxPause = 20 * time.Millisecond
	// eagerAfter is after how many defeats a caller pauses no more.
	eagerAfter = 12
)

// Backoff times the next attempt after another client's write came first. A pause is random, within a range that begins
// at the store's round trip and doubles with each defeat, up to 20 ms: full jitter.
//
// During a pause the winner may write several times in a row, and the state that the paused caller has read is old. It
// would lose against such a row for ever. So a caller pauses no more once it was defeated twelve times.
//
// The zero Backoff is ready. It is safe for concurrent use.
type Backoff struct{ rtt atomic.Int64 } // moving average, in ns

// Observe takes in how long a round trip to the store took.
func (b *Backoff) Observe(d time.Duration) {
	old := b.rtt.Load()
	if old == 0 {
		old = int64(d)
	}
	b.rtt.Store(old + (int64(d)-old)/8) // of two at once one may be lost
}

// Pause pauses after a defeat; before is how many came before it in a row. Its error says that ctx has ended, and
// matches [driver.ErrNotSent].
func (b *Backoff) Pause(ctx context.Context, before int) error {
	if ctx.Err() != nil {
		return driver.NotSent(ctx.Err())
	}
	if before >= eagerAfter {
		return nil
	}
	t := time.NewTimer(rand.N(b.most(before)))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return driver.NotSent(ctx.Err())
	}
}

// most is the end of the range of a pause.
func (b *Backoff) most(before int) time.Duration {
	return min(max(time.Duration(b.rtt.Load()), time.Microsecond)<<min(before, eagerAfter), maxPause)
}
