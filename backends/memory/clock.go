package memory

import "time"

// instant is a moment on the store's clock: the time since the store was made.
type instant = time.Duration

// clock is monotonic. The wall clock is read once, when the store is made, to
// align fixed windows; whatever it does later changes nothing.
type clock struct {
	start time.Time
	micro int64 // start, in Unix microseconds
}

func newClock() clock {
	t := time.Now()
	return clock{start: t, micro: t.UnixMicro()}
}

func (c *clock) now() instant { return time.Since(c.start) }

// unixMicro gives t as limits count it.
func (c *clock) unixMicro(t instant) int64 { return c.micro + t.Microseconds() }

// at gives t as a time of the wall clock, as it was when the store was made.
func (c *clock) at(t instant) time.Time { return c.start.Add(t) }
