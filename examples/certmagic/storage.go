// Package certmagic shows certmagic's storage with coord's locks: what it stores is where it was, and locks are on the store
// that all machines share.
//
// certmagic's FileStorage has locks of its own, which need a file system that all machines mount. Many storages for a database
// or a bucket have none, or weak ones.
package certmagic

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/coordgo/coord"
)

// Storage is certmagic's Storage, TryLocker and LockLeaseRenewer. It is safe for concurrent use.
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

// NewStorage stores in data, and locks by client.
func NewStorage(data certmagic.Storage, client coord.Locker) *Storage {
	return &Storage{Storage: data, client: client, held: make(map[string]*coord.Lock)}
}

// Lock waits for the lock of name.
func (s *Storage) Lock(ctx context.Context, name string) error {
	lock, err := s.client.Lock(ctx, coord.Key("certmagic", name))
	if err != nil {
		return err
	}
	s.keep(name, lock)
	return nil
}

// TryLock makes one attempt.
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

// RenewLockLease waits for a lock that was lost: certmagic calls it before each attempt, and then looks whether another
// process has done the work. A lock that is held needs nothing, because the client renews it.
func (s *Storage) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	s.mu.Lock()
	lock, ok := s.held[name]
	s.mu.Unlock()
	if !ok {
		return fmt.Errorf("%s is not locked: %w", name, coord.ErrNotHeld)
	}
	if lock.Err() == nil {
		return nil
	}
	return s.Lock(ctx, name)
}

// Unlock gives the lock of name back.
func (s *Storage) Unlock(ctx context.Context, name string) error {
	s.mu.Lock()
	lock, ok := s.held[name]
	delete(s.held, name)
	s.mu.Unlock()
	if !ok {
		return fmt.Errorf("%s is not locked: %w", name, coord.ErrNotHeld)
	}
	return lock.Unlock(ctx)
}

func (s *Storage) keep(name string, lock *coord.Lock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[name] = lock
}
