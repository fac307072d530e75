package conformance

import (
	"time"

	"github.com/coordgo/coord/conformance/internal/fault"
	"github.com/coordgo/coord/driver"
)

// Injector sits between package coord and a backend, records the calls and
// makes them fail: before they reach the store, or after it has applied them. It
// needs nothing of the store, and so works for every one.
type Injector struct{ faults *fault.Injector }

// Call is one call of the core on the driver.
type Call struct {
	// N counts the calls of one Injector, from 1.
	N int
	// Op is the method's name, after "Shared." for those of driver.SharedLocker.
	Op string
	// Key, and the ID of the hold or ask, as far as the call has them.
	Key, ID string
	At      time.Time
}

// Fault is what becomes of a call.
type Fault int

const (
	// NoFault lets the call through.
	NoFault Fault = iota
	// FailBefore loses the request: the store never sees it, the caller gets an
	// error that says nothing.
	FailBefore
	// FailAfter loses the reply: the store has applied the call, the caller
	// gets the same error.
	FailAfter
	// HangBefore and HangAfter are the same without an error: the caller waits
	// until its context ends.
	HangBefore
	HangAfter
	// Refuse lets the store refuse the call: it has changed nothing, and says so.
	Refuse
)

// The faults are numbered as the kinds of package fault.
var _ = [1]struct{}{}[Refuse-Fault(fault.Refuse)]

// ErrInjected is the error of a call that the Injector failed. It is no
// definite error: its outcome is unknown.
var ErrInjected = fault.ErrInjected

// ErrRefused is the error of a call that the Injector refused.
var ErrRefused = fault.ErrRefused

// NewInjector puts an Injector before b. The backend that it gives implements
// Queuer and DelayedUnlocker if b does, for those the core does without; the other
// optional interfaces always, with the core's own fallback where b lacks them. Close
// closes b.
func NewInjector(b driver.Backend) (driver.Backend, *Injector) {
	faulty, in := fault.NewInjector(b)
	return faulty, &Injector{in}
}

// Script sets what becomes of each call: fn is asked, one call at a time, before
// the faults of the link apply. nil ends it.
func (in *Injector) Script(fn func(Call) Fault) {
	if fn == nil {
		in.faults.Script(nil)
		return
	}
	in.faults.Script(func(c fault.Call) fault.Kind { return fault.Kind(fn(Call(c))) })
}

// Calls lists the calls so far.
func (in *Injector) Calls() []Call {
	calls := in.faults.Calls()
	list := make([]Call, len(calls))
	for i, c := range calls {
		list[i] = Call(c)
	}
	return list
}

// The faults of a Link.

// StallRequests implements [Link].
func (in *Injector) StallRequests() { in.faults.StallRequests() }

// StallReplies implements [Link].
func (in *Injector) StallReplies() { in.faults.StallReplies() }

// DropReply implements [Link].
func (in *Injector) DropReply() { in.faults.DropReply() }

// Delay implements [Link].
func (in *Injector) Delay(d time.Duration) { in.faults.Delay(d) }

// Reset implements [Link].
func (in *Injector) Reset() { in.faults.Reset() }

// Cut implements [Link]: calls fail before they reach the store.
func (in *Injector) Cut() { in.faults.Cut() }

// Heal implements [Link]. Calls that hang stay lost until their context ends.
func (in *Injector) Heal() { in.faults.Heal() }

// What cases count.

// count is how many calls of op there were; "" counts all.
func (in *Injector) count(op string) int {
	n := 0
	for _, c := range in.faults.Calls() {
		if op == "" || c.Op == op {
			n++
		}
	}
	return n
}

// returned is how many calls of op have come back to the core.
func (in *Injector) returned(op string) int { return in.faults.Returned(op) }

// last is when the last call of op was made.
func (in *Injector) last(op string) (at time.Time) {
	for _, c := range in.faults.Calls() {
		if c.Op == op {
			at = c.At
		}
	}
	return at
}

// lastID is the id of the last call of op on key.
func (in *Injector) lastID(op, key string) string {
	id := ""
	for _, c := range in.faults.Calls() {
		if c.Op == op && c.Key == key {
			id = c.ID
		}
	}
	return id
}
