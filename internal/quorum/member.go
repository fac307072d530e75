package quorum

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/coordgo/coord/driver"
)

// store is what a member can do.
type store interface {
	driver.Backend
	driver.Locker
	driver.DelayedUnlocker
	driver.Inspector
	driver.Breaker
	driver.Pinger
}

// holdKey names what calls are about: an id on a key.
type holdKey struct{ key, id string }

// member is one of the stores.
type member struct {
	store
	name   string
	runs   runs
	doubts doubts
	silent atomic.Bool // its last call did not say what happened
	late   atomic.Bool // it was waited for in vain, and has not answered since

	mu    sync.Mutex
	calls int                       // under way
	last  map[holdKey]chan struct{} // closed when the last call about it has returned
}

// release ends h by do, and notes if what became of it is not known.
func (m *member) release(h holdKey, do func() error) error {
	err := do()
	if err != nil && !driver.Definite(err) {
		m.doubts.add(h)
	}
	return err
}

func (m *member) String() string { return m.name }

// enter gives a call about h its turn at m: before is closed when it may begin; nil: now. End with leave.
func (m *member) enter(h holdKey) (before <-chan struct{}, leave func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.calls >= maxCalls || m.calls >= silentCalls && m.silent.Load() {
		return nil, nil, fmt.Errorf("%w: %d calls wait for its answer", driver.ErrNotSent, m.calls)
	}
	m.calls++
	if h.id == "" {
		return nil, func() { m.leave(h, nil) }, nil
	}
	if ch := m.last[h]; ch != nil {
		before = ch
	}
	mine := make(chan struct{})
	m.last[h] = mine
	return before, func() { m.leave(h, mine) }, nil
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
