package conformance_test

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
)

// Bugs of fencing tokens.
var tokenMutants = []mutant{
	{
		name: "token that is repeated", bug: "two holds in a row get the same token", sound: "renumbered",
		new: renumbered(func(_ string, token int64) int64 { return (token + 1) / 2 }), killers: []string{"LOCK-05", "LOCK-06"},
	}, {
		name: "token of the entry", bug: "the counter is in the entry that Unlock deletes, and begins again", sound: "renumbered",
		new: perEntry(true), killers: []string{"LOCK-05"},
	}, {
		name: "token that ends with the lease", bug: "the counter expires together with the lease", sound: "renumbered",
		new: perEntry(false), killers: []string{"LOCK-06"},
	}, {
		name: "token of the client's clock", bug: "clients whose clocks differ number the holds of one key", sound: "renumbered",
		new: skewedTokens, killers: []string{"LOCK-05"},
	}, {
		name: "token of nanoseconds", bug: "above 2^53: it is rounded wherever numbers are floats", sound: "renumbered",
		new: renumbered(func(string, int64) int64 { return time.Now().UnixNano() }), killers: []string{"LOCK-05"},
	}, {
		name: "renewal that changes the token", bug: "each write of the entry counts",
		new: on(func(s store) driver.Backend { return countingRenew{s} }), killers: []string{"LOCK-05"},
	}, {
		name: "tokens lost in a restart", bug: "token-restart is claimed, and the counter is in memory", sound: "durable",
		new: restarting(false, driver.TokenRestart), killers: []string{"LOCK-08"},
	}, {
		name: "tokens lost with the data", bug: "token-clock-seeded is claimed, and the counter begins at 1", sound: "seeded",
		new: seeded(false), killers: []string{"LOCK-09"},
	},
}

// renumbered gives each hold another token than the store does, the same over its life.
func renumbered(number func(key string, token int64) int64) func() harness {
	return func() harness {
		known := new(sync.Map)
		return on(func(s store) driver.Backend { return numberer{s, number, known, func(string) {}} })()
	}
}

type numberer struct {
	store
	number func(key string, token int64) int64
	known  *sync.Map // the store's token → the one shown
	ended  func(key string)
}

func (b numberer) show(key string, token int64) int64 {
	if token == 0 {
		return 0
	}
	shown, ok := b.known.Load(token)
	if !ok {
		shown, _ = b.known.LoadOrStore(token, b.number(key, token))
	}
	return shown.(int64)
}

func (b numberer) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	g, err := b.store.TryLock(ctx, key, r)
	g.Token = b.show(key, g.Token)
	return g, err
}

func (b numberer) Lock(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
	g, err := b.store.Lock(ctx, key, r, waits)
	g.Token = b.show(key, g.Token)
	return g, err
}

func (b numberer) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	g, err := b.store.Renew(ctx, key, r)
	g.Token = b.show(key, g.Token)
	return g, err
}

func (b numberer) Inspect(ctx context.Context, key string) (driver.Holder, error) {
	h, err := b.store.Inspect(ctx, key)
	h.Token = driver.Token(b.show(key, int64(h.Token)))
	return h, err
}

func (b numberer) Unlock(ctx context.Context, key, id string) error {
	err := b.store.Unlock(ctx, key, id)
	if err == nil {
		b.ended(key)
	}
	return err
}

// perEntry counts the holds of each key, and begins again after an Unlock, or else after a
// lease that has lapsed.
func perEntry(unlock bool) func() harness {
	return func() harness {
		var mu sync.Mutex
		last, unlocked := make(map[string]int64), make(map[string]bool)
		known := new(sync.Map)
		number := func(key string, _ int64) int64 {
			mu.Lock()
			defer mu.Unlock()
			if unlocked[key] == unlock {
				last[key] = 0
			}
			unlocked[key] = false
			last[key]++
			return last[key]
		}
		ended := func(key string) {
			mu.Lock()
			defer mu.Unlock()
			unlocked[key] = true
		}
		return on(func(s store) driver.Backend { return numberer{s, number, known, ended} })()
	}
}

// skewedTokens gives every other client a clock that is an hour ahead.
func skewedTokens() harness {
	var clients atomic.Int64
	known := new(sync.Map)
	return on(func(s store) driver.Backend {
		ahead := time.Duration(clients.Add(1)%2) * time.Hour
		number := func(string, int64) int64 { return time.Now().Add(ahead).UnixMicro() }
		return numberer{s, number, known, func(string) {}}
	})()
}

type countingRenew struct{ store }

func (b countingRenew) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	g, err := b.store.Renew(ctx, key, r)
	g.Token++
	return g, err
}

// restarting is a store that can be restarted, and keeps what it has or loses it.
func restarting(keeps bool, claims ...driver.Claim) func() harness {
	return func() harness {
		var current atomic.Pointer[memory.Store]
		current.Store(memory.NewStore())
		all := append(driver.Claims(nil), memory.Claims...)
		all = append(all, claims...)
		return harness{
			Open:   func(conformance.TB) driver.Backend { return &claimer{current.Load().Open(), all} },
			Claims: all,
			Faults: &conformance.Faults{
				Kill: func(conformance.TB) {},
				Restart: func(conformance.TB) {
					if !keeps {
						current.Store(memory.NewStore())
					}
				},
			},
		}
	}
}

// seeded is a store that can lose everything, and numbers its holds by the clock or from 1.
func seeded(clock bool) func() harness {
	return func() harness {
		var current atomic.Pointer[memory.Store]
		current.Store(memory.NewStore())
		claims := append(driver.Claims{driver.TokenClockSeeded}, memory.Claims...)
		var last atomic.Int64
		known := new(sync.Map)
		wrap := func(s store) driver.Backend { return s }
		if clock {
			wrap = func(s store) driver.Backend {
				return numberer{s, func(string, int64) int64 {
					for {
						before := last.Load()
						if next := max(before+1, time.Now().UnixMicro()); last.CompareAndSwap(before, next) {
							return next
						}
					}
				}, known, func(string) {}}
			}
		}
		return harness{
			Open:   func(conformance.TB) driver.Backend { return byTake{wrap(&claimer{current.Load().Open(), claims})} },
			Claims: claims,
			Faults: &conformance.Faults{Wipe: func(conformance.TB) {
				current.Store(memory.NewStore())
				known.Clear()
			}},
		}
	}
}
