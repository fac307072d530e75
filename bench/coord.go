package main

import (
	"context"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/all"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/bench"
)

// coordLocks is coord, opened as its documents say.
type coordLocks struct{ *coord.Client }

func (c coordLocks) Lock(ctx context.Context, key string) (bench.Held, error) {
	l, err := c.Client.Lock(ctx, key)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func openCoordLocks(ctx context.Context, s *store) (lockClient, error) {
	c, err := coord.Open(ctx, s.url())
	if err != nil {
		return nil, err
	}
	return coordLocks{c}, nil
}

func openFairLocks(ctx context.Context, s *store) (lockClient, error) {
	c, err := coord.Open(ctx, s.url())
	if err != nil {
		return nil, err
	}
	return fairLocks{c}, nil
}

type coordLimits struct {
	*coord.Client
	limit coord.Limit
}

func (c coordLimits) Allow(ctx context.Context, key string) (bool, error) {
	r, err := c.Client.Allow(ctx, key, c.limit)
	return r.Allowed, err
}

func openCoordLimits(algorithm coord.Algorithm, opts ...coord.Option) func(context.Context, *store, bench.Rate) (limitClient, error) {
	return func(ctx context.Context, s *store, r bench.Rate) (limitClient, error) {
		limit := coord.Limit{Rate: r.N, Per: r.Per, Algorithm: algorithm}
		if algorithm == coord.TokenBucket {
			limit.Burst = r.N
		}
		c, err := coord.Open(ctx, s.url(), opts...)
		if err != nil {
			return nil, err
		}
		return coordLimits{c, limit}, nil
	}
}

func coordSubjects() (list []subject) {
	for _, store := range storeNames {
		waits := "polls"
		switch claims := all.Claims(store); {
		case claims.Has(driver.Fair):
			waits = "woken, in order"
		case claims.Has(driver.Wake):
			waits = "woken"
		}
		list = append(list,
			subject{store: store, name: "coord", kind: bench.Ours, locks: openCoordLocks, waits: waits},
			subject{store: store, name: "coord, sliding window", kind: bench.Ours, limits: openCoordLimits(coord.SlidingWindow), limit: "at most so many in any period"},
			subject{store: store, name: "coord, token bucket", kind: bench.Ours, limits: openCoordLimits(coord.TokenBucket), limit: "token bucket"},
			subject{store: store, name: "coord, fixed window", kind: bench.Ours, limits: openCoordLimits(coord.FixedWindow), limit: "so many in each period"},
		)
		if store == "redis" {
			list = append(list, subject{store: store, name: "coord, Fair()", kind: bench.Ours, uses: contended, locks: openFairLocks, waits: "woken, in order over all processes"})
		}
		if store != "memory" { // where leases do nothing
			list = append(list, subject{
				store: store, name: "coord, leased permits", kind: bench.Ours,
				limits: openCoordLimits(coord.SlidingWindow, coord.WithPermitLease(coord.PermitLease{})), limit: "at most so many in any period; WithPermitLease",
			})
		}
	}
	return list
}

// fairLocks wait their turn.
type fairLocks struct{ *coord.Client }

func (f fairLocks) Lock(ctx context.Context, key string) (bench.Held, error) {
	l, err := f.Client.Lock(ctx, key, coord.Fair())
	if err != nil {
		return nil, err
	}
	return l, nil
}
