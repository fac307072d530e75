package limitmodel

import (
	"flag"
	"sync/atomic"
	"testing"
	"time"
)

var (
	steps = flag.Int("model.steps", 0, "steps of a walk against the model of limits; 0: as many as take a few seconds")
	seed  = flag.Uint64("model.seed", 1, "what a walk against the model of limits is drawn from; another one is another walk")
)

// Test makes the walk, of so many steps unless -model.steps says otherwise.
func Test(t *testing.T, w Walk, usual int) {
	t.Helper()
	w.Seed = *seed
	if w.Steps = usual; *steps > 0 {
		w.Steps = *steps
	}
	if err := w.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Clock is a clock that can be set. It runs as the machine's does.
type Clock struct{ ahead atomic.Int64 }

// Now reads the clock.
func (c *Clock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// Pass sets the clock forward.
func (c *Clock) Pass(d time.Duration) { c.ahead.Add(int64(d)) }

// Back sets the clock back.
func (c *Clock) Back(d time.Duration) { c.ahead.Add(-int64(d)) }
