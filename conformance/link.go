package conformance

import "time"

// Link is the way of one client to the store, with faults. What it does to the
// calls under way is the way's own: over TCP bytes wait or connections break,
// on the [Injector] calls fail or hang until their context ends.
//
// Faults add up until Heal.
type Link interface {
	// StallRequests lets nothing more reach the store.
	StallRequests()
	// StallReplies lets requests reach the store, which applies them, but no
	// reply come back.
	StallReplies()
	// DropReply loses the reply to the next request, which the store applies;
	// the connection breaks.
	DropReply()
	// Reset breaks the connections. New ones work.
	Reset()
	// Cut breaks the connections and refuses new ones, as a store that is not there.
	Cut()
	// Delay makes every call at least so much slower.
	Delay(d time.Duration)
	// Heal ends every fault.
	Heal()
}

// LateLink is a Link that stalls a client in the middle of a call. A case about calls that are
// late stalls only whole calls where the link is none.
type LateLink interface {
	Link
	// StallAfter lets n more requests reach the store, and then does what StallRequests does.
	StallAfter(n int)
}

// blackHole swallows both ways.
func blackHole(l Link) {
	l.StallRequests()
	l.StallReplies()
}
