package conformance

import (
	"sync/atomic"

	"github.com/coordgo/coord"
)

// section is the code that the lock of a key alone guards: its token rises, and no visit to it is lost. What it
// remembers is atomic, so that a store that lets two in fails by what it did and not by a data race of the case.
type section struct {
	e      *env
	inside atomic.Int32
	visits atomic.Int64
	last   atomic.Int64
}

// visit runs fn, nil for nothing, as who and under lock.
func (s *section) visit(who string, lock *coord.Lock, fn func()) {
	if n := s.inside.Add(1); n != 1 {
		s.e.Errorf("%s: saw %d under the lock at a time, want 1", who, n)
	}
	defer s.inside.Add(-1)
	visits := s.visits.Load()
	rises(s.e, who, int64(lock.Token()), s.last.Load())
	s.last.Store(int64(lock.Token()))
	if fn != nil {
		fn()
	}
	s.visits.Store(visits + 1)
}

// visited wants n visits to have been counted.
func (s *section) visited(n int) {
	if saw := s.visits.Load(); saw != int64(n) && !s.e.Failed() {
		s.e.Errorf("visits under the lock: counted %d, want %d: updates were lost", saw, n)
	}
}
