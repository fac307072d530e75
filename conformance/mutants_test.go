package conformance_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
)

// store is what the memory store can do, of which a mutant overrides a part.
type store interface {
	driver.Backend
	driver.Locker
	driver.DelayedUnlocker
	driver.Inspector
	driver.Breaker
	driver.Limiter
	driver.Refunder
}

// A mutant is a driver with one plausible bug. Each must be killed by the case that is
// about its bug, for else that case proves nothing.
var mutants = []struct {
	name   string
	make   func(inner store) driver.Backend
	killer []string // cases that must fail
}{
	{"release without comparing the owner", func(s store) driver.Backend { return blindRelease{s} }, []string{"LOCK-02", "LOCK-32"}},
	{"renew that re-creates", func(s store) driver.Backend { return revivingRenew{s} }, []string{"LOCK-24"}},
	{"token that is repeated", func(s store) driver.Backend { return repeatedToken{s} }, []string{"LOCK-05", "LOCK-06"}},
	{"limit off by one", func(s store) driver.Backend { return oneTooMany{s} }, []string{"LIMIT-01", "LIMIT-05"}},
	{"lease without end", func(s store) driver.Backend { return immortal{s} }, []string{"LOCK-06", "LOCK-72"}},
	{"keys cut at a slash", func(s store) driver.Backend { return cutKeys{s} }, []string{"LOCK-80"}},
	{"denial that debits", func(s store) driver.Backend { return costlyDenial{s} }, []string{"LIMIT-05"}},
	{"refund given twice", func(s store) driver.Backend { return refundTwice{s, new(sync.Map)} }, []string{"LIMIT-59"}},
	{"repeated try refused", func(s store) driver.Backend { return strictTry{s} }, []string{"LOCK-30"}},
	{"break that frees at once", func(s store) driver.Backend { return freeingBreak{s} }, []string{"LOCK-96"}},
	{"lease half as long as it says", func(s store) driver.Backend { return shortLease{s} }, []string{"LOCK-10", "LOCK-72"}},
	{"unknown outcome told as a refusal", func(s store) driver.Backend { return deafContext{s} }, []string{"CORE-03"}},
	{"goroutine left by close", leave, []string{"LOCK-94"}},
	{"retry time too short", func(s store) driver.Backend { return hastyRetry{s} }, []string{"LIMIT-20"}},
	{"peek that debits", func(s store) driver.Backend { return greedyPeek{s} }, []string{"LIMIT-35"}},
	{"reset of every key", func(s store) driver.Backend { return wideReset{s} }, []string{"LIMIT-32"}},
	{"delayed unlock at once", func(s store) driver.Backend { return hastyUnlock{s} }, []string{"LOCK-74"}},
	{"queue claimed and not there", func(s store) driver.Backend { return struct{ store }{s} }, []string{"LOCK-50", "LOCK-51"}},
	{"claim gained in passing", func(s store) driver.Backend { return boaster{s} }, []string{"CORE-01"}},
	{"lock and limit in one cell", func(s store) driver.Backend { return sharedCell{s} }, []string{"CORE-05"}},
}

// leaked ends the goroutines that a mutant has left.
var leaked = make(chan struct{})

func TestMutantsAreKilled(t *testing.T) {
	t.Cleanup(func() {
		close(leaked)
		leaked = make(chan struct{})
	})
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			shared := memory.NewStore()
			s := &conformance.Suite{
				Harness: conformance.Harness{
					Open:   func(conformance.TB) driver.Backend { return m.make(shared.Open().(store)) },
					Claims: memory.Claims,
				},
				Only: func(c conformance.Case) bool { return slices.Contains(m.killer, c.ID) },
			}
			r, err := s.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Results) != len(m.killer) {
				t.Fatalf("%d of the cases %v ran", len(r.Results), m.killer)
			}
			for _, res := range r.Results {
				if res.Outcome != conformance.Fail {
					t.Errorf("%s: %s, want a failure", res.FullName(), res.Outcome)
				}
			}
		})
	}
}

type blindRelease struct{ store }

func (b blindRelease) Unlock(ctx context.Context, key, id string) error {
	h, err := b.Inspect(ctx, key)
	if err != nil {
		return err
	}
	return b.store.Unlock(ctx, key, h.ID)
}

type revivingRenew struct{ store }

func (b revivingRenew) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return b.TryLock(ctx, key, r)
}

type repeatedToken struct{ store }

func (b repeatedToken) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	g, err := b.store.TryLock(ctx, key, r)
	g.Token = (g.Token + 1) / 2
	return g, err
}

type oneTooMany struct{ store }

func (b oneTooMany) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	if l.Algorithm == driver.TokenBucket {
		l.Burst++
	} else {
		l.Rate++
	}
	return b.store.Take(ctx, key, l, asks)
}

type immortal struct{ store }

func (b immortal) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	asked := r.TTL
	if r.TTL > 0 {
		r.TTL += time.Hour
	}
	g, err := b.store.TryLock(ctx, key, r)
	g.TTL = asked
	return g, err
}

type cutKeys struct{ store }

func (b cutKeys) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	for i := range key {
		if i > 0 && key[i] == '/' {
			key = key[:i]
			break
		}
	}
	return b.store.TryLock(ctx, key, r)
}

type costlyDenial struct{ store }

func (b costlyDenial) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	t, err := b.store.Take(ctx, key, l, asks)
	if err == nil && t.Asks[0].N == 0 && asks[0].N > 0 {
		_, err = b.store.Take(ctx, key, l, []driver.Ask{{Min: 1, N: asks[0].N}})
	}
	return t, err
}

// refundTwice gives what was refunded before once more, by lending it a fresh id.
type refundTwice struct {
	store
	seen *sync.Map
}

func (b refundTwice) Refund(ctx context.Context, key string, l driver.Limit, id string, n int) error {
	if _, again := b.seen.LoadOrStore(id, true); again {
		return b.Reset(ctx, key, l)
	}
	return b.store.Refund(ctx, key, l, id, n)
}

type strictTry struct{ store }

func (b strictTry) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if _, err := b.Inspect(ctx, key); err == nil {
		return driver.Grant{}, driver.ErrLocked
	}
	return b.store.TryLock(ctx, key, r)
}

type freeingBreak struct{ store }

func (b freeingBreak) Break(ctx context.Context, key, id string) error { return b.Unlock(ctx, key, id) }

type shortLease struct{ store }

func (b shortLease) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	asked := r.TTL
	if asked > 50*time.Millisecond {
		r.TTL /= 2
	}
	g, err := b.store.TryLock(ctx, key, r)
	g.TTL = asked
	return g, err
}

type deafContext struct{ store }

func (b deafContext) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	g, err := b.store.TryLock(ctx, key, r)
	if errors.Is(err, context.Canceled) {
		err = driver.ErrLocked
	}
	return g, err
}

// leave leaves a goroutine for each client.
func leave(s store) driver.Backend {
	end := leaked
	go func() { <-end }()
	return s
}

type hastyRetry struct{ store }

func (b hastyRetry) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	t, err := b.store.Take(ctx, key, l, asks)
	for i := range t.Asks {
		t.Asks[i].RetryAfter /= 2
	}
	return t, err
}

type greedyPeek struct{ store }

func (b greedyPeek) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	if asks[0].N == 0 {
		asks = []driver.Ask{{Min: 1, N: 1}}
	}
	return b.store.Take(ctx, key, l, asks)
}

// wideReset forgets the neighbour, too.
type wideReset struct{ store }

func (b wideReset) Reset(ctx context.Context, key string, l driver.Limit) error {
	if err := b.store.Reset(ctx, key+" other", l); err != nil {
		return err
	}
	return b.store.Reset(ctx, key, l)
}

type hastyUnlock struct{ store }

func (b hastyUnlock) UnlockAfter(ctx context.Context, key, id string, _ time.Duration) error {
	return b.Unlock(ctx, key, id)
}

type boaster struct{ store }

func (b boaster) Info() driver.Info {
	info := b.store.Info()
	info.Claims = append(info.Claims, driver.DurableRestart)
	return info
}

type sharedCell struct{ store }

func (b sharedCell) Unlock(ctx context.Context, key, id string) error {
	if err := b.Reset(ctx, key, driver.Limit{Rate: 2, Per: time.Hour, Algorithm: driver.SlidingWindow}); err != nil {
		return err
	}
	return b.store.Unlock(ctx, key, id)
}
