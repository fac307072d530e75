package hold

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/internal/errs"
	"github.com/coordgo/coord/internal/partition"
	"github.com/coordgo/coord/observe"
)

// Store is the part of a store that locks, and what its claims say beyond the minimum.
type Store struct {
	driver.Locker
	Queuer  driver.Queuer // nil: it has no queue
	Delayed bool          // it has UnlockAfter
	Pushes  bool          // it tells of losses
	Parts   partition.Parts
}

// Config is what a Manager works with. Optional is what follows Jitter.
type Config struct {
	Store  Store
	Clock  *clock.Clock
	Log    *slog.Logger
	NewID  func(holder string) string                      // names one acquisition; no two are equal
	Jitter func(key string, d time.Duration) time.Duration // up to d, for a pause
	Floor  int64                                           // added to the store's fencing values
	Beside func(id string) bool                            // whether an id is of another client of this process
	// Queues makes it a Manager of keys that several hold: who is refused waits in the exclusive lock of the key, of
	// this Manager, with a lease of PlaceLease. Changes may push what the head of a queue waits for.
	Queues     *Manager
	PlaceLease time.Duration
	Changes    Notifier
}

// Notifier pushes the changes of a key that several hold. A driver.SharedLocker is one.
type Notifier interface {
	NotifyChanges(ctx context.Context, key string, changed func()) error
}

// Manager has the locks of one client. It is safe for concurrent use.
type Manager struct {
	store  Store
	clock  *clock.Clock
	log    *slog.Logger
	newID  func(holder string) string
	jitter func(key string, d time.Duration) time.Duration
	floor  int64
	beside func(id string) bool

	queues     *Manager // nil: its keys are exclusive
	placeLease time.Duration
	changes    Notifier
	bounds     sync.Once // warned of clients with other bounds

	mu       sync.Mutex          // guards what follows, and the states of all keys, attempts, holds and tenures
	keys     map[string]*key     // by name
	holds    map[string]*hold    // by id, those not given back
	asking   map[string]*Attempt // by id, those whose loss the store may tell; nil if it tells none
	attempts int                 // those that have a place
	stopped  bool                // no attempt begins any more
	idle     chan struct{}       // closed when the Manager is stopped and has neither holds nor attempts
	isIdle   bool                // idle is closed

	sched   scheduler
	janitor janitor
	life    context.Context // ends with Stop
	endLife context.CancelFunc
	bg      sync.WaitGroup
}

// New makes a Manager.
func New(cfg Config) *Manager {
	m := &Manager{
		store: cfg.Store, clock: cfg.Clock, log: cfg.Log, newID: cfg.NewID, jitter: cfg.Jitter, floor: cfg.Floor, beside: cfg.Beside,
		queues: cfg.Queues, placeLease: cfg.PlaceLease, changes: cfg.Changes,
		keys: make(map[string]*key), holds: make(map[string]*hold), idle: make(chan struct{}),
	}
	m.life, m.endLife = context.WithCancel(context.Background())
	m.sched.init(cfg.Clock, &m.bg, m.serve)
	m.janitor.store, m.janitor.partOf, m.janitor.clock = cfg.Store.Locker, &m.store.Parts, cfg.Clock
	m.janitor.bg = &m.bg
	if cfg.Store.Pushes {
		m.asking = make(map[string]*Attempt)
		cfg.Store.NotifyLost(m.LossPushed)
	}
	return m
}

// Stop lets no attempt begin any more. Those that wait end with ErrClosed; holds go on.
func (m *Manager) Stop() {
	m.mu.Lock()
	m.stopped = true
	m.noteIdle()
	m.mu.Unlock()
	m.endLife()
}

// noteIdle closes idle when that is due. Manager.mu is held.
func (m *Manager) noteIdle() {
	if m.stopped && !m.isIdle && len(m.holds) == 0 && m.attempts == 0 {
		m.isIdle = true
		close(m.idle)
	}
}

// AwaitIdle waits, after Stop, until nothing is held and no attempt is under way, or ctx ends.
func (m *Manager) AwaitIdle(ctx context.Context) error {
	select {
	case <-m.idle:
		return nil
	default:
	}
	select {
	case <-m.idle:
		return nil
	case <-ctx.Done():
		return errs.ContextError(ctx)
	}
}

// GiveBack ends every hold, after Stop: Done of all closes first, then each is given back, a bounded number at a time
// of each part of the store.
func (m *Manager) GiveBack(ctx context.Context) {
	m.sched.stop()
	var all []ended
	m.mu.Lock()
	for _, h := range m.holds {
		if h.state == released { // whoever released it may tell observers for long
			h.state = over
			all = append(all, ended{t: h.tenure})
		} else if e := h.end(nil, errClosed, observe.LossClosed); e.t != nil {
			all = append(all, e)
		}
	}
	m.mu.Unlock()
	for _, e := range all {
		e.cancel()
	}
	partition.ForEach(&m.store.Parts, all, func(e ended) string { return holdKey(e.t.h) }, func(e ended) {
		m.tidyUp(e.t, func(h *hold) {
			if ctx.Err() == nil && !m.lingers(h) {
				_ = m.unlockOnce(ctx, h, unlockTry) // what is not confirmed is left to its lease
			}
		})
	})
}

// CleanUp ends, after GiveBack has returned or has taken too long, what is left to clean up. Calls under way end by themselves: acquisitions
// see that the Manager has stopped and withdraw what they are granted, releases go on. If a part of the store that
// hangs has used up ctx, the others have a moment more.
func (m *Manager) CleanUp(ctx context.Context) {
	_ = m.AwaitIdle(ctx) // a call that is stuck in the store ends when the store is closed
	if deadline, _ := ctx.Deadline(); time.Until(deadline) < unlockTry {
		more, cancel := context.WithTimeout(context.Background(), unlockTry)
		defer cancel()
		ctx = more
	}
	m.janitor.drain(ctx)
}

// Wait returns when no goroutine of the Manager is left. The store has been closed.
func (m *Manager) Wait() { m.bg.Wait() }

// LossPushed is what a store calls that tells of losses, and who has ended a place at the store. What is told before the grant has
// arrived is kept for settle.
func (m *Manager) LossPushed(key, id string, cause error) {
	cause = errs.Chain(errs.ErrLost, cause)
	m.mu.Lock()
	h := m.holds[id]
	if a := m.asking[id]; a != nil && a.spec.Key == key {
		a.lost = cause
	}
	m.mu.Unlock()
	if h != nil && h.by.spec.Key == key {
		m.gone(h, cause)
	}
}
