package main

import (
	"context"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/all"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/bench"
)

// view is what of a client is measured.
type view func(*coord.Client) func(ctx context.Context, key string) (*coord.Lock, error)

func exclusive(opts ...coord.LockOption) view {
	return func(c *coord.Client) func(context.Context, string) (*coord.Lock, error) {
		return func(ctx context.Context, key string) (*coord.Lock, error) { return c.Lock(ctx, key, opts...) }
	}
}

func sharedBy(of func(*coord.Client) *coord.Shared) view {
	return func(c *coord.Client) func(context.Context, string) (*coord.Lock, error) {
		s := of(c)
		return func(ctx context.Context, key string) (*coord.Lock, error) { return s.Lock(ctx, key) }
	}
}

func semaphore(n int) view {
	return sharedBy(func(c *coord.Client) *coord.Shared { return c.Semaphore(n) })
}

var (
	reader = sharedBy(func(c *coord.Client) *coord.Shared { return c.ReadWrite().Read() })
	writer = sharedBy(func(c *coord.Client) *coord.Shared { return c.ReadWrite().Write() })
)

// openCoord opens coord as its documents say.
func openCoord(of view) opener {
	return func(ctx context.Context, s *store) (*locks, error) {
		c, err := coord.Open(ctx, s.url())
		if err != nil {
			return nil, err
		}
		lock := of(c)
		return &locks{c.Close, func(ctx context.Context, key string) (unlock, error) {
			l, err := lock(ctx, key)
			if err != nil {
				return nil, err
			}
			return l.Unlock, nil
		}}, nil
	}
}

func openCoordLimits(algorithm coord.Algorithm, opts ...coord.Option) func(context.Context, *store, bench.Rate) (*limits, error) {
	return func(ctx context.Context, s *store, r bench.Rate) (*limits, error) {
		limit := coord.Limit{Rate: r.N, Per: r.Per, Algorithm: algorithm}
		if algorithm == coord.TokenBucket {
			limit.Burst = r.N
		}
		c, err := coord.Open(ctx, s.url(), opts...)
		if err != nil {
			return nil, err
		}
		return &limits{c.Close, func(ctx context.Context, key string) (bool, error) {
			r, err := c.Allow(ctx, key, limit)
			return r.Allowed, err
		}}, nil
	}
}

func coordSubjects() (list []subject) {
	for _, store := range storeNames {
		if store == slowPostgres {
			list = append(list, subject{store: store, name: "coord", kind: ours, use: alone | crowded, locks: openCoord(exclusive()), about: "in order"})
			continue
		}
		list = append(list, coordLocks(store)...)
		list = append(list,
			subject{store: store, name: "coord, sliding window", kind: ours, limits: openCoordLimits(coord.SlidingWindow), about: "at most so many in any period"},
			subject{store: store, name: "coord, token bucket", kind: ours, limits: openCoordLimits(coord.TokenBucket), about: "token bucket"},
			subject{store: store, name: "coord, fixed window", kind: ours, limits: openCoordLimits(coord.FixedWindow), about: "so many in each period"},
		)
		if store != "memory" { // where leases do nothing
			list = append(list, subject{
				store: store, name: "coord, leased permits", kind: ours,
				limits: openCoordLimits(coord.SlidingWindow, coord.WithPermitLease(coord.PermitLease{})), about: "at most so many in any period; WithPermitLease",
			})
		}
	}
	return list
}

// coordLocks are coord's locks on a store, as far as it has them.
func coordLocks(store string) []subject {
	claims, waits := all.Claims(store), "polls"
	switch {
	case claims.Has(driver.Fair):
		waits = "woken, in order"
	case claims.Has(driver.Wake):
		waits = "woken"
	}
	elsewhere, among := sharedWake, amongReaders
	switch store {
	case "postgres": // which does not wake
		waits = "in order"
	case "memory": // of one process
		elsewhere = 0
	case "memcached": // of at most 64 holders
		among = 0
	}
	list := []subject{{store: store, name: "coord", kind: ours, use: alone | contended | shared | elsewhere, locks: openCoord(exclusive()), about: waits}}
	if store == "redis" {
		list = append(list, subject{store: store, name: "coord, Fair()", kind: ours, use: contended, locks: openCoord(exclusive(coord.Fair())), about: "woken, in order over all clients"})
	}
	return append(list,
		subject{store: store, name: "coord, Semaphore(16)", kind: ours, use: shared | saturated, locks: openCoord(semaphore(permits))},
		subject{store: store, name: "coord, Semaphore(1)", kind: ours, use: elsewhere, locks: openCoord(semaphore(1))},
		subject{store: store, name: "coord, Read", kind: ours, use: shared, locks: openCoord(reader)},
		subject{store: store, name: "coord, Write", kind: ours, use: shared | among | elsewhere, locks: openCoord(writer), reads: openCoord(reader)},
	)
}
