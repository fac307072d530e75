package etcd

import "math/rand/v2"

const (
	// ownNumbers is the count of numbers for clients. Two clients may have the same number: that costs the second waiter
	// one request more.
	ownNumbers = 1023
	// leastNumbers is the least count of numbers to choose from. The server takes longer for each lock with more of them.
	leastNumbers = 64
)

// newName chooses the name of a waiter's entry: the number of the client, if this is its only entry in the queue, else a
// random number from a range larger than its entries there. If another waiter has the name, the next attempt chooses from a
// range twice as large.
func (b *backend) newName(key string, tries int) string {
	b.mu.Lock()
	ours := b.queued[key]
	b.mu.Unlock()
	if ours == 0 && tries == 0 {
		return b.names.entry(key, b.number)
	}
	return b.names.entry(key, 1+rand.IntN((leastNumbers+8*ours)<<min(tries, 10)))
}

// earlierName returns the name of an entry whose reply an earlier call of the same id lost, "" if there is none.
func (b *backend) earlierName(p place) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.entries[p]; e != nil && e.state == unsure {
		return e.name
	}
	return ""
}
