package conformance

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

// claimCases decide claims that the scenarios of the clauses leave open.
func claimCases() []Case {
	return []Case{
		{
			ID: "LOCK-57", Name: "a-thousand-lapses-raise-the-token", Clause: "L2", run: lapses(16, 64, 10*time.Millisecond), Proves: driver.TokenProcess,
			Why:    "a counter that is collected with the lease, or kept by a client that is gone, starts again now and then, and not at the first lapse",
			Remedy: "keep the token's counter longer than the lease, at the store, and count it in the step that grants",
		}, {
			ID: "LOCK-29", Name: "tokens-rise-over-a-failover", Clause: "L2", run: tokensRiseOver("a failover of the store", failover.breaks),
			Proves: driver.TokenFailover, Hooks: []Hook{HookFailover},
			Why:    "a replica that takes over with an older counter gives the tokens of the last holders again",
			Remedy: "derive the token from something that a majority has acknowledged, or do not claim token-failover",
		}, {
			ID: "LIMIT-15", Name: "state-survives-a-failover", Clause: "R4", run: stateSurvives("a failover of the store", failover.breaks),
			Proves: driver.DurableFailover, Hooks: []Hook{HookFailover},
			Why:    "writes that were acknowledged and not yet replicated are lost with their server: held locks are granted twice (Redis' own documentation of replication)",
			Remedy: "acknowledge a grant only after a majority has it, or do not claim durable-failover",
		}, {
			ID: "LOCK-84", Name: "another-process-has-another-store", Clause: "C1", run: processesApart,
			Proves: driver.ScopeProcess, Hooks: []Hook{HookWorker},
			Why:    "a lock of one process that is taken for one of a machine guards nothing",
			Remedy: "claim the scope over which the store is shared",
		}, {
			ID: "LOCK-85", Name: "processes-of-a-machine-share-the-store", Clause: "C1", run: processesShare,
			Proves: driver.ScopeMachine, Hooks: []Hook{HookWorker},
			Why:    "two processes that open the same URL and get two stores both do the work",
			Remedy: "open one store for one URL, whoever opens it",
		}, {
			ID: "LOCK-86", Name: "clients-need-only-the-network", Clause: "C1", run: hostsShare,
			Proves: driver.ScopeHosts, Hooks: []Hook{HookLink, HookWorker},
			Why:    "a store that leans on something of its machine, a file, a pid, a clock, is not shared by hosts",
			Remedy: "claim scope-machine, or put whatever clients share into the store",
		},
	}
}

// lapses lets lease after lease lapse, so many of each of so many keys at a time, each taken by another client; or as
// many as fit where leases cannot be that short.
func lapses(keys, most int, lease time.Duration) func(*env) {
	return func(e *env) {
		const longest = 6 * time.Second
		ttl, each := e.round(lease), most
		lockers := []driver.Locker{e.open(), e.open(), e.open()}
		if long := max(ttl, e.info.TTLStep); long > lease {
			each = max(3, min(most, int(longest/(long+e.info.TTLStep))))
		}
		var wg sync.WaitGroup
		for k := range keys {
			key := e.key(fmt.Sprint(k))
			wg.Go(func() {
				var last int64
				for i := range each {
					g, ok := e.afterLapse(lockers[i%len(lockers)], key, ttl)
					if !ok || g.Token <= last {
						rises(e, fmt.Sprintf("holder %d of a key, all before having lapsed", i), g.Token, last)
						return
					}
					last = g.Token
				}
			})
		}
		wg.Wait()
	}
}

// afterLapse takes key once the lease of a holder who is gone has lapsed.
func (e *env) afterLapse(l driver.Locker, key string, ttl time.Duration) (driver.Grant, bool) {
	start := time.Now()
	for {
		g, err := l.TryLock(e.within(soon), key, e.req(ttl))
		var locked *driver.LockedError
		switch {
		case err == nil:
			return g, true
		case !errors.Is(err, driver.ErrLocked):
			e.Errorf("TryLock of a locked key: saw %v, want ErrLocked or a grant", err)
			return g, false
		case time.Since(start) > e.bound(e.lapse(ttl)):
			e.Errorf("a lease of %v: saw it last for %v, want it to lapse", ttl, time.Since(start).Round(time.Millisecond))
			return g, false
		case e.ctx.Err() != nil:
			return g, false
		}
		pause := time.Millisecond
		if errors.As(err, &locked) {
			pause = min(max(pause, locked.Remaining), ttl)
		}
		rest(e.ctx, pause)
	}
}

func processesApart(e *env) {
	w, key, r := e.startWorker(), e.key("k"), e.req(e.long)
	e.take(e.open(), key, r)
	if a := w.try(order{Do: "try", Key: key, TTL: e.long}); a.Token == 0 {
		e.Errorf("TryLock in another process of a key that is held here: saw %q, want it granted: a store of one process is not shared", a.Err)
	}
}

// inTurn has this process and another one hold one key in turn.
func (e *env) inTurn(l driver.Locker, key string) {
	w := e.startWorker()
	there := w.do(order{Do: "lock", Key: key, TTL: e.long}).Token
	e.refused(l, key, "while another process holds it")
	w.do(order{Do: "unlock"})
	r := e.req(e.long)
	g, _ := e.seize(l, key, r, time.Second, "unlocked by another process")
	rises(e, "who came after another process", g.Token, int64(there>>10))
	if a := w.try(order{Do: "try", Key: key, TTL: e.long}); a.Token != 0 {
		e.Errorf("TryLock in another process of a key that is held here: saw it granted, want it refused")
	}
	e.end(l, key, r.ID, "Unlock")
}

func processesShare(e *env) { e.inTurn(e.open(), e.key("k")) }

// hostsShare excludes another process over a connection that is all that the client shares with the
// store: when it is silent, nothing is granted and nothing refused.
func hostsShare(e *env) {
	key := e.key("k")
	l, link := byNetwork(e)
	e.inTurn(l, key)
	blackHole(link)
	for _, key := range []string{key, e.key("other")} {
		_, err := l.TryLock(e.within(300*time.Millisecond), key, e.req(e.long))
		if err == nil || errors.Is(err, coord.ErrLocked) {
			e.Errorf("TryLock while the network is silent: saw %v, want an error that says so: the answer did not come over the network", err)
		}
	}
}
