package conformance

import (
	"fmt"
	"math"
	"time"
)

// The models of locks. Each is of one key.

const (
	modelLease  = "lease"  // what a driver is asked
	modelOwners = "owners" // what a Client is asked, by owners that enter again
	modelFence  = "fence"  // what a resource that checks tokens is asked
)

// leaseState is a key as the drivers of its store see it.
type leaseState struct {
	holder string // "" while it is free
	// token of the holder, 0 if no answer has told it yet; top is the greatest that was told.
	token, top int64
	// ends is until when the lease was promised, late until when it may bar others at most.
	ends, late int64
	// lapsed is until when a lease that has ended by itself may yet bar others: its holder may know of
	// the end before the store does.
	lapsed int64
	// now is a time before which the last step cannot have been made: a hold that was
	// succeeded without an Unlock had lapsed by then.
	now int64
}

// leaseModel is a fenced lease under the operations of package driver.
type leaseModel struct{ lapse time.Duration }

func (leaseModel) start() leaseState         { return leaseState{now: math.MinInt64, lapsed: math.MinInt64} }
func (leaseModel) same(a, b leaseState) bool { return a == b }
func (m leaseModel) promised(o *operation) int64 {
	return o.Start + o.TTL - int64(margin(time.Duration(o.TTL)))
}

// latest is until when the lease of o may bar others.
func (m leaseModel) latest(o *operation) int64 {
	if m.lapse == 0 {
		return math.MaxInt64
	}
	return o.Return + o.TTL + int64(m.lapse)
}

// held reports whether who may still have its hold when o takes effect.
func (s *leaseState) held(who string, o *operation) bool { return s.holder == who && o.Call <= s.late }

// lapses ends whatever hold there is, if its lease may have ended by the time o took effect.
func (s *leaseState) lapses(o *operation) bool {
	if s.holder != "" {
		s.now, s.lapsed = max(s.now, s.ends), max(s.lapsed, s.late)
		s.free()
	}
	return s.now <= o.last()
}

func (s *leaseState) free() { s.holder, s.token, s.ends, s.late = "", 0, math.MinInt64, 0 }

func (m leaseModel) step(s leaseState, o *operation) (leaseState, bool) {
	if s.now > o.last() {
		return s, false
	}
	switch {
	case o.Result == resNothing:
		return s, true
	case o.Result == resUnknown:
		return m.unknown(s, o), true
	case o.Op == opTry && o.Result == resOK:
		return m.granted(s, o)
	case o.Op == opTry && o.Result == resLocked:
		// Whoever is in line may bar the others, too.
		return s, o.excused || s.holder != "" && s.holder != o.Who && o.Call <= s.late || s.holder == "" && o.Call <= s.lapsed
	case o.Op == opRenew && o.Result == resOK:
		return m.extended(s, o)
	case o.Op == opUnlock && o.Result == resOK:
		if s.held(o.Who, o) {
			s.free()
			return s, true
		}
		return s, o.excused // it was in line, and is withdrawn
	case o.Op != opTry && o.Result == resNotHeld:
		if s.holder != o.Who {
			return s, true
		}
		if o.Op == opUnlock && o.Shaken {
			s.free() // by the first of two
			return s, true
		}
		ok := s.lapses(o)
		return s, ok
	}
	return s, false
}

// unknown is what a call does whose answer nobody has. An unknown grant promised nothing to anyone: it may end at
// any time, and bars others until it is succeeded or released.
func (m leaseModel) unknown(s leaseState, o *operation) leaseState {
	switch {
	case o.Op == opTry && s.holder != o.Who:
		s.lapses(o)
		s.holder, s.late = o.Who, math.MaxInt64
	case s.holder != o.Who:
	case o.Op == opUnlock:
		s.free()
	default:
		s.late = math.MaxInt64
	}
	return s
}

// granted is a TryLock that got the key: anew, or again under the id that has it.
func (m leaseModel) granted(s leaseState, o *operation) (leaseState, bool) {
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

// extended is a grant to who has the key: the token is the same, the lease no shorter.
func (m leaseModel) extended(s leaseState, o *operation) (leaseState, bool) {
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
	return fmt.Sprintf("%s holds, token %d, last %d, promised until %s", tail(s.holder), s.token, s.top, clockText(s.ends))
}

// excusedBy reports whether p, which left no hold, may be the reason of o's answer: of a refusal if p was
// in line meanwhile, of an Unlock that found something if it withdrew p from the line.
func (o *operation) excusedBy(p operation) bool {
	if p.Op != opTry || p.Result != resLocked && p.Result != resUnknown || p.Call > o.Return || p.last() < o.Call {
		return false
	}
	switch o.Op {
	case opTry:
		return p.Who != o.Who
	case opUnlock:
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

// ownersModel is a fenced lock that owners enter again. A hold can be lost at any time; but from
// then on nothing of it succeeds, and until then nobody else is granted. Refusals are not judged.
type ownersModel struct{}

func (ownersModel) start() ownersState             { return ownersState{} }
func (ownersModel) same(a, b ownersState) bool     { return a == b }
func (ownersModel) free(s ownersState) ownersState { return ownersState{top: s.top} }

func (m ownersModel) step(s ownersState, o *operation) (ownersState, bool) {
	mine := s.owner == o.Who && s.token == o.Token
	switch o.Op {
	case opLock, opTry:
		switch {
		case o.Result == resLost:
			// Entering again after a loss.
			if s.owner == o.Who {
				s = m.free(s)
			}
			return s, true
		case o.Result != resOK:
			return s, true // what it has left at the store is nobody's hold
		case mine:
			s.depth++
			return s, true
		case s.owner == o.Who:
			return s, false // it enters again, or is told of its loss, but does not begin anew
		}
		// A new hold: the one before it was given back, or lost and not yet seen to be.
		return ownersState{owner: o.Who, token: o.Token, depth: 1, top: o.Token}, o.Token > s.top
	case opCheck, opUnlock:
		switch {
		case o.Result == resOK && !mine, o.Result == resNotHeld:
			return s, false // each handle is checked while it is open, and unlocked once
		case o.Result == resOK && o.Op == opUnlock && s.depth > 1:
			s.depth--
		case o.Result == resOK && o.Op == opCheck:
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

func (fenceModel) step(s int64, o *operation) (int64, bool) {
	switch {
	case o.Op != opWrite:
		return s, false
	case o.Result == resOK:
		return max(s, o.Token), o.Token >= s
	}
	return s, o.Result == resRefused && o.Token < s
}
