package cas

import (
	"sync"
	"time"
)

// Option configures New.
type Option func(*Backend)

// WithSkew says that what different clients are told of the store's clock at one
// moment may lie as much as d apart. Every lease is then kept in the store for d
// longer than it was granted, so that no client, however fast its clock, takes
// a key before its holder, however slow his, has counted his lease to the end.
// A holder that dies frees its key by as much later. Zero, the default, is for a
// clock that comes with the store's own reply; less than zero counts as zero.
//
// It does nothing for limits: their bounds hold as far as the clocks agree.
func WithSkew(d time.Duration) Option {
	return func(b *Backend) { b.skew = max(0, d) }
}

// Clock follows the clock of a store that shows it only now and then, such as one
// that stamps what it writes. It runs on the local monotonic clock, at an offset that is
// moved as little as the last stamp demands, and so does not jump while the stamps
// agree with it. Its error, either way, is at most the time of the last exchange that it has
// learned from and the step of the stamps. Two Clocks may lie apart by the sum of their errors, and by what
// local clocks drift in a minute, a few milliseconds: give [WithSkew] a bound for that,
// and do not learn from exchanges that took longer than it allows for.
//
// The zero Clock knows nothing. It is safe for concurrent use.
type Clock struct {
	mu     sync.Mutex
	start  time.Time     // with its monotonic reading; zero: nothing learned yet
	seen   time.Time     // when it last learned
	offset time.Duration // of the store's clock from start plus what has passed
	apart  time.Duration // of the local wall clock and the monotonic one at the last Learn
}

// clockJump is by how much the local clocks may move apart before a Clock knows
// nothing any more: the monotonic one stops while the machine sleeps.
const clockJump = 100 * time.Millisecond

// clockMemory is for how long a Clock goes on without learning: local clocks drift.
const clockMemory = time.Minute

// Learn takes in that the store's clock stood at stamp at some moment between sent and came, which are
// readings of time.Now around one call. Step is the resolution of the stamp, by which the store's
// clock may have been ahead of it: 1 ms for one in whole milliseconds.
func (c *Clock) Learn(sent, came, stamp time.Time, step time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	earliest := func() time.Duration { return stamp.Sub(c.local(came)) }
	if c.start.IsZero() {
		c.start = came
		c.offset = earliest()
	}
	latest := stamp.Add(step).Sub(c.local(sent))
	c.offset = min(max(c.offset, earliest()), latest)
	c.apart, c.seen = c.drift(), came
}

// Now is the store's clock. It is not known before the first Learn, nor a minute after the last,
// nor after the machine was asleep or its wall clock was set, until the next.
func (c *Clock) Now() (now time.Time, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.start.IsZero() || time.Since(c.seen) > clockMemory {
		return time.Time{}, false
	}
	if moved := c.drift() - c.apart; moved > clockJump || moved < -clockJump {
		return time.Time{}, false
	}
	return c.local(time.Now()).Add(c.offset), true
}

// local is t on the clock that started at start, without a monotonic reading, so
// that it can be told apart from the store's.
func (c *Clock) local(t time.Time) time.Time { return c.start.Round(0).Add(t.Sub(c.start)) }

// drift is how far the local wall clock is ahead of the monotonic one. Clock.mu is held.
func (c *Clock) drift() time.Duration {
	now := time.Now()
	return now.Round(0).Sub(c.local(now))
}
