package zookeeper

import (
	"sync"
	"time"
)

// clock is the leader's wall clock, as far as its answers show it: each write comes back with
// the time at which the leader took it on, in milliseconds, which lies between our
// sending it and our receiving the answer.
//
// It runs on the local monotonic clock, at an offset that is moved as little as the
// last answer demands: between two answers that agree with it, it does not jump. Its error is
// at most the time of the shortest round trip, and a millisecond.
type clock struct {
	mu     sync.Mutex
	start  time.Time // with its monotonic reading
	seen   time.Time // when it last learned
	offset int64     // µs
	apart  int64     // of the local wall clock and the monotonic one when last looked at, µs
}

const (
	// clockJump is by how much the local clocks may move apart before we ask again: the
	// monotonic one stops while the machine sleeps.
	clockJump = 100_000
	// clockMemory is for how long we go without an answer before we ask again: the leader's clock may have been set, and
	// one who is denied writes nothing.
	clockMemory = time.Minute
)

func (c *clock) init() { c.start = time.Now() }

// local is the time of t on our own clock, in Unix microseconds.
func (c *clock) local(t time.Time) int64 {
	return c.start.UnixMicro() + t.Sub(c.start).Microseconds()
}

// now is the leader's time, in Unix microseconds.
func (c *clock) now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.local(time.Now()) + c.offset
}

// learn takes in that the leader took on at mtime, in Unix milliseconds, what we sent
// at sent and got the answer of at came.
func (c *clock) learn(sent, came time.Time, mtime int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	earliest := mtime*1000 - c.local(came)
	latest := mtime*1000 + 999 - c.local(sent)
	c.offset = min(max(c.offset, earliest), latest)
	c.apart, c.seen = c.drift(), came
}

// drift is how far the local wall clock is ahead of the monotonic one. clock.mu is held.
func (c *clock) drift() int64 {
	now := time.Now()
	return now.UnixMicro() - c.local(now)
}

// stale reports whether the leader's clock is to be asked for: it was not seen of late, or the local clocks have moved apart
// since.
func (c *clock) stale() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.drift() - c.apart
	return d > clockJump || d < -clockJump || time.Since(c.seen) > clockMemory
}
