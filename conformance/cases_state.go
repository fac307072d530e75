package conformance

import (
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

func stateCases() []Case {
	return []Case{
		{
			ID: "LIMIT-30", Name: "changed-rate-keeps-the-debt", Clause: "R3", run: changedRate,
			Why:    "a limit that is tuned in production must not mint a burst at every change",
			Remedy: "store the debt, not what is left: a new rate or burst then applies to it",
		}, {
			ID: "LIMIT-241", Name: "smaller-burst-lowers-no-debt", Clause: "R3", run: mixedBursts,
			Why:    "in a rolling deploy that changes a burst the old processes made the new ones' buckets full again, grant by grant: without bound",
			Remedy: "store the whole debt, and cap it by the burst of the ask when it is looked at",
		}, {
			ID: "LIMIT-242", Name: "rates-of-one-key-keep-their-bounds", Clause: "R1", run: mixedRates,
			Why:    "two buckets of one key, one per second and one per hour, shared a debt that drained at the faster rate",
			Remedy: "make the rate of a token bucket part of the key's name in the store, as limits.Name does",
		}, {
			ID: "LIMIT-31", Name: "algorithms-and-periods-are-apart", Clause: "R3", run: changedAlgorithm,
			Why:    "one algorithm that reads the state of another computes nonsense",
			Remedy: "make algorithm and, for windows, the period part of the key's name in the store",
		}, {
			ID: "LIMIT-32", Name: "reset-forgets", Clause: "R3", run: reset,
			Why:    "an operator lifts one caller's penalty, and nobody else's",
			Remedy: "delete the one account that Reset names",
		}, {
			ID: "LIMIT-33", Name: "keys-never-share-permits", Clause: "R3", run: limitKeysApart,
			Why:    "user1 and user10 are two users",
			Remedy: "encode keys injectively: escape separators, do not join or cut",
		}, {
			ID: "LIMIT-35", Name: "peek-writes-nothing", Clause: "R4", run: peek,
			Why:    "a dashboard that looks must neither take permits nor keep state alive",
			Remedy: "answer an ask for none from a read alone",
		}, {
			ID: "LIMIT-38", Name: "state-survives-a-restart", Clause: "R4", run: stateSurvives("a restart of the store", killAndRestart),
			Proves: driver.DurableRestart, Hooks: []Hook{HookRestart},
			Why:    "a store that forgets every debt when it restarts admits a burst, and every held lock twice",
			Remedy: "write what is counted durably before answering, or do not claim durable-restart",
		}, {
			ID: "LIMIT-40", Name: "several-limits-are-taken-at-once", Clause: "R5", run: takeAll, Proves: driver.AtomicMulti,
			Why:    "a denial by the second limit must not have cost a permit of the first",
			Remedy: "check all demands and then debit all in one transaction or script, or do not claim atomic-multi",
		}, {
			ID: "LIMIT-45", Name: "own-reset-ends-a-denial", Clause: "R6", run: ownReset,
			Why:    "a local cache of denials that outlives the reset next to it is plainly wrong",
			Remedy: "let Reset delete what Take reads, before it answers",
		}, {
			ID: "LIMIT-46", Name: "another-clients-reset-shows-soon", Clause: "R6", run: othersReset,
			Why:    "a local cache of denials has to look again now and then",
			Remedy: "keep no answers in the adapter: the client remembers denials itself",
		}, {
			ID: "LIMIT-50", Name: "permits-spent-late-keep-the-bound", Clause: "R7", run: validFor,
			Why:    "permits that are taken in advance and hoarded are spent together (gubernator, bucket4j)",
			Remedy: "set ValidFor to how long a permit may be spent late without a period holding more than the rate",
		},
	}
}

func changedRate(e *env) {
	l := e.open()
	for name, a := range map[string]driver.Algorithm{"sliding window": driver.SlidingWindow, "fixed window": driver.FixedWindow} {
		key := e.key(name)
		of := func(rate int) driver.Limit {
			return normal(driver.Limit{Rate: rate, Per: year, Algorithm: a})
		}
		e.grantedN(e.ask(l, key, of(10), 8, 8), 8, "8 of 10 under "+name)
		e.grantedN(e.ask(l, key, of(5), 1, 1), 0, "one more after the rate fell to 5 under "+name)
		e.grantedN(e.ask(l, key, of(12), 1, 12), 4, "what is left after the rate rose to 12 under "+name)
	}
	of := func(burst int) driver.Limit {
		return normal(driver.Limit{Rate: 1, Per: year, Burst: burst})
	}
	key := e.key("token bucket")
	e.grantedN(e.ask(l, key, of(10), 8, 8), 8, "8 of a bucket of 10")
	if a := e.ask(l, key, of(12), 0, 0); a.Remaining != 4 {
		e.Errorf("left after the burst rose from 10 to 12, 8 being spent: saw %d, want 4", a.Remaining)
	}
	e.grantedN(e.ask(l, key, of(5), 1, 1), 0, "one more after the burst fell to 5, 8 being spent")
	if a := e.ask(l, key, of(5), 0, 0); a.Remaining > 5 {
		e.Errorf("left after the burst fell to 5: saw %d", a.Remaining)
	}
}

// mixedBursts takes all that two bursts of one rate give for some turns.
func mixedBursts(e *env) {
	const each, turns = 200 * time.Millisecond, 4
	l, key := e.open(), e.key("k")
	wide := normal(driver.Limit{Rate: 1, Per: each, Burst: 50})
	narrow := normal(driver.Limit{Rate: 1, Per: each, Burst: 2})
	start := time.Now()
	e.grantedN(e.ask(l, key, wide, 50, 50), 50, "all of a bucket of 50")
	total, small := 50, 0
	for range turns {
		e.pass(each + each/4)
		n := e.ask(l, key, narrow, 1, 1).N
		small += n
		total += n + e.ask(l, key, wide, 1, 50).N
	}
	if most := 50 + int(time.Since(start)/each) + 1; total > most {
		e.Errorf("granted by bursts of 2 and 50 of %d permits: saw %d in %v, want at most %d, the bound of the larger", 50, total, time.Since(start).Round(time.Millisecond), most)
	}
	if small == 0 && time.Since(start) < 3*time.Second {
		e.Errorf("granted by a burst of 2 while one of 50 owes all: saw nothing in %d turns, want what has come since", turns)
	}
}

func mixedRates(e *env) {
	l, key := e.open(), e.key("k")
	slow := normal(driver.Limit{Rate: 1, Per: year, Burst: 10})
	fast := normal(driver.Limit{Rate: 100, Per: time.Second, Burst: 5})
	e.grantedN(e.ask(l, key, slow, 10, 10), 10, "all of a slow bucket")
	e.grantedN(e.ask(l, key, fast, 5, 5), 5, "all of a fast bucket of the same key")
	for range 10 {
		e.pass(20 * time.Millisecond)
		e.ask(l, key, fast, 1, 5)
		e.grantedN(e.ask(l, key, slow, 1, 1), 0, "one more of a slow bucket, of whose key a fast one is used")
	}
}

func changedAlgorithm(e *env) {
	l, key := e.open(), e.key("k")
	limits := still(10)
	limits["sliding window of another period"] = normal(driver.Limit{Rate: 10, Per: year / 2, Algorithm: driver.SlidingWindow})
	limits["fixed window of another period"] = normal(driver.Limit{Rate: 10, Per: year / 2, Algorithm: driver.FixedWindow})
	for name, limit := range limits {
		e.grantedN(e.ask(l, key, limit, 1, 10), 10, "all of a "+name+" after others of the key were spent")
	}
	for name, limit := range limits {
		e.grantedN(e.ask(l, key, limit, 1, 1), 0, "one more of a "+name+" that is spent, after others were used")
	}
}

func reset(e *env) {
	l := e.open()
	for name, limit := range still(10) {
		key, other := e.key(name), e.key(name+" other")
		e.noError(l.Reset(e.within(soon), key, limit), "Reset of a fresh key")
		e.grantedN(e.ask(l, key, limit, 10, 10), 10, "all under "+name)
		e.grantedN(e.ask(l, other, limit, 10, 10), 10, "all of another key under "+name)
		e.noError(l.Reset(e.within(soon), key, limit), "Reset")
		a := e.ask(l, key, limit, 0, 0)
		if a.Remaining != 10 || a.ResetAfter != 0 {
			e.Errorf("%s after Reset: saw %d left and ResetAfter %v, want 10 and 0", name, a.Remaining, a.ResetAfter)
		}
		e.grantedN(e.ask(l, key, limit, 10, 10), 10, "all after Reset under "+name)
		e.grantedN(e.ask(l, other, limit, 1, 1), 0, "one more of another key after Reset under "+name)
	}
	for name, limit := range still(10) {
		key := e.key("accounts, reset the " + name)
		for name, limit := range still(10) {
			e.grantedN(e.ask(l, key, limit, 10, 10), 10, "all of a "+name+" beside others of the key")
		}
		e.noError(l.Reset(e.within(soon), key, limit), "Reset of one account of a key")
		for spent, of := range still(10) {
			want := 0
			if spent == name {
				want = 1
			}
			e.grantedN(e.ask(l, key, of, 1, 1), want, "one more of a "+spent+", after the Reset of a "+name+" of the key")
		}
	}
}

func limitKeysApart(e *env) {
	l, limit := e.open(), normal(driver.Limit{Rate: 1, Per: year})
	for _, key := range e.nastyKeys() {
		if a := e.ask(l, key, limit, 1, 1); a.N != 1 {
			e.Errorf("the first permit of %q: saw it denied, want it granted: it shares its state with another key", key)
		}
	}
}

func peek(e *env) {
	l := e.open()
	for name, limit := range still(10) {
		key := e.key(name)
		fresh := e.ask(l, key, limit, 0, 0)
		if fresh.N != 0 || fresh.Remaining != 10 || fresh.ResetAfter != 0 || fresh.RetryAfter != 0 {
			e.Errorf("Peek of a fresh key under %s: saw %+v, want 10 left and no waiting", name, fresh)
		}
		e.grantedN(e.ask(l, key, limit, 10, 10), 10, "all under "+name)
		first := e.ask(l, key, limit, 0, 0)
		for range 10 {
			e.ask(l, key, limit, 0, 0)
		}
		last := e.ask(l, key, limit, 0, 0)
		if first.Remaining != 0 || last.Remaining != 0 {
			e.Errorf("Peek when all is spent under %s: saw %d and %d left, want none", name, first.Remaining, last.Remaining)
		}
		if first.RetryAfter <= 0 || last.RetryAfter > first.RetryAfter || last.ResetAfter > first.ResetAfter {
			e.Errorf("Peek when all is spent under %s: saw RetryAfter %v then %v, ResetAfter %v then %v, want them above 0 and falling: looking extends nothing", name, first.RetryAfter, last.RetryAfter, first.ResetAfter, last.ResetAfter)
		}
	}
}

// stateSurvives has a lock held and limits spent before an event, and still so after it.
func stateSurvives(what string, event func(*env)) func(*env) {
	return func(e *env) {
		l, key, r := e.open(), e.key("lock"), e.req(e.keep)
		e.take(l, key, r)
		if e.r.limits {
			for name, limit := range still(10) {
				e.spendAll(l, e.key(name), limit, name)
			}
		}
		event(e)
		l = e.open()
		e.refused(l, key, "after "+what)
		if e.r.limits {
			for name, limit := range still(10) {
				e.grantedN(e.ask(l, e.key(name), limit, 1, 1), 0, "one more after "+what+" under "+name)
			}
		}
		e.end(l, key, r.ID, "Unlock after "+what)
	}
}

// takeAll takes of two limits what one of them has not, and then what both have.
func takeAll(e *env) {
	e.takesAtOnce(7, func(name string) (a, b string) { return e.key(name + " a"), e.key(name + " b") })
}

// takesAtOnce takes 4 and 4 of two limits of 10, of which the second has spent so much, and then 3 and 3. They may be one.
func (e *env) takesAtOnce(spent int, keys func(name string) (a, b string)) {
	l := e.open()
	for name, limit := range still(10) {
		a, b := keys(name)
		e.grantedN(e.ask(l, b, limit, spent, spent), spent, "some of 10 under "+name)
		take := func(n, wantA, wantB int) []driver.Taken {
			t, err := l.TakeAll(e.within(soon), []driver.Demand{{Key: a, Limit: limit, N: n}, {Key: b, Limit: limit, N: n}})
			e.noError(err, "TakeAll")
			if len(t) != 2 || len(t[0].Asks) != 1 || len(t[1].Asks) != 1 {
				e.Fatalf("TakeAll of two demands: saw %+v, want one answer for each", t)
			}
			if x, y := e.ask(l, a, limit, 0, 0), e.ask(l, b, limit, 0, 0); x.Remaining != wantA || y.Remaining != wantB {
				e.Errorf("left after TakeAll of %d and %d under %s: saw %d and %d, want %d and %d", n, n, name, x.Remaining, y.Remaining, wantA, wantB)
			}
			return t
		}
		if a == b {
			take(4, 10-spent, 10-spent)
			take(3, 4-spent, 4-spent)
			continue
		}
		take(4, 10, 10-spent)
		if t := take(3, 7, 7-spent); t[0].Asks[0].N != 3 || t[1].Asks[0].N != 3 {
			e.Errorf("TakeAll of 3 and 3 with 10 and 3 left under %s: saw %d and %d granted, want both", name, t[0].Asks[0].N, t[1].Asks[0].N)
		}
	}
}

// deny spends a limit through c and checks that it denies.
func (e *env) deny(c *coord.Client, key string, limit driver.Limit) {
	for range 2 {
		_, err := c.AllowAtMost(e.ctx, key, limit, 10)
		e.noError(err, "AllowAtMost")
	}
	r, err := c.Allow(e.ctx, key, limit)
	e.noError(err, "Allow when all is spent")
	if r.Allowed || r.RetryAfter <= 0 {
		e.Errorf("Allow when all is spent: saw allowed %v, RetryAfter %v, want a denial that says when", r.Allowed, r.RetryAfter)
	}
}

func ownReset(e *env) {
	c := e.client()
	for name, limit := range still(10) {
		key := e.key(name)
		e.deny(c, key, limit)
		e.noError(c.Reset(e.ctx, key, limit), "Reset")
		if r := e.allows(c, key, limit, 1, "Allow after the client's own Reset under "+name); r.Remaining != 9 {
			e.Errorf("Allow after the client's own Reset under %s: saw %d left, want 9", name, r.Remaining)
		}
	}
}

func othersReset(e *env) {
	c, other := e.client(), e.client()
	limit := normal(driver.Limit{Rate: 10, Per: year})
	key := e.key("k")
	e.deny(c, key, limit)
	e.noError(other.Reset(e.ctx, key, limit), "Reset by another client")
	e.until(time.Second+100*time.Millisecond, "another client's Reset to show: want it within a second", func() bool {
		r, err := c.Allow(e.ctx, key, limit)
		e.noError(err, "Allow after another client's Reset")
		return r.Allowed
	})
}

func validFor(e *env) {
	for _, name := range []string{"sliding window", "fixed window"} {
		limit, bound := algorithms(boundRate, boundPer)[name], boundRate
		if limit.Algorithm == driver.FixedWindow {
			bound = 2 * boundRate
		}
		var first time.Time
		spends := e.saturate(e.key(name), limit, boundTime, func(g driver.Granted, sent, came time.Time) spend {
			if g.ValidFor <= 0 || g.ValidFor > limit.Per {
				e.Errorf("ValidFor of a grant under %s: saw %v, want above 0 and at most %v", name, g.ValidFor, limit.Per)
			}
			// What one period grants is hoarded to its last moment, what the next grants is spent at once:
			// a grant that is good for too long meets the next.
			if first.IsZero() {
				first = sent
			}
			if hoard := sent.Sub(first)/limit.Per%2 == 0; hoard && sent.Add(g.ValidFor).After(came) {
				last := sent.Add(g.ValidFor)
				return spend{last, last, g.N}
			}
			return spend{sent, came, g.N}
		})
		if most := mostWithin(spends, limit.Per-time.Microsecond); most > bound {
			e.Errorf("%s, grants of every other period spent at the end of their ValidFor: saw %d permits within %v, want at most %d", name, most, limit.Per, bound)
		}
	}
}
