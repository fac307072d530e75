package conformance_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
)

// Bugs that show when more call at once than other cases have callers.
var callerMutants = []mutant{
	{
		name: "release dropped among many", bug: "an Unlock that finds no connection free is forgotten, and says that it was made", sound: "distant",
		new: distant(callersBug{unlock: true}), killers: []string{"LOCK-234"},
	}, {
		name: "batch cut short", bug: "of many requests that come in one call the first 64 are counted, and the others granted uncounted", sound: "distant",
		new: distant(callersBug{batch: true}), killers: []string{"LIMIT-234"},
	}, {
		name: "connection lost to the pool", bug: "a call that Close ends does not give its connection back, and who waits for one waits for ever", sound: "distant",
		new: distant(callersBug{pool: true}), killers: []string{"LIMIT-235", "LIMIT-236"},
	}, {
		name: "debit lost among many", bug: "of the calls that meet at a key, between its look and its write, one alone is counted", sound: "distant",
		new: distant(callersBug{meets: true}), killers: []string{"LIMIT-236"},
	},
}

type callersBug struct{ unlock, batch, pool, meets bool }

// distant is a store at some distance: a call takes a millisecond, on one of few connections.
func distant(bug callersBug) func() harness {
	return func() harness {
		shared := memory.NewStore()
		claims := without(memory.Claims, driver.ScopeProcess, driver.ScopeHosts)
		return harness{
			Open: func(conformance.TB) driver.Backend {
				b := &distantStore{store: shared.Open(), bug: bug, pool: make(chan struct{}, connections), closed: make(chan struct{})}
				return &claimer{b, claims}
			},
			Claims: claims,
		}
	}
}

type distantStore struct {
	store
	bug    callersBug
	busy   atomic.Int64
	pool   chan struct{} // the connections in use
	closed chan struct{}
	once   sync.Once
	// writing counts the calls of TakeAll under way.
	writing atomic.Int64
}

const (
	connections = 4
	cutAt       = 64
)

func (b *distantStore) Unlock(ctx context.Context, key, id string) error {
	defer b.busy.Add(-1)
	if b.busy.Add(1) > connections && b.bug.unlock {
		return nil
	}
	time.Sleep(time.Millisecond)
	return b.store.Unlock(ctx, key, id)
}

func (b *distantStore) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.store.Close()
}

// connect waits for a connection, and for a millisecond on it.
func (b *distantStore) connect(ctx context.Context) error {
	closed, stuck := b.closed, (<-chan time.Time)(nil)
	if b.bug.pool {
		closed, stuck = nil, time.After(forever)
	}
	select {
	case b.pool <- struct{}{}:
	case <-ctx.Done():
		return errors.Join(driver.ErrNotSent, ctx.Err())
	case <-closed:
		return driver.ErrClosed
	case <-stuck:
		return driver.ErrClosed
	}
	select {
	case <-time.After(time.Millisecond):
	case <-b.closed:
		if b.bug.pool {
			return driver.ErrClosed
		}
	}
	<-b.pool
	return nil
}

func (b *distantStore) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	time.Sleep(time.Millisecond)
	if len(asks) <= cutAt || !b.bug.batch {
		return b.store.Take(ctx, key, l, asks)
	}
	t, err := b.store.Take(ctx, key, l, asks[:cutAt])
	for _, a := range asks[cutAt:] {
		t.Asks = append(t.Asks, driver.Granted{N: a.N})
	}
	return t, err
}

func (b *distantStore) TakeAll(ctx context.Context, demands []driver.Demand) ([]driver.Taken, error) {
	met := b.writing.Add(1) > 1
	defer b.writing.Add(-1)
	if err := b.connect(ctx); err != nil {
		return nil, err
	}
	if met && b.bug.meets {
		return b.uncounted(ctx, demands)
	}
	return b.store.TakeAll(ctx, demands)
}

// uncounted grants what can be granted, and counts none of it.
func (b *distantStore) uncounted(ctx context.Context, demands []driver.Demand) ([]driver.Taken, error) {
	looks := slices.Clone(demands)
	for i := range looks {
		looks[i].N = 0
	}
	out, err := b.store.TakeAll(ctx, looks)
	for i, t := range out {
		if t.Remaining < demands[i].N {
			return b.store.TakeAll(ctx, demands) // which denies it
		}
		t.Asks[0].N = demands[i].N
	}
	return out, err
}
