package history

import (
	"fmt"
	"math"
	"time"
)

// The models of locks. Each is of one key.

const (
	ModelLease  = "lease"  // the calls of drivers
	ModelOwners = "owners" // the calls of a Client, by owners that enter again
	ModelFence  = "fence"  // the writes to a resource that checks tokens
)

// leaseState is a key as the drivers of its store see it.
type leaseState struct {
	holder string // "" while it is free
	// token of the holder, 0 if no answer has given it yet. top is the greatest that an answer gave.
	token, top int64
	// ends is until when the lease was promised, late until when it may keep others out at most.
	ends, late int64
	// lapsed is until when a lease that has ended by itself may still keep others out: its holder may know of the end
	// before the store does.
	lapsed int64
	// now is the earliest time of the last step: a hold that had a successor without an Unlock had lapsed by then.
	now int64
}

// leaseModel is a fenced lease under the operations of package driver.
type leaseModel struct{ lapse time.Duration }

func (leaseModel) start() leaseState         { return leaseState{now: math.MinInt64, lapsed: math.MinInt64} }
func (leaseModel) same(a, b leaseState) bool { return a == b }
func (m leaseModel) promised(o *Operation) int64 {
	return o.Start + o.TTL - int64(Margin(time.Duration(o.TTL)))
}

// latest is until when the lease of o may keep others out.
func (m leaseModel) latest(o *Operation) int64 {
	if m.lapse == 0 {
		return math.MaxInt64
	}
	return o.Return + o.TTL + int64(m.lapse)
}

// held reports whether who may still have its hold when o takes effect.
func (s *leaseState) held(who string, o *Operation) bool { return s.holder == who && o.Call <= s.late }

// lapses ends whatever hold there is, if its lease may have ended by the time o took effect.
func (s *leaseState) lapses(o *Operation) bool {
	if s.holder != "" {
		s.now, s.lapsed = max(s.now, s.ends), max(s.lapsed, s.late)
		s.free()
	}
	return s.now <= o.last()
}

func (s *leaseState) free() { s.holder, s.token, s.ends, s.late = "", 0, math.MinInt64, 0 }

func (m leaseModel) step(s leaseState, o *Operation) (leaseState, bool) {
	if s.now > o.last() {
		return s, false
	}
	switch {
	case o.Result == Nothing:
		return s, true
	case o.Result == Unknown:
		return m.unknown(s, o), true
	case o.Op == OpTry && o.Result == OK:
		return m.granted(s, o)
	case o.Op == OpTry && o.Result == Locked:
		// A queued attempt may keep the others out, too.
		return s, o.excused || s.holder != "" && s.holder != o.Who && o.Call <= s.late || s.holder == "" && o.Call <= s.lapsed
	case o.Op == OpRenew && o.Result == OK:
		return m.extended(s, o)
	case o.Op == OpUnlock && o.Result == OK:
		if s.held(o.Who, o) {
			s.free()
			return s, true
		}
		return s, o.excused // it was queued, and leaves the queue
	case o.Op != OpTry && o.Result == NotHeld:
		if s.holder != o.Who {
			return s, true
		}
		if o.Op == OpUnlock && o.Shaken {
			s.free() // by the first of two
			return s, true
		}
		ok := s.lapses(o)
		return s, ok
	}
	return s, false
}

// unknown is the effect of a call without an answer. A grant that nobody knows of promised nothing to anyone: it may
// end at any time, and keeps others out until it has a successor or is released.
func (m leaseModel) unknown(s leaseState, o *Operation) leaseState {
	switch {
	case o.Op == OpTry && s.holder != o.Who:
		s.lapses(o)
		s.holder, s.late = o.Who, math.MaxInt64
	case s.holder != o.Who:
	case o.Op == OpUnlock:
		s.free()
	default:
		s.late = math.MaxInt64
	}
	return s
}

// granted is a TryLock that got the key: newly, or again under the id that holds it.
func (m leaseModel) granted(s leaseState, o *Operation) (leaseState, bool) {
	if again, ok := m.extended(s, o); ok {
		return again, true
	}
	if o.Token <= s.top || !s.lapses(o) {
		return s, false
	}
	s.holder, s.token, s.top, s.lapsed = o.Who, o.Token, o.Token, math.MinInt64
	s.ends, s.late = m.promised(o), m.latest(o)
	return s, true
}

// extended is a grant to the holder of the key: the token is the same, and the lease is no shorter.
func (m leaseModel) extended(s leaseState, o *Operation) (leaseState, bool) {
	switch {
	case !s.held(o.Who, o):
		return s, false
	case s.token == 0 && o.Token > s.top: // of an attempt whose answer was lost
		s.token, s.top = o.Token, o.Token
	case s.token != o.Token || s.token == 0:
		return s, false
	}
	s.ends, s.late = max(s.ends, m.promised(o)), max(s.late, m.latest(o))
	return s, true
}

func (leaseModel) show(s leaseState) string {
	if s.holder == "" {
		return fmt.Sprintf("free, last token %d", s.top)
	}
	return fmt.Sprintf("%s holds, token %d, last %d, promised until %s", ShortID(s.holder), s.token, s.top, timeText(s.ends))
}

// excusedBy reports whether p, which left no hold, may be the reason of o's answer: of a refusal if p was queued at
// that time, of an Unlock that found something if it took p out of the queue.
func (o *Operation) excusedBy(p Operation) bool {
	if p.Op != OpTry || p.Result != Locked && p.Result != Unknown || p.Call > o.Return || p.last() < o.Call {
		return false
	}
	switch o.Op {
	case OpTry:
		return p.Who != o.Who
	case OpUnlock:
		return p.Who == o.Who
	}
	return false
}

// ownersState is a key as the application sees it.
type ownersState struct {
	owner string // "" while nobody holds it, as far as the application knows
	token int64
	depth int
	top   int64
}

// ownersModel is a fenced lock that owners enter again. A hold can be lost at any time. From then on nothing of it
// succeeds, and until then nobody else is granted. Refusals are not checked.
type ownersModel struct{}

func (ownersModel) start() ownersState             { return ownersState{} }
func (ownersModel) same(a, b ownersState) bool     { return a == b }
func (ownersModel) free(s ownersState) ownersState { return ownersState{top: s.top} }

func (m ownersModel) step(s ownersState, o *Operation) (ownersState, bool) {
	mine := s.owner == o.Who && s.token == o.Token
	switch o.Op {
	case OpLock, OpTry:
		switch {
		case o.Result == Lost:
			// Entering again after a loss.
			if s.owner == o.Who {
				s = m.free(s)
			}
			return s, true
		case o.Result != OK:
			return s, true // what it left at the store is nobody's hold
		case mine:
			s.depth++
			return s, true
		case s.owner == o.Who:
			return s, false // it enters again, or learns of its loss, but does not begin again
		}
		// A new hold: the one before it was given back, or lost and not yet seen to be.
		return ownersState{owner: o.Who, token: o.Token, depth: 1, top: o.Token}, o.Token > s.top
	case OpCheck, OpUnlock:
		switch {
		case o.Result == OK && !mine, o.Result == NotHeld:
			return s, false // each handle is checked while it is open, and unlocked once
		case o.Result == OK && o.Op == OpUnlock && s.depth > 1:
			s.depth--
		case o.Result == OK && o.Op == OpCheck:
		case mine:
			s = m.free(s)
		}
		return s, true
	}
	return s, false
}

func (ownersModel) show(s ownersState) string {
	if s.owner == "" {
		return fmt.Sprintf("nobody holds, last token %d", s.top)
	}
	return fmt.Sprintf("%s holds, entered %d times, token %d", s.owner, s.depth, s.token)
}

// fenceModel is a resource that remembers the greatest token it has seen, and refuses smaller ones.
type fenceModel struct{}

func (fenceModel) start() int64         { return 0 }
func (fenceModel) same(a, b int64) bool { return a == b }
func (fenceModel) show(s int64) string  { return fmt.Sprintf("greatest token %d", s) }

func (fenceModel) step(s int64, o *Operation) (int64, bool) {
	switch {
	case o.Op != OpWrite:
		return s, false
	case o.Result == OK:
		return max(s, o.Token), o.Token >= s
	}
	return s, o.Result == Refused && o.Token < s
}
