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
			ID: "LOCK-06", Name: "tokens-rise-over-expiry", Clause: "L2", run: tokensRiseOverExpiry,
			Why:    "a counter that is kept beside the lease, and dies with it, starts again",
			Remedy: "keep the token's counter longer than the lease, or seed it from a clock",
		}, {
			ID: "LOCK-07", Name: "token-floor-is-kept", Clause: "L2", run: tokenFloor,
			Why:    "locks that move to another store start below the tokens that a resource remembers",
			Remedy: "return tokens below 2^53, so that a floor can be put under them",
		}, {
			ID: "LOCK-08", Name: "tokens-rise-over-restart", Clause: "L2", run: tokensRiseOverRestart,
			Proves: driver.TokenRestart, Hooks: []Hook{HookRestart},
			Why:    "a store that counts in memory forgets its tokens when it restarts",
			Remedy: "store the counter durably, or do not claim token-restart",
		}, {
			ID: "LOCK-09", Name: "tokens-rise-though-all-is-lost", Clause: "L2", run: tokensRiseOverWipe,
			Proves: driver.TokenClockSeeded, Hooks: []Hook{HookWipe},
			Why:    "a cache that is flushed forgets its counters, the resources behind it do not forget the tokens",
			Remedy: "seed the counter from a clock when it is missing, or do not claim token-clock-seeded",
		},
	}
}

func tokensRise(e *env) {
	lockers, key := []driver.Locker{e.locker(), e.locker()}, e.key("k")
	var last int64
	for i := range 50 {
		l, r := lockers[i%2], e.req(e.long)
		g := e.take(l, key, r)
		if g.Token <= last {
			e.Fatalf("token of holder %d: saw %d after %d, want a greater one", i, g.Token, last)
		}
		last = g.Token
		again, err := l.Renew(e.within(soon), key, r)
		e.noError(err, "Renew by the holder")
		if again.Token != g.Token {
			e.Errorf("token after Renew: saw %d, want the hold's %d", again.Token, g.Token)
		}
		e.end(l, key, r.ID, "Unlock")
	}
}

func tokensRiseOverExpiry(e *env) {
	l, key, ttl := e.locker(), e.key("k"), e.round(50*time.Millisecond)
	var last int64
	holders := 20
	if ttl > 100*time.Millisecond {
		holders = 4
	}
	for i := range holders {
		g, _ := e.seize(l, key, e.req(ttl), e.lapse(ttl), "whose holder has let its lease lapse")
		if g.Token <= last {
			e.Fatalf("token of holder %d, the one before having lapsed: saw %d after %d, want a greater one", i, g.Token, last)
		}
		last = g.Token
	}
}

func tokenFloor(e *env) {
	key := e.key("k")
	plain := e.lock(e.client(), key)
	floor := plain.Token() + 1_000_000
	e.gaveBack(plain.Unlock(e.ctx), "Unlock")
	raised := e.lock(e.client(coord.WithTokenFloor(floor)), key)
	if raised.Token() <= floor {
		e.Errorf("token of a client with floor %d: saw %d, want a greater one", floor, raised.Token())
	}
	e.gaveBack(raised.Unlock(e.ctx), "Unlock")
}

func tokensRiseOverRestart(e *env) {
	f := e.r.suite.Harness.Faults
	e.tokensRiseOver("a restart of the store", func() {
		f.Kill(e)
		f.Restart(e)
	})
}

func tokensRiseOverWipe(e *env) {
	e.tokensRiseOver("the loss of all data", func() { e.r.suite.Harness.Faults.Wipe(e) })
}

func (e *env) tokensRiseOver(what string, event func()) {
	tokens := make(map[string]int64)
	l := e.locker()
	for i := range 3 {
		key, r := e.key(fmt.Sprint("k", i)), e.req(e.long)
		tokens[key] = e.take(l, key, r).Token
		e.end(l, key, r.ID, "Unlock")
	}
	event()
	l = e.locker()
	for key, before := range tokens {
		r := e.req(e.long)
		if g := e.take(l, key, r); g.Token <= before {
			e.Errorf("token after %s: saw %d after %d, want a greater one", what, g.Token, before)
		}
		e.end(l, key, r.ID, "Unlock after "+what)
	}
}
