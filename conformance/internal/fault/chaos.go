package fault

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Lossy gives a script that fails about one call in eight, and counts those in failed.
func Lossy(dice *rand.Rand, failed *atomic.Int64) func(Call) Kind {
	kinds := [...]Kind{FailBefore, FailAfter, FailAfter, HangBefore, HangAfter}
	return func(Call) Kind {
		if n := dice.IntN(8 * len(kinds)); n < len(kinds) {
			failed.Add(1)
			return kinds[n]
		}
		return None
	}
}

// Link is what Chaos breaks.
type Link interface {
	StallRequests()
	StallReplies()
	DropReply()
	Reset()
	Delay(d time.Duration)
	Heal()
}

// Chaos breaks a link again and again, at random.
type Chaos struct {
	// Connect is how long a client takes to connect: the link is sound for that long and some more before it breaks
	// again. With less time no call would ever come through.
	Connect time.Duration

	changes atomic.Int64 // odd during a fault
}

// Changes tells whether there was a fault between two moments: it is odd during a fault, and grows with each.
func (c *Chaos) Changes() int64 { return c.changes.Load() }

// Begin and End are of a fault that something else makes.
func (c *Chaos) Begin() { c.changes.Add(1) }
func (c *Chaos) End()   { c.changes.Add(1) }

// Run breaks link and heals it until quit is closed. It leaves it healed.
func (c *Chaos) Run(link Link, dice *rand.Rand, quit <-chan struct{}) {
	faults := [...]func(){
		link.Reset, link.Reset, link.DropReply, link.DropReply, link.StallReplies, link.StallRequests,
		func() { link.Delay(20 * time.Millisecond) },
	}
	passes := func(d time.Duration) bool {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			return true
		case <-quit:
			return false
		}
	}
	for passes(c.Connect + time.Duration(20+dice.IntN(80))*time.Millisecond) {
		c.Begin()
		faults[dice.IntN(len(faults))]()
		going := passes(time.Duration(10+dice.IntN(80)) * time.Millisecond)
		link.Heal()
		c.End()
		if !going {
			return
		}
	}
}
