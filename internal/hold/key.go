package hold

import "time"

// key is one key: what this client has of it, and which attempts want it. Manager.mu guards it. It exists while it is of use.
//
// Only the leader asks the store. The others queue behind it, first in, first out. So a store sees one waiter for each
// client and key, however many goroutines wait. Fair attempts ask by themselves, for only the store knows the order over all
// clients; so do attempts for a key that several hold.
type key struct {
	name        string
	hold        *hold    // what this client has; nil for a key that several hold
	leader      *Attempt // nil: nobody asks for all
	refused     bool     // the leader knows that another client has the key
	first, last *Attempt // the queue
	patient     int      // attempts in the queue that wait
	tries       int      // attempts in the queue that do not
	alone       int      // attempts that ask by themselves
	waiting     int      // attempts that are known to wait, here or at the store
	yields      bool     // the hand-over window was used up: the next leader lets other clients go first

	refusal   refusal       // who was in the way when the store said so last
	refusedAt time.Duration // when the store last refused a leader, on the monotonic clock
}

// phase is how far an attempt has come.
type phase uint8

const (
	outside phase = iota // it has no place yet, or none any more
	queued               // it is in the queue of its key
	asking               // it asks the store
	given                // it was handed a hold, which its goroutine has yet to see
)

// keyOf finds or makes a key. Manager.mu is held.
func (m *Manager) keyOf(name string) *key {
	k := m.keys[name]
	if k == nil {
		k = &key{name: name}
		m.keys[name] = k
	}
	return k
}

// next has the first in the queue ask, if nobody has the key or asks for it, and forgets a key that is of no use. Manager.mu
// is held.
func (m *Manager) next(k *key) {
	switch {
	case k.hold != nil || k.leader != nil:
	case k.first != nil:
		a := k.first
		k.take(a)
		k.lead(a)
		a.yields, k.yields = k.yields, false
		a.signal()
	case k.alone == 0:
		delete(m.keys, k.name)
	}
}

// lead makes a the leader. There is none.
func (k *key) lead(a *Attempt) { k.leader, k.refused, a.phase = a, false, asking }

// push puts a at the end of the queue, or at the front.
func (k *key) push(a *Attempt, front bool) {
	a.phase = queued
	k.waits(a)
	k.count(a, 1)
	switch {
	case k.first == nil:
		k.first, k.last = a, a
	case front:
		a.behind, k.first.ahead = k.first, a
		k.first = a
	default:
		a.ahead, k.last.behind = k.last, a
		k.last = a
	}
}

// take takes a out of the queue, from anywhere in constant time.
func (k *key) take(a *Attempt) {
	k.count(a, -1)
	if a.ahead == nil {
		k.first = a.behind
	} else {
		a.ahead.behind = a.behind
	}
	if a.behind == nil {
		k.last = a.ahead
	} else {
		a.behind.ahead = a.ahead
	}
	a.ahead, a.behind = nil, nil
}

func (k *key) count(a *Attempt, n int) {
	if a.try {
		k.tries += n
	} else {
		k.patient += n
	}
}

// waits counts a, once, as one that waits, unless it is a try.
func (k *key) waits(a *Attempt) {
	if !a.counted && !a.try {
		a.counted = true
		k.waiting++
	}
}

// waitsNot takes that back.
func (k *key) waitsNot(a *Attempt) {
	if a.counted {
		a.counted = false
		k.waiting--
	}
}

// refuses reports whether a try fails without a request: this client has the key, or waits for it.
func (k *key) refuses(a *Attempt) bool {
	return a.try && (k.hold != nil || k.refused || k.patient > 0)
}

// full reports whether as many wait for the key as a, which would be one more, allows.
func (k *key) full(a *Attempt) bool {
	if a.spec.MaxWaiting == 0 || a.try || a.m.queues != nil {
		return false
	}
	waiting := k.waiting
	if a.spec.ofHeads && k.hold != nil {
		waiting++
	}
	return waiting >= a.spec.MaxWaiting
}

// turnAway ends the tries in the queue, for the key cannot be had now. None of them is behind one that waits, but for one that
// was put at the front. Manager.mu is held.
func (m *Manager) turnAway(k *key) {
	for a := k.first; k.tries > 0; {
		behind := a.behind
		if a.try {
			a.refusal = m.locked(k)
			m.leave(a)
			a.signal()
		}
		a = behind
	}
}

// heldBy is the id of the hold that this client has, "" without one.
func (k *key) heldBy() string {
	if k.hold == nil {
		return ""
	}
	return k.hold.by.id
}

// leave takes a out of its key, if it has a place there. Manager.mu is held.
func (m *Manager) leave(a *Attempt) {
	if a.phase == outside {
		return
	}
	k := m.keyOf(a.spec.Key)
	switch {
	case a.phase == queued:
		k.take(a)
	case a.phase == asking && a.alone:
		k.alone--
	case a.phase == asking:
		k.leader = nil
	}
	a.phase = outside
	k.waitsNot(a)
	delete(m.asking, a.id)
	m.attempts--
	m.next(k)
	m.noteIdle()
}

// leaveKey opens the key of a hold that is over to the next attempt.
func (m *Manager) leaveKey(h *hold) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.holds, h.by.id)
	k := m.keyOf(h.by.spec.Key)
	if k.hold == h { // else the key was granted to a fair attempt meanwhile
		k.hold = nil
	}
	m.next(k)
	m.noteIdle()
}
