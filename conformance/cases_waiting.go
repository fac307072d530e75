package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

func waitingCases() []Case {
	return []Case{
		{
			ID: "LIMIT-56", Name: "wait-ends-when-it-is-due", Clause: "R8", run: waitDue,
			Why:    "a wait that is early breaks the limit, one that is late wastes it",
			Remedy: "tell RetryAfter and Delay on the store's clock, neither early nor late",
		}, {
			ID: "LIMIT-57", Name: "hopeless-wait-fails-at-once", Clause: "R8", run: waitHopeless,
			Why:    "waiting out a deadline that cannot be met costs a worker for nothing",
			Remedy: "tell the true RetryAfter of a denial",
		}, {
			ID: "LIMIT-58", Name: "cancelled-wait-gives-back", Clause: "R8", run: waitCancelled, Needs: driver.Claims{driver.Reserve},
			Why:    "permits reserved for callers who left make everyone else wait",
			Remedy: "implement Refund of driver.Limiter, or do not claim reserve: what is cancelled goes back",
		}, {
			ID: "LIMIT-59", Name: "reserve-and-refund-are-exact", Clause: "R8", run: reserve, Proves: driver.Reserve,
			Why:    "a refund that is given twice, or for what was used, mints permits",
			Remedy: "remember refunded ids as long as they can come again, or do not claim reserve",
		}, {
			ID: "LIMIT-54", Name: "late-refund-does-nothing", Clause: "R8", run: lateRefund, Needs: driver.Claims{driver.Reserve},
			Why:    "permits that fell due may have been used: giving them back lets them be used twice",
			Remedy: "refuse a refund whose permits are due, by the store's clock",
		}, {
			ID: "LIMIT-261", Name: "nobody-in-line-is-overtaken", Clause: "R8", run: waitTogether,
			Why:    "waits share a request: a store that serves a later one of them first starves the others",
			Remedy: "evaluate the asks of one call in their order",
		}, {
			ID: "LIMIT-262", Name: "wait-cancelled-while-it-asks-gives-back", Clause: "R8", run: waitCancelledInFlight, Needs: driver.Claims{driver.Reserve},
			Why:    "a reservation whose caller has left before the answer came makes everyone else wait for nobody",
			Remedy: "implement Refund of driver.Limiter: what was granted to an id goes back, whether its answer came or not",
		}, {
			ID: "LIMIT-263", Name: "denial-is-of-one-limit", Clause: "R6", run: denialOfOne,
			Why:    "a denial that is remembered for another limit, or of one demand where only a sum was too much, denies what is there",
			Remedy: "remember denials by key and limit, or not at all: the client does",
		},
	}
}

// waitTogether: nine wait for six permits at a time, of a window that they have all at once.
func waitTogether(e *env) {
	c, key := e.client(), e.key("k")
	const permits, waiters = 6, 9
	limit := normal(driver.Limit{Rate: permits, Per: 600 * time.Millisecond})
	e.allows(c, key, limit, permits, "AllowN of a fresh key")
	returned := make([]time.Time, waiters)
	var wg sync.WaitGroup
	for i := range waiters {
		wg.Go(func() {
			if err := c.Wait(e.within(soon), key, limit); err != nil {
				e.Errorf("Wait of caller %d: saw %v, want nil", i, err)
			}
			returned[i] = time.Now()
		})
		e.pass(10 * time.Millisecond)
	}
	wg.Wait()
	for i := range waiters - 1 {
		if before := returned[i].Sub(returned[i+1]); e.timely() && before > 0 {
			e.Errorf("Wait: saw caller %d served %v before caller %d, want the order in which they came", i+1, before, i)
		}
	}
}

func waitCancelledInFlight(e *env) {
	b, in := e.injected()
	c, key := e.clientOn(b), e.key("k")
	limit := driver.Limit{Rate: 1, Per: 5 * time.Second, Burst: 1}
	e.allows(c, key, limit, 1, "Allow of a fresh key")
	in.Script(func(c Call) Fault {
		if c.Op == "Take" {
			return HangAfter
		}
		return NoFault
	})
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	result := async(func() error { return c.Wait(ctx, key, limit) })
	e.until(soon, "Wait to ask", func() bool { return in.count("Take") > 1 })
	e.pass(100 * time.Millisecond) // the store has granted it, and the answer does not come
	cancel()
	e.wantError(recv(e, result, soon, "a cancelled Wait"), "Wait that is cancelled while it asks", context.Canceled)
	in.Script(nil)
	e.until(2*time.Second, "what a Wait that was cancelled while it asked has reserved to be given back", func() bool {
		r, err := c.Peek(e.within(soon), key, limit)
		e.noError(err, "Peek")
		return r.ResetAfter <= limit.Per
	})
}

// denialOfOne: what is denied under one limit is there under others of the same key.
func denialOfOne(e *env) {
	c, key := e.client(), e.key("k")
	denied := normal(driver.Limit{Rate: 5, Per: year})
	e.deny(c, key, denied)
	for name, limit := range map[string]driver.Limit{
		"a shorter period": normal(driver.Limit{Rate: 5, Per: year / 2}),
		"a fixed window":   normal(driver.Limit{Rate: 5, Per: year, Algorithm: driver.FixedWindow}),
		"a token bucket":   normal(driver.Limit{Rate: 5, Per: year, Burst: 5}),
	} {
		e.allows(c, key, limit, 1, "Allow under "+name+", after a denial under another limit of the key")
	}
	if !e.info.Claims.Has(driver.AtomicMulti) {
		return
	}
	demand := coord.Demand{Key: e.key("sum"), Limit: normal(driver.Limit{Rate: 10, Per: year}), N: 3}
	e.allows(c, demand.Key, demand.Limit, 5, "AllowN of 5 of 10")
	all, err := c.AllowAll(e.within(soon), demand, demand)
	e.noError(err, "AllowAll of twice 3 with 5 left")
	if len(all) != 2 || all[0].Allowed {
		e.Errorf("AllowAll of twice 3 with 5 left: saw %+v, want a denial", all)
	}
	e.allows(c, demand.Key, demand.Limit, demand.N, "AllowN of 3 with 5 left, after a denial of twice 3")
}

func waitDue(e *env) {
	b, in := e.injected()
	c := e.clientOn(b)
	for name, limit := range algorithms(4, 200*time.Millisecond) {
		key := e.key(name)
		var spends []spend
		start := time.Now()
		for range 10 {
			if err := c.Wait(e.within(soon), key, limit); err != nil {
				e.Fatalf("Wait under %s: saw %v, want nil", name, err)
			}
			// A permit that was waited for is used when Wait returns. A window counts it when
			// the store was asked for it, which may be earlier by what the answer took.
			now := time.Now()
			used := spend{now, now, 1}
			if limit.Algorithm != driver.TokenBucket {
				used.from = in.last("Take")
			}
			spends = append(spends, used)
		}
		bound := 4
		if limit.Algorithm != driver.SlidingWindow {
			bound = 8
		}
		if most := mostWithin(spends, limit.Per-time.Millisecond); e.timely() && most > bound {
			e.Errorf("Wait under %s: saw %d permits within %v, want at most %d", name, most, limit.Per, bound)
		}
		e.inTime(start, 1500*time.Millisecond, fmt.Sprintf("10 times Wait under %v %s", limit, name))
	}
}

func waitHopeless(e *env) {
	c := e.client()
	for name, limit := range still(10) {
		key := e.key(name)
		e.deny(c, key, limit)
		start := time.Now()
		err := c.Wait(e.within(soon), key, limit)
		e.wantError(err, "Wait whose permit comes after the deadline, under "+name, coord.ErrLimited, context.DeadlineExceeded)
		e.inTime(start, prompt, "Wait whose permit comes after the deadline, under "+name)
		var full *coord.Error
		if !errors.As(err, &full) || full.RetryAfter <= soon {
			e.Errorf("Wait whose permit comes after the deadline, under %s: saw %v, want an *Error whose RetryAfter says when", name, err)
		}
	}
}

func waitCancelled(e *env) {
	b, in := e.injected()
	c, key := e.clientOn(b), e.key("k")
	limit := driver.Limit{Rate: 1, Per: 5 * time.Second, Burst: 1}
	e.allows(c, key, limit, 1, "Allow of a fresh key")
	ctx, cancel := context.WithCancel(e.ctx)
	result := async(func() error { return c.Wait(ctx, key, limit) })
	e.until(soon, "Wait to reserve", func() bool { return in.returned("Take") > 1 })
	cancel()
	e.wantError(recv(e, result, soon, "a cancelled Wait"), "cancelled Wait", context.Canceled)
	// If the core had not taken in the answer of the store, it gives back in the background.
	e.until(soon, "the permit to be given back", func() bool { return in.returned("Refund") > 0 })
	res, err := c.Reserve(e.ctx, key, limit, 1)
	e.noError(err, "Reserve after a cancelled Wait")
	if d := res.Delay(); d > limit.Per {
		e.Errorf("Delay of the next permit after a cancelled Wait: saw %v, want at most %v: the permit was not given back", d, limit.Per)
	}
}

func reserve(e *env) {
	l := e.open()
	limit, key := normal(driver.Limit{Rate: 10, Per: 10 * time.Second, Burst: 10}), e.key("k")
	full := e.ask(l, key, limit, 10, 10)
	e.grantedN(full, 10, "all of a full bucket")
	start := full.sent
	// near fails the case unless d, less what has passed since start, is want.
	near := func(d, want time.Duration, what string) {
		passed := time.Since(start)
		if d > want+time.Millisecond || d < want-passed-time.Millisecond {
			e.Errorf("%s: saw %v, want %v less the %v that have passed", what, d, want, passed)
		}
	}
	hold := func(n int, ahead time.Duration) (string, asked) {
		id := e.newID()
		return id, e.askFor(l, key, limit, driver.Ask{ID: id, Min: n, N: n, MaxDelay: ahead})
	}
	_, denied := hold(3, 2*time.Second)
	e.grantedN(denied, 0, "3 that are due in 3s, at most 2s ahead")
	near(denied.RetryAfter, time.Second, "RetryAfter of an ask for 2s ahead for what is due in 3s")

	first, a := hold(3, time.Minute)
	e.grantedN(a, 3, "3 that are due in 3s, at most a minute ahead")
	near(a.Delay, 3*time.Second, "Delay of 3 permits at 1 a second")
	_, b := hold(2, time.Minute)
	e.grantedN(b, 2, "2 behind 3")
	near(b.Delay, 5*time.Second, "Delay of 2 permits behind 3")

	e.noError(l.Refund(e.within(soon), key, limit, first, 3), "Refund")
	_, c := hold(1, time.Minute)
	near(c.Delay, 3*time.Second, "Delay of 1 permit behind 2, 3 having been given back")
	e.noError(l.Refund(e.within(soon), key, limit, first, 3), "second Refund, which does nothing")
	e.noError(l.Refund(e.within(soon), key, limit, e.newID(), 3), "Refund of an ask that never was, which does nothing")
	last, d := hold(2, time.Minute)
	near(d.Delay, 5*time.Second, "Delay of 2 permits behind 3, after refunds that do nothing")
	e.noError(l.Refund(e.within(soon), key, limit, last, 1), "Refund of a part")
	_, f := hold(1, time.Minute)
	near(f.Delay, 5*time.Second, "Delay of 1 permit behind 4, 1 of 2 having been given back")

	window := algorithms(10, time.Minute)["sliding window"]
	_, err := l.Take(e.within(soon), e.key("window"), window, []driver.Ask{{ID: e.newID(), Min: 1, N: 1, MaxDelay: time.Second}})
	e.wantError(err, "a reservation of a window", driver.ErrUnsupported)
}

func lateRefund(e *env) {
	l := e.open()
	limit, key, id := normal(driver.Limit{Rate: 10, Per: 2 * time.Second, Burst: 10}), e.key("k"), e.newID()
	full := e.ask(l, key, limit, 10, 10)
	e.grantedN(full, 10, "all of a full bucket")
	held := e.askFor(l, key, limit, driver.Ask{ID: id, Min: 1, N: 1, MaxDelay: time.Second})
	e.grantedN(held, 1, "1 that is due soon")
	e.passUntil(held.came.Add(held.Delay + 20*time.Millisecond))
	e.noError(l.Refund(e.within(soon), key, limit, id, 1), "Refund of what has fallen due, which does nothing")
	after := e.ask(l, key, limit, 0, 0)
	refilled := int(int64(limit.Rate) * int64(after.came.Sub(full.sent)) / int64(limit.Per))
	if after.Remaining > refilled-1 {
		e.Errorf("left after a refund that came too late: saw %d, want at most the %d refilled since, less the 1 used", after.Remaining, refilled)
	}
}
