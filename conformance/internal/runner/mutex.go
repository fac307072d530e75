package runner

import (
	"sync"
	"time"
)

// Mutex is a read/write lock on this process: cases share it, or one holds it alone. It prefers those that share it:
// if each case had to wait for a long one to end, only because a short one is run again, that would cost more than
// that run. When nothing runs, or somebody has waited as long as patience, all that want it alone get it, one after
// the other.
type Mutex struct {
	patience time.Duration

	mu      sync.Mutex
	changed *sync.Cond
	running int  // cases that share it
	waiting int  // for holding it alone
	taken   bool // somebody holds it alone
	turn    bool // of those that wait: no other begins
}

// NewMutex gives a free Mutex.
func NewMutex(patience time.Duration) *Mutex {
	m := &Mutex{patience: patience}
	m.changed = sync.NewCond(&m.mu)
	return m
}

// RLock waits until nobody holds it alone, and shares it.
func (m *Mutex) RLock() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.taken || m.turn {
		m.changed.Wait()
	}
	m.running++
}

// RUnlock ends RLock.
func (m *Mutex) RUnlock() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running--
	m.changed.Broadcast()
}

// Lock waits until nobody else has it, and holds it alone.
func (m *Mutex) Lock() {
	urgent := time.AfterFunc(m.patience, m.hurry)
	defer urgent.Stop()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting++
	for m.taken || m.running > 0 {
		m.changed.Wait()
	}
	m.waiting--
	m.taken = true
	m.turn = m.waiting > 0
}

// hurry is called when somebody has waited for long.
func (m *Mutex) hurry() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn = m.waiting > 0
}

// Unlock ends Lock.
func (m *Mutex) Unlock() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.taken = false
	m.turn = m.waiting > 0
	m.changed.Broadcast()
}

// Run calls run while others may run, too. If that was inconclusive it calls free, and run while nobody else runs, until it
// is conclusive.
func (m *Mutex) Run(free func(), run func(again bool) (inconclusive bool)) {
	m.RLock()
	again := run(false)
	m.RUnlock()
	if !again {
		return
	}
	free()
	m.Lock()
	defer m.Unlock()
	for run(true) {
	}
}
