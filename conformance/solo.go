package conformance

import (
	"sync"
	"time"
)

// alone lets a case run by itself: no other runs in this process then, of this suite or another.
var alone = newSolo(usualBound)

// solo is a lock that cases share, and that one can have alone. Who wants it alone lets others begin meanwhile: each
// case that had to wait for a long one to end, just because a short one is run again, would cost more than that run.
// When nothing runs, or somebody has waited for so long as patience, all of them have their turn, one after the other.
type solo struct {
	patience time.Duration

	mu      sync.Mutex
	changed *sync.Cond
	running int  // cases that share it
	waiting int  // for having it alone
	taken   bool // somebody has it alone
	turn    bool // of those who wait: no other begins
}

func newSolo(patience time.Duration) *solo {
	s := &solo{patience: patience}
	s.changed = sync.NewCond(&s.mu)
	return s
}

// share waits until nobody has it alone.
func (s *solo) share() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.taken || s.turn {
		s.changed.Wait()
	}
	s.running++
}

func (s *solo) unshare() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	s.changed.Broadcast()
}

// take waits until nobody else has it.
func (s *solo) take() {
	urgent := time.AfterFunc(s.patience, s.hurry)
	defer urgent.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting++
	for s.taken || s.running > 0 {
		s.changed.Wait()
	}
	s.waiting--
	s.taken = true
	s.turn = s.waiting > 0
}

// hurry is called when somebody has waited for long, or has just had it.
func (s *solo) hurry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn = s.waiting > 0
}

func (s *solo) untake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = false
	s.turn = s.waiting > 0
	s.changed.Broadcast()
}
