package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// Limiter is a rate limiter of any library.
type Limiter interface {
	// Allow takes one permit of the key, if there is one.
	Allow(ctx context.Context, key string) (bool, error)
}

// Rate is a limit: so many in a period.
type Rate struct {
	N   int
	Per time.Duration
}

// LimitLoad is a use of limits.
type LimitLoad struct {
	Load
	Key  string // of it, or before its number
	Keys int
}

// LimitSample is what a use of limits came to. An operation is one decision.
type LimitSample struct {
	*Sample
	Allowed, Denied int
}

// Limits measures l. Each decision is on a key that is drawn at random.
func Limits(ctx context.Context, l Limiter, load LimitLoad) (*LimitSample, error) {
	keys := make([]string, load.Keys)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s-%d", load.Key, i)
	}
	type tally struct {
		draw            *rand.PCG
		allowed, denied int
		_               [40]byte // a cache line to each
	}
	tallies := make([]tally, load.Workers)
	for i := range tallies {
		tallies[i].draw = rand.NewPCG(1, uint64(i))
	}
	sample, err := Run(ctx, load.Load, func(ctx context.Context, worker int) error {
		t, key := &tallies[worker], keys[0]
		if len(keys) > 1 {
			key = keys[t.draw.Uint64()%uint64(len(keys))]
		}
		ok, err := l.Allow(ctx, key)
		switch {
		case err != nil:
			return err
		case ok:
			t.allowed++
		default:
			t.denied++
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s := &LimitSample{Sample: sample}
	for _, t := range tallies {
		s.Allowed += t.allowed
		s.Denied += t.denied
	}
	return s, nil
}
