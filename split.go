package coord

import (
	"context"
	"errors"

	"github.com/coordgo/coord/driver"
)

// Split makes one backend of two: locks on the one, limits on the other.
//
//	client, err := coord.New(coord.Split(etcdBackend, redisBackend))
//
// It claims for locks what the first claims, for limits what the second does,
// and of state that lasts what both do; its scope is the narrower. Close closes both.
func Split(locks, limits driver.Backend) driver.Backend {
	s := &split{locks: locks, limits: limits}
	s.Locker, _ = locks.(driver.Locker)
	s.Limiter, _ = limits.(driver.Limiter)
	if s.Locker == nil {
		s.Locker = noLocks{}
	}
	if s.Limiter == nil {
		s.Limiter = noLimits{}
	}
	return s
}

type split struct {
	driver.Locker
	driver.Limiter
	locks, limits driver.Backend
}

// halves gives the backend that locks and the one that limits.
func halves(b driver.Backend) (locks, limits driver.Backend) {
	if s, ok := b.(*split); ok {
		locks, _ = halves(s.locks)
		_, limits = halves(s.limits)
		return locks, limits
	}
	return b, b
}

// backends lists the stores behind b.
func backends(b driver.Backend) []driver.Backend {
	if s, ok := b.(*split); ok {
		return append(backends(s.locks), backends(s.limits)...)
	}
	return []driver.Backend{b}
}

// limitClaims speak of limits alone and bothClaims of locks and limits; scopes are
// ordered from narrow to wide.
var (
	limitClaims = driver.Claims{driver.ServerClock, driver.AtomicMulti, driver.Reserve, driver.Charge}
	bothClaims  = driver.Claims{driver.DurableRestart, driver.DurableFailover, driver.NoEviction}
	scopes      = driver.Claims{driver.ScopeProcess, driver.ScopeMachine, driver.ScopeHosts}
)

func (s *split) Info() driver.Info {
	a, b := s.locks.Info(), s.limits.Info()
	info := a
	info.Name = a.Name + "+" + b.Name
	info.Server = joinServers(a.Server, b.Server)
	info.MaxKey = minBound(a.MaxKey, b.MaxKey)
	info.Claims = nil
	for _, c := range driver.AllClaims() {
		var claimed bool
		switch {
		case scopes.Has(c):
		case bothClaims.Has(c):
			claimed = a.Claims.Has(c) && b.Claims.Has(c)
		case limitClaims.Has(c):
			claimed = b.Claims.Has(c)
		default:
			claimed = a.Claims.Has(c)
		}
		if claimed {
			info.Claims = append(info.Claims, c)
		}
	}
	for _, c := range scopes {
		if a.Claims.Has(c) || b.Claims.Has(c) {
			info.Claims = append(info.Claims, c)
			break
		}
	}
	return info
}

func joinServers(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ", " + b
}

// minBound is the smaller of two bounds of which 0 means none.
func minBound(a, b int) int {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}

func (s *split) Close() error { return errors.Join(s.locks.Close(), s.limits.Close()) }

// noLocks and noLimits stand for a half that a store does not have.
type (
	noLocks  struct{}
	noLimits struct{}
)

func (noLocks) TryLock(context.Context, string, driver.Request) (driver.Grant, error) {
	return driver.Grant{}, ErrUnsupported
}

func (noLocks) Renew(context.Context, string, driver.Request) (driver.Grant, error) {
	return driver.Grant{}, ErrUnsupported
}
func (noLocks) Unlock(context.Context, string, string) error { return ErrUnsupported }

func (noLimits) Take(context.Context, string, driver.Limit, []driver.Ask) (driver.Taken, error) {
	return driver.Taken{}, ErrUnsupported
}
func (noLimits) Reset(context.Context, string, driver.Limit) error { return ErrUnsupported }
