// Package certmagiccoord lets certmagic, and so Caddy, lock by coord: of all machines, one gets the
// certificate of a name. What certmagic stores is where it was, and the locks are on the store of coord.
//
// certmagic's FileStorage has locks of its own, which need a file system that all machines mount. Many
// storages for a database or a bucket have none, or weak ones.
package certmagiccoord

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/coordgo/coord"
)

// Storage is certmagic's Storage, TryLocker and LockLeaseRenewer. It is safe for concurrent use. The lock of name is
// coord.Key("certmagic", name), and its client renews it until Unlock.
//
// certmagic cannot be told that a lock was lost. An attempt that has begun goes on, and another machine may
// begin one meanwhile; before the next attempt certmagic calls RenewLockLease, which takes the lock again. As
// certmagic names locks, and not holders, a goroutine that lost a lock unlocks that of another goroutine of
// the same Storage.
type Storage struct {
	certmagic.Storage
	client coord.Locker

	mu   sync.Mutex
	held map[string]*coord.Lock
}

var (
	_ certmagic.TryLocker        = (*Storage)(nil)
	_ certmagic.LockLeaseRenewer = (*Storage)(nil)
)

// NewStorage stores in data, whose own locks are not used, and locks by client, usually a *coord.Client.
func NewStorage(data certmagic.Storage, client coord.Locker) *Storage {
	return &Storage{Storage: data, client: client, held: make(map[string]*coord.Lock)}
}

// Lock waits for the lock of name until ctx ends.
func (s *Storage) Lock(ctx context.Context, name string) error {
	lock, err := s.client.Lock(ctx, coord.Key("certmagic", name))
	if err != nil {
		return err
	}
	s.keep(name, lock)
	return nil
}

// TryLock makes one attempt. It is false, with a nil error, when another one holds the lock.
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	lock, err := s.client.TryLock(ctx, coord.Key("certmagic", name))
	if errors.Is(err, coord.ErrLocked) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	s.keep(name, lock)
	return true, nil
}

// RenewLockLease waits for a lock that was lost: certmagic calls it before each attempt, and then looks
// whether another process has done the work. A lock that is held needs nothing, because the client renews it,
// and so the duration does not count. If name was not locked here, the error matches coord.ErrNotHeld.
func (s *Storage) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	s.mu.Lock()
	lock, ok := s.held[name]
	s.mu.Unlock()
	if !ok {
		return fmt.Errorf("certmagiccoord: %s is not locked: %w", name, coord.ErrNotHeld)
	}
	if lock.Err() == nil {
		return nil
	}
	return s.Lock(ctx, name)
}

// Unlock gives the lock of name back. If it was lost, the error matches coord.ErrLost; if name was not locked here,
// coord.ErrNotHeld.
func (s *Storage) Unlock(ctx context.Context, name string) error {
	s.mu.Lock()
	lock, ok := s.held[name]
	delete(s.held, name)
	s.mu.Unlock()
	if !ok {
		return fmt.Errorf("certmagiccoord: %s is not locked: %w", name, coord.ErrNotHeld)
	}
	return lock.Unlock(ctx)
}

func (s *Storage) keep(name string, lock *coord.Lock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[name] = lock
}
