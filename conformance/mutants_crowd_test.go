package conformance_test

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
)

// Bugs that show when more call at once than other cases have callers.
var crowdMutants = []mutant{
	{
		name: "release dropped in a crowd", bug: "an Unlock that finds no connection free is forgotten, and says that it was made", sound: "crowded",
		new: crowded(crowdBug{unlock: true}), killers: []string{"LOCK-234"},
	}, {
		name: "batch cut short", bug: "of many asks that come in one call the first 64 are counted, and the others granted uncounted", sound: "crowded",
		new: crowded(crowdBug{batch: true}), killers: []string{"LIMIT-234"},
	},
}

type crowdBug struct{ unlock, batch bool }

// crowded is a store at some distance: a call takes a millisecond.
func crowded(bug crowdBug) func() harness {
	return func() harness {
		shared := memory.NewStore()
		claims := without(memory.Claims, driver.ScopeProcess, driver.ScopeHosts)
		return harness{
			Open: func(conformance.TB) driver.Backend {
				return claimer{&crowdedStore{store: shared.Open().(store), bug: bug}, claims}
			},
			Claims: claims,
		}
	}
}

type crowdedStore struct {
	store
	bug  crowdBug
	busy atomic.Int64
}

const (
	connections = 4
	cutAt       = 64
)

func (b *crowdedStore) Unlock(ctx context.Context, key, id string) error {
	defer b.busy.Add(-1)
	if b.busy.Add(1) > connections && b.bug.unlock {
		return nil
	}
	time.Sleep(time.Millisecond)
	return b.store.Unlock(ctx, key, id)
}

func (b *crowdedStore) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
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
