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
	// mostTrips bounds it where the store is slow, in round trips.
	mostTrips = 8
)

// Backoff times the next attempt after another client's write came first. A pause is random, within a range that begins
// at the store's round trip and doubles with each defeat, up to 20 ms, or eight round trips if these are more. It is at
// least a tenth of that: a crowd that wants one value would only take the store's time from those whose turn is next.
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
	return pause(ctx, min(b.trip()<<min(before, 20), max(maxPause, mostTrips*b.trip())))
}

// brief is the pause of one who decides on what it has read, and was defeated often.
func (b *Backoff) brief(ctx context.Context) error { return pause(ctx, b.trip()/4) }

// trip is a round trip.
func (b *Backoff) trip() time.Duration { return max(time.Duration(b.rtt.Load()), time.Microsecond) }

// pause pauses for most, or for as little as a tenth of it.
func pause(ctx context.Context, most time.Duration) error {
	if ctx.Err() != nil {
		return driver.NotSent(ctx.Err())
	}
	t := time.NewTimer(most - rand.N(most*9/10))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return driver.NotSent(ctx.Err())
	}
}
