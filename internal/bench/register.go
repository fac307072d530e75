package bench

import "sync/atomic"

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
