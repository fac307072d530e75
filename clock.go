package coord

import (
	"sync/atomic"
	"time"
)

// An instant is one moment on both clocks. The monotonic clock is immune to
// steps but stops while the machine sleeps; the wall clock runs on but may be
// set. A deadline has passed when either says so: in doubt the lock is lost.
type instant struct {
	mono time.Duration // since the clock's base
	wall int64         // Unix nanoseconds
}

// add moves an instant by d on both clocks.
func (i instant) add(d time.Duration) instant {
	return instant{i.mono + d, i.wall + int64(d)}
}

// reached reports whether i has come at now, on either clock.
func (i instant) reached(now instant) bool {
	return now.mono >= i.mono || now.wall >= i.wall
}

// until is the time left from now to i, on the clock that gets there first.
func (i instant) until(now instant) time.Duration {
	return min(i.mono-now.mono, time.Duration(i.wall-now.wall))
}

// earlier is the first of two instants, clock by clock. A zero instant means never.
func (i instant) earlier(j instant) instant {
	switch {
	case i == instant{}:
		return j
	case j == instant{}:
		return i
	}
	return instant{min(i.mono, j.mono), min(i.wall, j.wall)}
}

// atomicInstant is an instant that is read without a lock. A reader may see one
// clock's part before the other's; a deadline that only moves on is then merely
// seen early.
type atomicInstant struct{ mono, wall atomic.Int64 }

func (a *atomicInstant) load() instant {
	return instant{time.Duration(a.mono.Load()), a.wall.Load()}
}

func (a *atomicInstant) store(i instant) {
	a.mono.Store(int64(i.mono))
	a.wall.Store(i.wall)
}

// clock reads both clocks. Tests set read to move them apart.
type clock struct {
	base time.Time
	read func() instant
}

func newClock() clock { return clock{base: time.Now()} }

func (c *clock) now() instant {
	if c.read != nil {
		return c.read()
	}
	return c.instant(time.Now())
}

// mono reads the monotonic clock alone, which costs half.
func (c *clock) mono() time.Duration {
	if c.read != nil {
		return c.read().mono
	}
	return time.Since(c.base)
}

func (c *clock) instant(t time.Time) instant {
	return instant{mono: t.Sub(c.base), wall: t.UnixNano()}
}

// time is the instant as a time.Time, good on the monotonic clock.
func (c *clock) time(i instant) time.Time { return c.base.Add(i.mono) }
