package conformance_test

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
)

// Bugs of a driver whose store refuses what needs more space.
var refuseMutants = []mutant{
	{
		name: "refused grant that spoils the client", bug: "after a refusal renewals want a lease of their own, which is refused, too (etcd under NOSPACE)", sound: "refusing",
		new: refusing(refuseBug{taints: true}), killers: []string{"LOCK-231"},
	}, {
		name: "refusal told as locked", bug: "whatever is not a grant is ErrLocked", sound: "refusing",
		new: refusing(refuseBug{asLocked: true}), killers: []string{"LOCK-231"},
	}, {
		name: "renewal that needs space", bug: "a renewal writes its entry anew, and is refused as a grant is", sound: "refusing",
		new: refusing(refuseBug{renews: true}), killers: []string{"LOCK-231"},
	}, {
		name: "release that needs space", bug: "Unlock writes a mark before it deletes, which is refused", sound: "refusing",
		new: refusing(refuseBug{unlocks: true}), killers: []string{"LOCK-231"},
	}, {
		name: "share whose renewal needs space", bug: "the renewal of a share writes it anew, and is refused as a grant is (Redis at maxmemory)", sound: "refusing",
		new: refusing(refuseBug{shares: true}), killers: []string{"LOCK-346"},
	}, {
		name: "limit that admits when it cannot count", bug: "an error of the store at a debit is dropped", sound: "refusing",
		new: refusing(refuseBug{admits: true}), killers: []string{"LIMIT-231"},
	}, {
		name: "limit that denies when it cannot count", bug: "an error of the store at a debit is told as a denial, without a time to ask again", sound: "refusing",
		new: refusing(refuseBug{denies: true}), killers: []string{"LIMIT-231"},
	}, {
		name: "holder named by its client", bug: "a client is granted what it still holds under another id, as by PostgreSQL's advisory locks", sound: "refusing",
		new: refusing(refuseBug{ofClient: true}), killers: []string{"LOCK-232"},
	}, {
		name: "script that one call loads", bug: "Take loads the script that Reset and TakeAll run by its name (NOSCRIPT)", sound: "refusing",
		new: refusing(refuseBug{scripts: true}), killers: []string{"LIMIT-232"},
	},
}

type refuseBug struct{ taints, asLocked, renews, unlocks, shares, admits, denies, ofClient, scripts bool }

// errFull is what the store says while it refuses.
var errFull = errors.New("out of memory")

// full is a store that refuses new keys at times.
type full struct {
	mu  sync.Mutex
	now bool
}

func (f *full) is() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *full) set(now bool) func(conformance.TB) {
	return func(conformance.TB) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.now = now
	}
}

func refusing(bug refuseBug) func() harness {
	return func() harness {
		shared, f := memory.NewStore(), &full{}
		return harness{
			Open: func(conformance.TB) driver.Backend {
				return byTake{&refuser{store: shared.Open(), full: f, bug: bug}}
			},
			Claims: memory.Claims,
			Faults: &conformance.Faults{Refuse: f.set(true), Accept: f.set(false)},
		}
	}
}

type refuser struct {
	store
	full *full
	bug  refuseBug

	mu      sync.Mutex
	tainted bool
	loaded  bool            // the script, by a Take
	own     map[string]bool // the ids of this client
}

// asked notes an id of this client.
func (b *refuser) asked(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.own == nil {
		b.own = make(map[string]bool)
	}
	b.own[id] = true
}

func (b *refuser) owns(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.own[id]
}

func (b *refuser) spoilt() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tainted && b.bug.taints
}

func (b *refuser) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	b.asked(r.ID)
	h, err := b.Inspect(ctx, key)
	switch {
	case b.bug.ofClient && err == nil && b.owns(h.ID):
		return driver.Grant{Token: int64(h.Token), TTL: r.TTL}, nil
	case !b.full.is() || err == nil && h.ID != r.ID:
		return b.store.TryLock(ctx, key, r)
	case b.bug.asLocked:
		return driver.Grant{}, driver.ErrLocked
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tainted = true
	return driver.Grant{}, errors.Join(driver.ErrNotSent, errFull)
}

func (b *refuser) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if b.full.is() && (b.bug.renews || b.spoilt()) {
		return driver.Grant{}, errFull
	}
	return b.store.Renew(ctx, key, r)
}

func (b *refuser) Unlock(ctx context.Context, key, id string) error {
	if b.full.is() && b.bug.unlocks {
		return errFull
	}
	return b.store.Unlock(ctx, key, id)
}

// Shared implements driver.Backend.
func (b *refuser) Shared() driver.SharedLocker {
	return refusedShares{b.store.Shared(), b}
}

type refusedShares struct {
	driver.SharedLocker
	b *refuser
}

func (s refusedShares) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if s.b.full.is() && s.b.bug.shares {
		return driver.Grant{}, errFull
	}
	return s.SharedLocker.Renew(ctx, key, r)
}

func (b *refuser) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	b.load()
	if !b.full.is() || !slices.ContainsFunc(asks, func(a driver.Ask) bool { return a.N > 0 }) {
		return b.store.Take(ctx, key, l, asks)
	}
	if !b.bug.admits && !b.bug.denies {
		return driver.Taken{}, errors.Join(driver.ErrNotSent, errFull)
	}
	t := driver.Taken{Asks: make([]driver.Granted, len(asks))}
	for i, a := range asks {
		if b.bug.admits {
			t.Asks[i].N = a.N
		}
	}
	return t, nil
}

var errNoScript = errors.New("NOSCRIPT no matching script")

func (b *refuser) load() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.loaded = true
}

// script is what Reset and TakeAll run.
func (b *refuser) script() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bug.scripts && !b.loaded {
		return errNoScript
	}
	return nil
}

func (b *refuser) Reset(ctx context.Context, key string, l driver.Limit) error {
	if err := b.script(); err != nil {
		return err
	}
	return b.store.Reset(ctx, key, l)
}

func (b *refuser) TakeAll(ctx context.Context, demands []driver.Demand) ([]driver.Taken, error) {
	if err := b.script(); err != nil {
		return nil, err
	}
	return b.store.TakeAll(ctx, demands)
}
