package hold

import (
	"sync/atomic"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
)

// waiter is an attempt as others of its client know it: its place in the queue of its key, and what it is handed
// there.
type waiter struct {
	acquisition
	events  *events     // of the goroutine that runs it; nil if that wants none
	own     tenure      // what it is granted: most often that is one tenure
	handed  atomic.Bool // passed is its own now
	ownUsed bool        // own is, or was, a tenure; written by a leader, or under Manager.mu by who hands off

	// Guarded by Manager.mu.
	placed  bool            // its ticket is in the slot of its key
	waiting bool            // a goroutine is in awaitTurn
	ticket  ticket[*waiter] // signalled on a change of handed, too
	passed  *tenure         // what it is handed
	from    *hold           // what passed is of
	lost    error           // why the store ended what the call under way is granted
}

// begin makes a tenure for a, from now on.
func (a *waiter) begin(token driver.Token, now clock.Instant) *tenure {
	t := a.newTenure()
	t.by, t.events, t.token, t.granted = &a.acquisition, a.events, token, now
	if a.spec.MaxHold > 0 {
		t.endBy = now.Add(a.spec.MaxHold)
	}
	return t
}

// newTenure gives a tenure that nobody knows yet, without an allocation the first time.
func (a *waiter) newTenure() *tenure {
	if a.ownUsed {
		return new(tenure)
	}
	a.ownUsed = true
	return &a.own
}

// discard takes back a tenure that nobody knows yet.
func (a *waiter) discard(t *tenure) { a.ownUsed = t != &a.own }

// takes reports whether a goroutine waits with a that takes what it is handed. Tries were
// refused when the hold came, and one that is leaving has no use for it. Manager.mu
// is held.
func (a *waiter) takes() bool { return a.waiting && !a.ticket.try }
