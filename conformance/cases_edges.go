package conformance

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

// edgeCases are about what lies just outside the usual.
func edgeCases() []Case {
	return []Case{
		{
			ID: "CORE-06", Name: "ended-context-asks-nothing", Clause: "C2", run: asksNothing,
			Why:    "a service that shuts down makes all its calls under a dead context: they must not reach a store that is already in trouble",
			Remedy: "the client refuses them; a driver that is asked all the same checks the context first",
		}, {
			ID: "LOCK-78", Name: "long-leases-neither-end-nor-last-for-ever", Clause: "L9", run: longLeases,
			Why:    "more than 30 days is taken for a point in time, long ago, and the lease is gone at once (memcached); a number of ms above 32 bits wraps around",
			Remedy: "send long leases in the form that the store takes for long ones, or set Info.MaxTTL",
		}, {
			ID: "LOCK-49", Name: "unreachable-store-fails-at-once-and-is-found-again", Clause: "L6", run: cutOff, Hooks: []Hook{HookLink},
			Why:    "a client library that waits for a connection as long as the context allows turns an outage into a pile of stuck callers",
			Remedy: "fail when there is no connection, and let the next call try a new one; no breaker that stays open",
		}, {
			ID: "LIMIT-16", Name: "wiped-limit-begins-anew", Clause: "R1", run: wipedLimit, Hooks: []Hook{HookWipe},
			Why:    "after a flush, or a fresh replica, a client whose scripts or cached versions are gone fails call after call (NOSCRIPT)",
			Remedy: "load scripts again and drop what is cached in the very call that meets their absence",
		}, {
			ID: "LIMIT-34", Name: "bucket-is-not-forgotten-early", Clause: "R1", Slow: true, run: bucketExpiry,
			Why:    "a bucket whose state expires a moment before it is full begins full, and grants a burst too many at each pause (throttled: 1.95 times the limit)",
			Remedy: "keep the state until the bucket is full, rounded up to the store's step",
		}, {
			ID: "LIMIT-43", Name: "one-limit-twice-in-one-step-adds-up", Clause: "R5", run: twiceAtOnce, Needs: driver.Claims{driver.AtomicMulti},
			Why:    "two demands on one limit that are checked against the same state overdraw it",
			Remedy: "evaluate the demands in order, each on what the one before has left",
		},
	}
}

func asksNothing(e *env) {
	b, in := e.injected()
	c, key := e.clientOn(b), e.key("k")
	ended, cancel := context.WithCancel(e.ctx)
	cancel()
	limit := coord.PerMinute(10)
	calls := map[string]func() error{}
	if e.r.locks {
		calls["Lock"] = func() error { _, err := c.Lock(ended, key); return err }
		calls["TryLock"] = func() error { _, err := c.TryLock(ended, key); return err }
		calls["Do"] = func() error { return coord.Do(ended, c, key, func(context.Context) error { return nil }) }
	}
	if e.r.limits {
		calls["Allow"] = func() error { _, err := c.Allow(ended, key, limit); return err }
		calls["AllowAtMost"] = func() error { _, err := c.AllowAtMost(ended, key, limit, 3); return err }
		calls["Peek"] = func() error { _, err := c.Peek(ended, key, limit); return err }
		calls["Wait"] = func() error { return c.Wait(ended, key, limit) }
	}
	for name, call := range calls {
		before := in.count("")
		e.wantError(call(), name+" under a context that has ended", context.Canceled)
		if n := in.count("") - before; n > 0 {
			e.Errorf("%s under a context that has ended: saw %d calls on the store, want none", name, n)
		}
	}
}

func longLeases(e *env) {
	const day = 24 * time.Hour
	const shortest = 24*day + 20*time.Hour + 31*time.Minute + 24*time.Second // 2^31 ms, and a little
	if most := e.info.MaxTTL; most > 0 && most < shortest {
		e.Unsupported("the longest lease of the store is " + most.String())
	}
	l, rival := e.open(), e.open()
	for _, ttl := range []time.Duration{shortest, 30 * day, 30*day + time.Second, 31 * day, 50 * day, 366 * day} {
		if most := e.info.MaxTTL; most > 0 && ttl > most {
			continue
		}
		key, r := e.key(ttl.String()), e.req(e.round(ttl))
		g := e.take(l, key, r)
		if e.info.Claims.Has(driver.PerHoldTTL) && g.TTL < r.TTL {
			e.Errorf("granted TTL: saw %v, want at least the %v asked for", g.TTL, r.TTL)
		}
		e.refused(rival, key, "during a lease of "+ttl.String())
		if e.info.Claims.Has(driver.Inspect) {
			h, err := rival.Inspect(e.within(soon), key)
			e.noError(err, "Inspect during a lease of "+ttl.String())
			if h.TTL <= 0 || h.TTL > g.TTL+2*e.info.TTLStep+time.Second {
				e.Errorf("what is left of a lease of %v: saw %v, want it to end", g.TTL, h.TTL)
			}
		}
		e.keeps(l, key, r, g, "Renew to a lease of "+ttl.String())
		e.refused(rival, key, "after Renew to a lease of "+ttl.String())
		e.end(l, key, r.ID, "Unlock of a lease of "+ttl.String())
		e.free(rival, key, 0, "after the Unlock of a lease of "+ttl.String())
	}
}

// cutOff refuses a client's connections, as a store that is not there does.
func cutOff(e *env) {
	b, link := byNetwork(e)
	c := e.clientOn(b)
	e.warm(c)
	link.Cut()
	for name, lock := range bothWays(c) {
		start := time.Now()
		_, err := lock(e.within(2*soon), e.key(name))
		e.wantError(err, name+" while the store cannot be reached", coord.ErrUnavailable)
		if errors.Is(err, context.DeadlineExceeded) {
			e.Errorf("%s while the store cannot be reached: saw it fail when its context ended, %v later, want it to fail at once", name, time.Since(start))
		}
	}
	link.Heal()
	tries := 0
	e.until(soon, "a client to find its store again", func() bool {
		tries++ // a key each: a part of the store may have granted to the last one, whose clean-up goes on (L6)
		l, err := c.TryLock(e.within(soon), e.key("healed-"+strconv.Itoa(tries)), coord.TTL(e.long))
		if err != nil {
			e.wantError(err, "TryLock while the store comes back", coord.ErrUnavailable)
			return false
		}
		e.gaveBack(l.Unlock(e.ctx), "Unlock after the store has come back")
		return true
	})
}

func wipedLimit(e *env) {
	l := e.open()
	for name, limit := range still(10) {
		e.spendAll(l, e.key(name), limit, name)
	}
	wipe(e)
	e.until(soon, "the client to work on a store that lost everything", func() bool {
		_, err := l.Take(e.within(soon), e.key("first"), normal(driver.Limit{Rate: 1, Per: year}), []driver.Ask{{}})
		return err == nil // a wipe may be a restart, which breaks the connection
	})
	for name, limit := range still(10) {
		key, total := e.key(name), 0
		for range 12 {
			total += e.ask(l, key, limit, 1, 1).N
		}
		if total > limit.Max() {
			e.Errorf("%s of %d after the store lost everything: saw %d granted, want at most the limit", name, limit.Max(), total)
		}
	}
}

// bucketExpiry empties a bucket at odds with its refill: before it is full, just when, and after. A store that takes
// longer for a request than the refill of a permit is never seen empty, and is judged by what it granted.
func bucketExpiry(e *env) {
	limit := normal(driver.Limit{Rate: 20, Per: time.Second, Burst: 20}) // full after a second
	l, key := e.open(), e.key("k")
	var spends []spend
	for _, pause := range []time.Duration{0, 500, 900, 980, 1020, 990, 1010} {
		e.pass(pause * time.Millisecond)
		for range 20 {
			a := e.ask(l, key, limit, 1, limit.Burst)
			if a.N == 0 {
				break
			}
			spends = append(spends, spend{a.sent, a.came, a.N})
		}
	}
	if over := overBucket(spends, limit); over > 0 {
		e.Errorf("token bucket %v, emptied at intervals about its refill: saw it overdrawn by %d permits, want none", limit, over)
	}
}

// twiceAtOnce takes twice of one limit: together what there is not, and then what there is.
func twiceAtOnce(e *env) {
	e.takesAtOnce(3, func(name string) (a, b string) { return e.key(name), e.key(name) })
}
