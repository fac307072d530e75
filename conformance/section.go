package conformance

import (
	"fmt"
	"sync/atomic"

	"github.com/coordgo/coord"
)

// section is the code that the lock of a key alone guards, or the permits of a semaphore: no more are inside than the
// bound, the tokens of each slot rise, and under a lock no visit is lost. What it remembers is atomic, so that a store
// that lets too many in fails by what it did and not by a data race of the case.
type section struct {
	e      *env
	bound  int64 // 0 is 1
	inside atomic.Int64
	visits atomic.Int64
	last   [16]atomic.Int64 // token of each slot
	taken  [16]atomic.Bool  // slots
}

// visit runs fn, nil for nothing, as who and under a lock, of 1.
func (s *section) visit(who string, lock *coord.Lock, fn func()) { s.visitBy(who, lock, 1, fn) }

// visitBy is visit under a lock of some weight.
func (s *section) visitBy(who string, lock *coord.Lock, weight int64, fn func()) {
	s.guarded(who, weight, func() {
		slot := lock.Slot()
		if s.taken[slot].Swap(true) {
			s.e.Errorf("slot %d: saw it given to two at once, want one", slot)
		}
		defer s.taken[slot].Store(false)
		rises(s.e, fmt.Sprintf("%s, slot %d", who, slot), int64(lock.Token()), s.last[slot].Swap(int64(lock.Token())))
		if fn != nil {
			fn()
		}
	})
}

// guarded is visit under something that has no token.
func (s *section) guarded(who string, weight int64, fn func()) {
	if n, most := s.inside.Add(weight), max(s.bound, 1); n > most {
		s.e.Errorf("%s: saw %d inside at a time, want at most %d", who, n, most)
	}
	defer s.inside.Add(-weight)
	visits := s.visits.Load()
	fn()
	s.visits.Store(visits + 1)
}

// visited wants n visits to have been counted.
func (s *section) visited(n int) {
	if saw := s.visits.Load(); saw != int64(n) && !s.e.Failed() {
		s.e.Errorf("visits under the lock: counted %d, want %d: updates were lost", saw, n)
	}
}
