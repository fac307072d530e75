package driver

import (
	"context"
	"errors"
)

// Split makes one backend of two: locks on the one, limits on the other.
//
//	client, err := coord.New(driver.Split(etcdBackend, redisBackend))
//
// It claims for locks what the first claims, for limits what the second does,
// and of state that lasts what both do; its scope is the narrower. Close closes both.
func Split(locks, limits Backend) Backend {
	return &split{locks, locks, limits, locks, locks, limits}
}

type split struct {
	Locker
	Queuer
	Limiter
	Operator
	locks, limits Backend
}

func (s *split) Shared() SharedLocker { return s.locks.Shared() }

// Partition is of a key that is locked. The core asks each backend itself.
func (s *split) Partition(key string) string { return s.locks.Partition(key) }

// Ping makes a round trip to both.
func (s *split) Ping(ctx context.Context) error {
	for _, b := range backends(s) {
		if err := b.Ping(ctx); err != nil && !errors.Is(err, ErrUnsupported) {
			return err
		}
	}
	return nil
}

// Describe gives the settings of both. The names begin with that of the store.
func (s *split) Describe(ctx context.Context) (map[string]string, error) {
	all := map[string]string{}
	for _, b := range backends(s) {
		settings, err := b.Describe(ctx)
		if err != nil {
			return nil, err
		}
		for name, value := range settings {
			all[b.Info().Name+" "+name] = value
		}
	}
	return all, nil
}

// Check gives the findings of both. The names begin with that of the store.
func (s *split) Check(ctx context.Context) (all []Finding, err error) {
	for _, b := range backends(s) {
		findings, err := b.Check(ctx)
		if err != nil {
			return nil, err
		}
		for _, f := range findings {
			f.Name = b.Info().Name + " " + f.Name
			all = append(all, f)
		}
	}
	return all, nil
}

// LocksAndLimits gives the store that locks and the one that limits: b twice, unless [Split] has made it. It is for package
// coord.
func LocksAndLimits(b Backend) (locks, limits Backend) {
	if s, ok := b.(*split); ok {
		locks, _ = LocksAndLimits(s.locks)
		_, limits = LocksAndLimits(s.limits)
		return locks, limits
	}
	return b, b
}

// backends lists the stores behind b.
func backends(b Backend) []Backend {
	if s, ok := b.(*split); ok {
		return append(backends(s.locks), backends(s.limits)...)
	}
	return []Backend{b}
}

// limitClaims speak of limits alone and bothClaims of locks and limits; scopes are
// ordered from narrow to wide.
var (
	limitClaims = Claims{ServerClock, AtomicMulti, Reserve, Charge}
	bothClaims  = Claims{DurableRestart, DurableFailover, NoEviction}
	scopes      = Claims{ScopeProcess, ScopeMachine, ScopeHosts}
)

func (s *split) Info() Info {
	a, b := s.locks.Info(), s.limits.Info()
	info := a
	info.Name = a.Name + "+" + b.Name
	info.Server = joinServers(a.Server, b.Server)
	info.MaxKey = minBound(a.MaxKey, b.MaxKey)
	info.Claims = nil
	for _, c := range AllClaims() {
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
