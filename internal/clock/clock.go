// Package clock reads the monotonic clock and the wall clock together, for deadlines that hold on both.
package clock

import (
	"sync/atomic"
	"time"
)

// An Instant is one moment on both clocks. The monotonic clock is immune to
// steps but stops while the machine sleeps; the wall clock runs on but may be
// set. A deadline has passed when either says so: in doubt the lock is lost.
type Instant struct {
	Mono time.Duration // since the clock's base
	Wall int64         // Unix nanoseconds
}

// Add moves an instant by d on both clocks.
func (i Instant) Add(d time.Duration) Instant {
	return Instant{i.Mono + d, i.Wall + int64(d)}
}

// Reached reports whether i has come at now, on either clock.
func (i Instant) Reached(now Instant) bool {
	return now.Mono >= i.Mono || now.Wall >= i.Wall
}

// Until is the time left from now to i, on the clock that gets there first.
func (i Instant) Until(now Instant) time.Duration {
	return min(i.Mono-now.Mono, time.Duration(i.Wall-now.Wall))
}

// Earlier is the first of two instants, clock by clock. A zero instant means never.
func (i Instant) Earlier(j Instant) Instant {
	switch {
	case i == Instant{}:
		return j
	case j == Instant{}:
		return i
	}
	return Instant{min(i.Mono, j.Mono), min(i.Wall, j.Wall)}
}

// Atomic is an instant that is read without a lock. A reader may see one
// clock's part before the other's; a deadline that only moves on is then merely
// seen early.
type Atomic struct{ mono, wall atomic.Int64 }

// Load reads the instant.
func (a *Atomic) Load() Instant {
	return Instant{time.Duration(a.mono.Load()), a.wall.Load()}
}

// Store writes the instant.
func (a *Atomic) Store(i Instant) {
	a.mono.Store(int64(i.Mono))
	a.wall.Store(i.Wall)
}

// Mono is the part of the monotonic clock.
func (a *Atomic) Mono() time.Duration { return time.Duration(a.mono.Load()) }

// Clock reads both clocks.
type Clock struct {
	base time.Time
	// Read, if it is set, is read instead: tests move the clocks apart.
	Read func() Instant
}

// New makes a clock.
func New() *Clock { return &Clock{base: time.Now()} }

// Now is the present instant.
func (c *Clock) Now() Instant {
	if c.Read != nil {
		return c.Read()
	}
	return c.At(time.Now())
}

// Mono reads the monotonic clock alone, which costs half.
func (c *Clock) Mono() time.Duration {
	if c.Read != nil {
		return c.Read().Mono
	}
	return time.Since(c.base)
}

// At is the instant of t.
func (c *Clock) At(t time.Time) Instant {
	return Instant{Mono: t.Sub(c.base), Wall: t.UnixNano()}
}

// Time is the instant as a time.Time, good on the monotonic clock.
func (c *Clock) Time(i Instant) time.Time { return c.base.Add(i.Mono) }
