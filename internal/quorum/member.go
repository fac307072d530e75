package quorum

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
)

// holdKey names what calls are about: an id on a key.
type holdKey struct{ key, id string }

// member is one of the stores.
type member struct {
	driver.Backend
	open   func(context.Context) (driver.Backend, error) // gives the store, which is opened now if it was absent
	name   string
	runs   runs
	doubts doubts

	mu         sync.Mutex
	calls      int                       // under way
	answered   time.Time                 // when a call was answered last
	unanswered time.Time                 // when one was not
	last       map[holdKey]chan struct{} // closed when the last call about it has returned
}

func (m *member) String() string { return m.name }

// ended takes in whether a call failed: whether it was not answered.
func (m *member) ended(failed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if failed {
		m.unanswered = time.Now()
	} else {
		m.answered = time.Now()
	}
}

// silent reports whether m answers nobody, as far as is known. m.mu is held.
func (m *member) silent() bool {
	now := time.Now()
	return m.unanswered.After(m.answered) && now.Sub(m.answered) > callBound && now.Sub(m.unanswered) <= 2*callBound
}

// refuse is why m takes no call while more than most are under way. m.mu is held.
func (m *member) refuse(most int) error {
	if m.calls > most && m.silent() {
		return fmt.Errorf("%w: %d calls wait for its answer", driver.ErrNotSent, m.calls)
	}
	return nil
}

// turn is enter once more for a call that has waited.
func (m *member) turn() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.refuse(silentCalls)
}

// enter gives a call about h its turn at m: before is closed when it may begin; nil: now. End with leave, which is told the
// call's error. If the call ends h, there is a doubt about h from now on, because a renewal does not wait for its turn;
// and afterwards, if what became of the release is not known.
func (m *member) enter(h holdKey, ends bool) (before <-chan struct{}, leave func(error), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.refuse(silentCalls - 1); err != nil {
		return nil, nil, err
	}
	m.calls++
	if h.id == "" {
		return nil, func(error) { m.leave(h, nil) }, nil
	}
	if ch := m.last[h]; ch != nil {
		before = ch
	}
	mine := make(chan struct{})
	m.last[h] = mine
	if !ends {
		return before, func(error) { m.leave(h, mine) }, nil
	}
	m.doubts.begin(h)
	return before, func(err error) {
		m.doubts.end(h, err != nil && !driver.Definite(err))
		m.leave(h, mine)
	}, nil
}

func (m *member) leave(h holdKey, mine chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls--
	if mine == nil {
		return
	}
	close(mine)
	if m.last[h] == mine {
		delete(m.last, h)
	}
}
