package conformance

import (
	"fmt"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

func tokenCases() []Case {
	return []Case{
		{
			ID: "LOCK-05", Name: "tokens-rise-over-holders", Clause: "L2", run: tokensRise,
			Why:    "a fencing token that repeats or falls lets a stale writer through",
			Remedy: "count tokens where the lock is granted, in the same atomic step",
		}, {
			ID: "LOCK-06", Name: "tokens-rise-over-expiry", Clause: "L2", run: lapses(1, 20, 50*time.Millisecond),
			Why:    "a counter that is kept beside the lease, and dies with it, starts again",
			Remedy: "keep the token's counter longer than the lease, or seed it from a clock",
		}, {
			ID: "LOCK-07", Name: "token-floor-is-kept", Clause: "L2", run: tokenFloor,
			Why:    "locks that move to another store start below the tokens that a resource remembers",
			Remedy: "return tokens below 2^53, so that a floor can be put under them",
		}, {
			ID: "LOCK-08", Name: "tokens-rise-over-restart", Clause: "L2", run: tokensRiseOver("a restart of the store", killAndRestart),
			Proves: driver.TokenRestart, Hooks: []Hook{HookRestart},
			Why:    "a store that counts in memory forgets its tokens when it restarts",
			Remedy: "store the counter durably, or do not claim token-restart",
		}, {
			ID: "LOCK-09", Name: "tokens-rise-though-all-is-lost", Clause: "L2", run: tokensRiseOver("the loss of all data", wipe),
			Proves: driver.TokenClockSeeded, Hooks: []Hook{HookWipe},
			Why:    "a cache that is flushed forgets its counters, the resources behind it do not forget the tokens",
			Remedy: "seed the counter from a clock when it is missing, or do not claim token-clock-seeded",
		},
	}
}

func tokensRise(e *env) {
	e.tokensRise([]driver.Locker{e.open(), e.open()}, e.key("k"), 25, exclusive, exclusive)
}

func tokenFloor(e *env) {
	key := e.key("k")
	plain := e.lock(e.client(), key)
	floor := plain.Token() + 1_000_000
	e.gaveBack(plain.Unlock(e.ctx), "Unlock")
	raised := e.lock(e.client(coord.WithTokenFloor(floor)), key)
	rises(e, "a client with a floor", raised.Token(), floor)
	e.gaveBack(raised.Unlock(e.ctx), "Unlock")
}

// tokensRiseOver takes locks before and after an event.
func tokensRiseOver(what string, event func(*env)) func(*env) {
	return func(e *env) {
		tokens := make(map[string]int64)
		l := e.open()
		for i := range 3 {
			key, r := e.key(fmt.Sprint("k", i)), e.req(e.long)
			tokens[key] = e.take(l, key, r).Token
			e.end(l, key, r.ID, "Unlock")
		}
		event(e)
		l = e.open()
		for key, before := range tokens {
			r := e.req(e.long)
			rises(e, "the next holder after "+what, e.take(l, key, r).Token, before)
			e.end(l, key, r.ID, "Unlock after "+what)
		}
	}
}

func wipe(e *env) { e.r.suite.Harness.Faults.Wipe(e) }
