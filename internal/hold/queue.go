package hold

import "time"

// queue is the goroutines of one client that want one key, first in, first out. Only the first contends at the
// store: a store sees one waiter per client and key, however many goroutines wait. Fair attempts are the exception:
// each queues at the store itself, for only the store knows the order over all clients.
//
// It is a list through the tickets themselves, so that one leaves from anywhere in constant time. It knows no hold:
// its methods are told whether there is one. Manager.mu guards it.
type queue[T any] struct {
	leader      *ticket[T] // who contends at the store, nil if none
	refused     bool       // the leader knows that the key is locked elsewhere
	first, last *ticket[T] // who waits for the leader's place
	patient     int        // those that wait: all but tries
	waiting     int        // those that are known to wait, here or at the store
	recheck     bool       // a ticket that is to be turned away may be ahead of one that was

	apart  int  // attempts of this client that queue elsewhere
	yields bool // the hand-off window was used up, and the next leader lets others go first
	// When the store last said that another client holds, on the monotonic clock.
	refusedAt time.Duration
}

// ticket is a place in a queue. Manager.mu guards it.
type ticket[T any] struct {
	of            T // whose it is
	ahead, behind *ticket[T]
	inQueue       bool
	leading       bool
	waits         bool // it is counted as one that waits
	apart         bool // it is counted, and has no place: it queues at the store, or with those who share the key
	toFront       bool // it goes to the front: what it was handed was lost on the way
	try           bool // leaves rather than wait
	out           bool // turned away
	told          bool // knows that the key cannot be had now
	yields        bool // lets other clients go first

	wake chan struct{} // signalled on a change of leading or out, and when there is more to know; nil if nobody waits
}

func (k *ticket[T]) signal() {
	if k.wake != nil {
		select {
		case k.wake <- struct{}{}:
		default: // it has a signal that it has not read yet
		}
	}
}

// count counts k in, or out by -1.
func (q *queue[T]) count(k *ticket[T], n int) {
	if !k.try {
		q.patient += n
	}
}

func (q *queue[T]) push(k *ticket[T]) {
	q.count(k, 1)
	k.ahead = q.last
	if q.last == nil {
		q.first = k
	} else {
		q.last.behind = k
	}
	q.last, k.inQueue = k, true
}

// pushFront puts k at the front.
func (q *queue[T]) pushFront(k *ticket[T]) {
	q.count(k, 1)
	k.behind = q.first
	if q.first == nil {
		q.last = k
	} else {
		q.first.ahead = k
	}
	q.first, k.inQueue = k, true
}

// remove takes k out, if it is in the queue.
func (q *queue[T]) remove(k *ticket[T]) {
	if !k.inQueue {
		return
	}
	q.count(k, -1)
	if k.ahead == nil {
		q.first = k.behind
	} else {
		k.ahead.behind = k.behind
	}
	if k.behind == nil {
		q.last = k.ahead
	} else {
		k.behind.ahead = k.ahead
	}
	k.ahead, k.behind, k.inQueue = nil, nil, false
}

// join puts k at the end of the queue, or makes it the leader of a key that is not held and has none.
func (q *queue[T]) join(k *ticket[T], held bool) {
	switch {
	case k.apart:
		q.apart++
	case !held && q.leader == nil:
		q.lead(k)
	case k.toFront:
		q.pushFront(k)
		q.recheck = true
	default:
		q.push(k)
	}
}

// lead makes k the leader.
func (q *queue[T]) lead(k *ticket[T]) { q.leader, q.refused, k.leading = k, false, true }

// leave takes k out, wherever it is.
func (q *queue[T]) leave(k *ticket[T]) {
	if k.waits {
		k.waits = false
		q.waiting--
	}
	switch {
	case k.apart:
		q.apart--
	case k.leading:
		k.leading = false
		q.leader = nil
	default:
		q.remove(k)
	}
}

// full reports whether a try is refused without asking the store: the client holds
// the key itself, or waits for it.
func (q *queue[T]) full(k *ticket[T], held bool) bool {
	if !k.try || k.leading {
		return false
	}
	if held || q.refused {
		return true
	}
	if k == q.last { // as most are: thousands of tries are not looked through by each of them
		return q.patient > 0
	}
	for o := q.first; o != nil && o != k; o = o.behind {
		if !o.try {
			return true
		}
	}
	return false
}

// wait counts k as one that waits, unless it is a try.
func (q *queue[T]) wait(k *ticket[T]) {
	if !k.waits && !k.try {
		k.waits = true
		q.waiting++
	}
}

// turnAway ends the tries in the queue, for the key cannot be had now. It begins
// with the last and ends at one that was told before, so that a long queue is not walked at each grant.
func (q *queue[T]) turnAway() {
	for k := q.last; k != nil && (q.recheck || !k.told); k = k.ahead {
		k.told = true
		if k.try {
			k.out = true
			k.signal()
		}
	}
	q.recheck = false
}

// promote makes the first the leader. There is none.
func (q *queue[T]) promote() {
	k := q.first
	q.remove(k)
	q.lead(k)
	k.yields, q.yields = q.yields, false
	k.signal()
}

// empty reports whether nobody is here: there is no leader.
func (q *queue[T]) empty() bool { return q.first == nil && q.apart == 0 }
