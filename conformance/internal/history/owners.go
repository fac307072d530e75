package history

import "fmt"

// ModelOwners is of the calls of a Client on one key, by owners that enter again.
const ModelOwners = "owners"

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
