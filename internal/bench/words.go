package bench

import (
	"sync/atomic"
	"time"
)

// Words is memory in which those who are measured together meet: goroutines, or processes
// that have mapped it. Its zero value is ready for one measurement.
type Words struct {
	register Register
	wake     wakeWords
	herd     herdWords
}

// Register is a guarded resource that notices two holders at once. Whoever holds the lock
// enters and leaves.
type Register struct {
	owner    atomic.Int64 // who is in, 0 for nobody
	last     atomic.Int64 // who was in before
	entered  atomic.Int64
	changes  atomic.Int64
	overlaps atomic.Int64
	inside   atomic.Int64 // what those have that may be in together
	// guarded is read and written without an atomic addition: two holders lose counts.
	guarded atomic.Int64
}

// Enter is called by who, above 0, once it holds the lock.
func (r *Register) Enter(who int64) {
	if !r.owner.CompareAndSwap(0, who) {
		r.overlaps.Add(1)
		r.owner.Store(who)
	}
	r.entered.Add(1)
	if r.last.Swap(who) != who {
		r.changes.Add(1)
	}
	r.guarded.Store(r.guarded.Load() + 1)
}

// Leave is called by who before it gives the lock back.
func (r *Register) Leave(who int64) {
	if !r.owner.CompareAndSwap(who, 0) {
		r.overlaps.Add(1)
	}
}

// EnterShared is called instead by who holds weight of a bound, beside whom others may be.
func (r *Register) EnterShared(weight, bound int64) {
	if r.inside.Add(weight) > bound {
		r.overlaps.Add(1)
	}
}

// LeaveShared is called before the weight is given back.
func (r *Register) LeaveShared(weight int64) { r.inside.Add(-weight) }

// Overlaps is how often somebody was met inside, or somebody's count was lost. Nobody may
// be inside.
func (r *Register) Overlaps() int {
	return int(max(r.overlaps.Load(), r.entered.Load()-r.guarded.Load()))
}

// Moving is the share of all holds that went to another than had the lock before.
func (r *Register) Moving() float64 {
	return float64(r.changes.Load()) / float64(max(r.entered.Load(), 1))
}

// Entered is how often the lock was had.
func (r *Register) Entered() int { return int(r.entered.Load()) }

// Register is the guarded resource of w.
func (w *Words) Register() *Register { return &w.register }

// Settle tells those who wait that all of them are in the queue by now.
func (w *Words) Settle() { w.herd.settled.Store(true) }

// Settled reports whether Settle was called.
func (w *Words) Settled() bool { return w.herd.settled.Load() }

// wall is the time that all processes of a machine agree on.
func wall() int64 { return time.Now().UnixNano() }
