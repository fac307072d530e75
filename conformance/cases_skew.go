package conformance

import (
	"fmt"
	"time"

	"github.com/coordgo/coord/driver"
)

func skewCases() []Case {
	return []Case{
		{
			ID: "LOCK-83", Name: "skewed-clocks-change-no-lease", Clause: "L1", run: skewedLeases, Hooks: []Hook{HookSkew},
			Why:    "a lease that ends at a time of the client's clock, and not so much later, ends at once for a client that is ahead (go-redis' ExpireAt, Redlock on gettimeofday)",
			Remedy: "send the store how long a lease lasts, never when it ends; where the store's value must hold an instant, let only the store's clock judge it",
		}, {
			ID: "LIMIT-11", Name: "clock-set-back-mints-nothing", Clause: "R4", run: clockBack, Hooks: []Hook{HookSkew},
			Why:    "a clock that NTP steps back by five seconds made a limiter refill twice, or panic on a negative time",
			Remedy: "let the time of a state never run back: count on the greater of the state's time and now",
		}, {
			ID: "LIMIT-12", Name: "alternating-clocks-keep-the-bound", Clause: "R1", run: clocksAlternate, Hooks: []Hook{HookSkew},
			Why:    "a slow client that sets the state back, and a fast one that refills it, mint permits by turns",
			Remedy: "let the time of a state never run back: the clocks' difference then counts once, and not at every turn",
		}, {
			ID: "LIMIT-13", Name: "an-hour-ahead-mints-one-burst", Clause: "R1", run: hourAhead, Hooks: []Hook{HookSkew},
			Why:    "one machine of the fleet whose clock is an hour ahead, and is corrected, must cost one capacity and not the limit",
			Remedy: "let the time of a state never run back, and tell those who lag behind it how long they have to wait",
		}, {
			ID: "LIMIT-14", Name: "limits-run-on-one-clock", Clause: "R1", run: oneClock, Proves: driver.ServerClock, Hooks: []Hook{HookSkew},
			Why:    "a bound that holds as far as clocks agree is weaker than it looks, on a fleet of which nobody checks the clocks",
			Remedy: "read the time at the store, in the step that decides, or do not claim server-clock",
		}, {
			ID: "LIMIT-244", Name: "a-day-ahead-stops-no-limit", Clause: "R4", run: dayAhead, Hooks: []Hook{HookSkew},
			Why:    "one machine whose clock was a day ahead took permits, and its limits denied everyone for a day, long after it was gone",
			Remedy: "let a state that is further ahead than clocks differ stand still, and begin anew when the limit has come back since its last grant",
		},
	}
}

// skewed opens a client whose clock is ahead by so much.
func (e *env) skewed(ahead time.Duration) driver.Backend {
	b := e.opened(func(tb TB) driver.Backend { return e.r.suite.Harness.Faults.Skew(tb, ahead) })
	e.Cleanup(func() { e.close(b) })
	return b
}

// skewedLeases takes turns with clients whose clocks are far apart: tokens rise, leases
// last as long as was granted and no longer, for holder and rival.
func skewedLeases(e *env) {
	key, right := e.key("k"), e.open()
	var last int64
	for _, ahead := range []time.Duration{5 * time.Second, -5 * time.Second, 30 * time.Minute, -30 * time.Minute} {
		l := e.skewed(ahead)
		whose := fmt.Sprintf("of a client %v ahead", ahead)
		next, g, h := e.lasts(l, right, key, " "+whose)
		rises(e, "the lease "+whose, g.Token, last)
		rises(e, "who came after the lease "+whose, h.Token, g.Token)
		last = h.Token
		e.refused(l, key, "by a client whose clock is off, while the key is held")
		e.end(right, key, next.ID, "Unlock")
	}
}

// clearOf waits until no window of that length ends within d, before or after now.
func (e *env) clearOf(per, d time.Duration) {
	into := time.Duration(time.Now().UnixNano() % int64(per))
	switch {
	case into < d:
		e.pass(d - into)
	case into > per-d:
		e.pass(per - into + d)
	}
}

// spendAll takes all there is of a fresh limit.
func (e *env) spendAll(l driver.Limiter, key string, limit driver.Limit, name string) {
	e.grantedN(e.ask(l, key, limit, limit.Max(), limit.Max()), limit.Max(), "all of a fresh "+name)
}

func clockBack(e *env) {
	const back, per = 5 * time.Second, time.Hour
	e.clearOf(per, back+2*time.Second)
	right, behind := e.open(), e.skewed(-back)
	for name, limit := range algorithms(10, per) {
		if limit.Algorithm == driver.TokenBucket {
			limit = normal(driver.Limit{Rate: 1, Per: per, Burst: 10})
		}
		key := e.key(name)
		e.spendAll(right, key, limit, name)
		before := e.ask(right, key, limit, 1, 1)
		for range 5 {
			a := e.ask(behind, key, limit, 1, 1)
			e.grantedN(a, 0, "one more of a "+name+" by a client that is behind")
			if most := before.RetryAfter + back + time.Second; a.RetryAfter > most {
				e.Errorf("RetryAfter of a %s for a client %v behind: saw %v, want at most %v", name, back, a.RetryAfter, most)
			}
		}
		after := e.ask(right, key, limit, 1, 1)
		e.grantedN(after, 0, "one more of a "+name+" after a client that is behind has asked")
		if after.RetryAfter > before.RetryAfter+time.Millisecond {
			e.Errorf("RetryAfter of a %s after a client that is behind has asked: saw %v after %v, want no more", name, after.RetryAfter, before.RetryAfter)
		}
	}
}

func clocksAlternate(e *env) {
	const apart = 5 * time.Second
	clients := []driver.Limiter{e.skewed(-apart), e.skewed(apart), e.open()}
	for name, limit := range algorithms(10, 2*time.Second) {
		key := e.key(name)
		total, start := 0, time.Now()
		for i := 0; i < 60 || time.Since(start) < 500*time.Millisecond; i++ {
			total += e.ask(clients[i%len(clients)], key, limit, 1, 2).N
			e.pass(2 * time.Millisecond)
		}
		// The clocks' difference counts once. A window may have begun before and end after.
		const spread = 2 * apart
		took := time.Since(start)
		most := limit.Rate * int((took+spread)/limit.Per+2)
		if e.info.Claims.Has(driver.ServerClock) {
			most = limit.Rate * int(took/limit.Per+2)
		}
		if total > most {
			e.Errorf("%s %v, asked for %v by clients whose clocks are %v apart: saw %d granted, want at most %d", name, limit, took.Round(time.Millisecond), spread, total, most)
		}
	}
}

func hourAhead(e *env) {
	const ahead = time.Hour
	right := e.open()
	for name, limit := range algorithms(10, 10*time.Minute) {
		key := e.key(name)
		e.clearOf(limit.Per, 2*time.Second)
		e.spendAll(right, key, limit, name)
		early := e.skewed(ahead)
		extra := 0
		for range 3 {
			extra += e.ask(early, key, limit, 1, limit.Max()).N
		}
		if extra > limit.Max() {
			e.Errorf("%s, spent: saw %d more granted to a client %v ahead, want at most one capacity of %d", name, extra, ahead, limit.Max())
		}
		// Its clock is set right again.
		for range 3 {
			a := e.ask(right, key, limit, 1, 1)
			e.grantedN(a, 0, "one more of a "+name+" after a client that was an hour ahead")
			if most := ahead + 2*limit.Per; a.RetryAfter > most {
				e.Errorf("RetryAfter of a %s after a client that was %v ahead: saw %v, want at most %v", name, ahead, a.RetryAfter, most)
			}
		}
		e.noError(right.Reset(e.within(soon), key, limit), "Reset")
		e.spendAll(right, key, limit, name+" after its Reset")
	}
}

func oneClock(e *env) {
	right := e.open()
	for name, limit := range algorithms(10, 10*time.Minute) {
		key := e.key(name)
		e.clearOf(limit.Per, 2*time.Second)
		e.spendAll(right, key, limit, name)
		before := e.ask(right, key, limit, 1, 1)
		for _, ahead := range []time.Duration{time.Hour, -time.Hour, 5 * time.Second, -5 * time.Second} {
			a := e.ask(e.skewed(ahead), key, limit, 1, 1)
			e.grantedN(a, 0, fmt.Sprintf("one more of a %s by a client %v ahead", name, ahead))
			// Who learns the store's clock from one answer is off by the time of that round trip at most.
			slack := 10*time.Millisecond + a.came.Sub(a.sent)
			if a.RetryAfter > before.RetryAfter+slack || a.RetryAfter < before.RetryAfter-a.came.Sub(before.sent)-slack {
				e.Errorf("RetryAfter of a %s for a client %v ahead: saw %v, want the %v that another was told, less what has passed since", name, ahead, a.RetryAfter, before.RetryAfter)
			}
		}
	}
}

// dayAhead lets a client that is a day ahead take all there is, and go. Then the others are served: at once where
// the store's clock counts, and elsewhere when the permits that it took are back.
func dayAhead(e *env) {
	all := algorithms(10, time.Second)
	e.scope(func(e *env) {
		wrong := e.skewed(24 * time.Hour)
		for name, limit := range all {
			e.spendAll(wrong, e.key(name), limit, name)
		}
	})
	right, granted := e.open(), make(map[string]int)
	for start := time.Now(); len(all) > 0; e.pass(5 * time.Millisecond) {
		for name, limit := range all {
			a := e.ask(right, e.key(name), limit, 1, limit.Max())
			granted[name] += a.N
			if most := 2 * limit.Per; a.RetryAfter > most {
				e.Errorf("RetryAfter of a %s after a client that was a day ahead: saw %v, want at most %v", name, a.RetryAfter, most)
			}
			if granted[name] >= 2*limit.Max() { // what follows the first grants is not ahead any more
				delete(all, name)
			}
		}
		if took := time.Since(start); len(all) > 0 && took > e.bound(soon) {
			e.Fatalf("after a client that was a day ahead: saw %v granted in %v, want 20 of each", granted, took.Round(time.Millisecond))
		}
	}
}
