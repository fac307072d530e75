package hold

import (
	"time"

	"github.com/coordgo/coord/driver"
)

// slot is one key's local queue, and the hold that this client has of it. Goroutines of one client that want one
// key queue here, first in, first out, and only the first contends at the store: a store sees one waiter per
// client and key, however many goroutines wait. Fair attempts are the exception: each queues at the store
// itself, for only the store knows the order over all clients.
//
// Manager.mu guards the fields. A slot exists while it is of use.
type slot struct {
	hold    *hold    // the hold that this client has, nil if none
	leader  *Attempt // who contends at the store, nil if none
	refused bool     // the leader knows that the key is locked elsewhere
	queue   queue    // who waits for the leader's place
	recheck bool     // an attempt that is to be turned away may be ahead of one that was
	warned  *Tenure  // the one about whose long wait a warning was logged

	fair   int  // fair attempts of this client
	yields bool // the hand-off window was used up, and the next leader lets others go first
	// When the store last said that another client holds, on the monotonic clock.
	refusedAt time.Duration
}

// queue is a list through the attempts themselves, so that one leaves from anywhere in constant time.
// Manager.mu guards it.
type queue struct {
	first, last *Attempt
	patient     int // those that wait: all but tries
}

// count counts a in, or out by -1.
func (q *queue) count(a *Attempt, n int) {
	if !a.try {
		q.patient += n
	}
}

func (q *queue) push(a *Attempt) {
	q.count(a, 1)
	a.ahead = q.last
	if q.last == nil {
		q.first = a
	} else {
		q.last.behind = a
	}
	q.last, a.inQueue = a, true
}

// pushFront puts a at the front.
func (q *queue) pushFront(a *Attempt) {
	q.count(a, 1)
	a.behind = q.first
	if q.first == nil {
		q.last = a
	} else {
		q.first.ahead = a
	}
	q.first, a.inQueue = a, true
}

// remove takes a out, if it is in the queue.
func (q *queue) remove(a *Attempt) {
	if !a.inQueue {
		return
	}
	q.count(a, -1)
	if a.ahead == nil {
		q.first = a.behind
	} else {
		a.ahead.behind = a.behind
	}
	if a.behind == nil {
		q.last = a.ahead
	} else {
		a.behind.ahead = a.ahead
	}
	a.ahead, a.behind, a.inQueue = nil, nil, false
}

// setTry notes whether whoever runs a leaves rather than wait.
func (a *Attempt) setTry(try bool) {
	if !a.inQueue {
		a.try = try
		return
	}
	q := &a.slot.queue
	q.count(a, -1)
	a.try = try
	q.count(a, 1)
}

// slotFor finds or makes the slot of key. Manager.mu is held.
func (m *Manager) slotFor(key string) *slot {
	s := m.slots[key]
	if s == nil {
		s = &slot{}
		m.slots[key] = s
	}
	return s
}

// join puts a at the end of the queue. Manager.mu is held.
func (s *slot) join(a *Attempt) {
	switch {
	case a.spec.Fair: // it has no place here, it queues at the store
		s.fair++
	case s.hold == nil && s.leader == nil:
		s.leader, s.refused, a.leading = a, false, true
	case a.wasHanded:
		s.queue.pushFront(a)
		s.recheck = true
	default:
		s.queue.push(a)
	}
}

// full reports whether a try is refused without asking the store: the client holds
// the key itself, or waits for it. Manager.mu is held.
func (s *slot) full(a *Attempt) bool {
	if !a.try || a.leading {
		return false
	}
	if s.hold != nil || s.refused {
		return true
	}
	if a == s.queue.last { // as most are: thousands of tries are not looked through by each of them
		return s.queue.patient > 0
	}
	for q := s.queue.first; q != nil && q != a; q = q.behind {
		if !q.try {
			return true
		}
	}
	return false
}

// turnAway tells those in the queue that the key cannot be had now, which ends the tries among them. It begins
// with the last and ends at one that was told before, so that a long queue is not walked at each grant.
// Manager.mu is held.
func (s *slot) turnAway() {
	for a := s.queue.last; a != nil && (s.recheck || !a.told); a = a.ahead {
		a.told = true
		a.noteRefused()
		if a.try {
			a.out = true
			a.signal()
		}
	}
	s.recheck = false
}

// next promotes the first in the queue when nobody holds or contends. Manager.mu is held.
func (m *Manager) next(key string, s *slot) {
	if s.hold != nil || s.leader != nil {
		return
	}
	a := s.queue.first
	if a == nil {
		if s.fair == 0 && m.slots[key] == s {
			delete(m.slots, key)
		}
		return
	}
	s.queue.remove(a)
	s.leader, s.refused, a.leading = a, false, true
	a.yields, s.yields = s.yields, false
	a.signal()
}

// heldBy is the id of the hold that this client has, "" without one. Manager.mu is held.
func (s *slot) heldBy() string {
	if s.hold == nil {
		return ""
	}
	return s.hold.by.id
}

// locked says who is in the way. Manager.mu is held.
func (s *slot) locked() error {
	if s.hold != nil {
		return errHeldHere
	}
	return driver.ErrLocked
}
