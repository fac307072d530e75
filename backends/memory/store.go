package memory

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/driver"
)

const (
	minTTL = 10 * time.Millisecond
	// maxTTL keeps every instant of the store's clock far from overflow.
	maxTTL = 366 * 24 * time.Hour
)

// Claims are what the conformance suite proves of this store.
var Claims = driver.Claims{
	driver.Fair, driver.Wake, driver.PerHoldTTL, driver.Inspect, driver.Break, driver.List, driver.Shared, driver.Vote,
	driver.TokenProcess, driver.NoEviction,
	driver.ServerClock, driver.AtomicMulti, driver.Reserve, driver.Charge,
	driver.ScopeProcess,
}

// Store is the state that its clients share. Use NewStore.
type Store struct {
	clock  clock
	tokens atomic.Int64
	locks  table[slot]
	limits table[account]
	shared table[sharedKey]
}

// NewStore makes an empty store.
func NewStore() *Store {
	s := &Store{clock: newClock()}
	s.locks.init(slotIdle)
	s.limits.init(s.accountsIdle)
	s.shared.init(s.sharedIdle)
	return s
}

// Open makes a client of the store. Closing it ends its own calls and leaves
// the store, with all holds and limits, to the other clients.
func (s *Store) Open() driver.Backend {
	return &backend{store: s, done: make(chan struct{})}
}

// New makes a fresh store with one client.
func New() driver.Backend { return NewStore().Open() }

// backend is one client of a store.
type backend struct {
	driver.Unimplemented

	store  *Store
	closed atomic.Bool
	once   sync.Once
	done   chan struct{} // closed by Close, after closed was set
}

var _ driver.Backend = (*backend)(nil)

// Info describes the store.
func (b *backend) Info() driver.Info {
	return driver.Info{
		Name:    "memory",
		MinTTL:  minTTL,
		TTLStep: time.Nanosecond,
		MaxTTL:  maxTTL,
		Claims:  slices.Clone(Claims),
	}
}

// Close ends the calls of this client that wait.
func (b *backend) Close() error {
	b.once.Do(func() {
		b.closed.Store(true)
		close(b.done)
	})
	return nil
}

// Ping reports whether the client is open.
func (b *backend) Ping(ctx context.Context) error { return b.ready(ctx) }

// ready refuses a call that comes after Close or after the end of ctx.
func (b *backend) ready(ctx context.Context) error {
	if b.closed.Load() {
		return driver.ErrClosed
	}
	if ctx.Err() != nil {
		return driver.NotSent(ctx.Err())
	}
	return nil
}

// checkKey refuses the empty key. The core has checked already; a caller of the
// bare driver has not.
func checkKey(key string) error {
	if key == "" {
		return fmt.Errorf("%w: key is empty: want at least 1 byte", driver.ErrInvalid)
	}
	return nil
}

// checkHold refuses what can never be held.
func checkHold(key, id string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if id == "" || len(id) > driver.MaxID {
		return fmt.Errorf("%w: id of %d bytes: want 1 to %d", driver.ErrInvalid, len(id), driver.MaxID)
	}
	return nil
}

// checkTTL refuses a lease that would never begin or never end.
func checkTTL(ttl time.Duration) error {
	if ttl <= 0 || ttl > maxTTL {
		return fmt.Errorf("%w: TTL %v: want more than 0, at most %v", driver.ErrInvalid, ttl, maxTTL)
	}
	return nil
}
