package conformance

import (
	"fmt"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
)

func boundCases() []Case {
	return []Case{
		{
			ID: "LIMIT-01", Name: "many-clients-get-exactly-the-limit", Clause: "R1", run: takenTogether(50, 60, 1),
			Why:    "a limit that is read and then written admits once per concurrent reader",
			Remedy: "decide and debit in one atomic step of the store, never read and then write",
		}, {
			ID: "LIMIT-02", Name: "sliding-window-is-strict", Clause: "R1", run: slidingBound,
			Why:    "a sliding counter that weighs the last window admits twice the limit after a late burst",
			Remedy: "count the whole oldest part of the window, as driver/limits does, instead of weighing it",
		}, {
			ID: "LIMIT-03", Name: "token-bucket-keeps-its-bound", Clause: "R1", run: bucketBound,
			Why:    "a bucket whose debt is forgotten early refills too often (throttled admitted 1.95 times its limit)",
			Remedy: "keep a bucket's debt until it is paid: an expiry shorter than that mints permits",
		}, {
			ID: "LIMIT-04", Name: "fixed-window-keeps-its-bound", Clause: "R1", run: fixedBound,
			Why:    "a window without an end, or one that begins at each client's first call, counts nothing",
			Remedy: "align windows to the Unix epoch on the store's clock, and let each end",
		}, {
			ID: "LIMIT-05", Name: "denied-ask-debits-nothing", Clause: "R1", run: denialIsFree,
			Why:    "a limiter that counts before it checks locks out whoever keeps asking",
			Remedy: "check before counting, and write nothing on a denial",
		}, {
			ID: "LIMIT-06", Name: "at-most-grants-what-is-there", Clause: "R1", run: atMost,
			Why:    "a partial grant that debits a fraction loses permits at every call (redis_rate)",
			Remedy: "debit exactly what is granted, in whole permits",
		}, {
			ID: "LIMIT-07", Name: "bucket-does-not-drift", Clause: "R1", run: noDrift,
			Why:    "rounding the refill at every call makes a slow bucket of an honest one",
			Remedy: "store integers of a unit small enough for the rate, as driver/limits does, and round nowhere",
		}, {
			ID: "LIMIT-08", Name: "asks-are-evaluated-in-order", Clause: "R1", run: inOrder,
			Why:    "asks that travel together are still one after the other",
			Remedy: "evaluate the asks of one call one after the other on the same state",
		}, {
			ID: "LIMIT-09", Name: "large-limits-do-not-overflow", Clause: "R1", run: largeLimits,
			Why:    "3 million an hour overflowed an int64 and admitted 3 million more (mennanov)",
			Remedy: "multiply in 128 bits, or use driver/limits, and refuse what does not fit",
		}, {
			ID: "LIMIT-10", Name: "many-processes-get-exactly-the-limit", Clause: "R1", run: exactOverProcesses, Hooks: []Hook{HookWorker},
			Why:    "what the limit is for: one quota, a dozen processes (two thousand a minute, shared)",
			Remedy: "keep all state of a limit in the store: nothing that decides may live in a process",
		},
	}
}

func exactOverProcesses(e *env) {
	const n = 60
	for name, limit := range still(n) {
		// A call whose answer was lost may have been granted a permit.
		if sum := e.drained(order{Do: "drain", Key: e.key(name), Limit: limit}); sum.Granted > n || sum.Granted+sum.Mute < n {
			e.Errorf("%s of %d: saw %d permits granted to processes, and %d calls without an answer, want exactly the limit",
				name, n, sum.Granted, sum.Mute)
		}
	}
	for name, limit := range still(2000) {
		if limit.Algorithm != driver.TokenBucket { // too small to lease, and takes nothing back
			e.drainedInAdvance(name, limit)
		}
	}
}

// drained has several processes obey an order at the same time, and adds up their answers.
func (e *env) drained(o order) (sum answer) {
	const processes = 4
	var workers []*worker
	for range processes {
		workers = append(workers, e.startWorker())
	}
	for _, w := range workers {
		w.send(o)
	}
	for _, w := range workers {
		a := w.answer("drain")
		sum.Granted, sum.Wasted, sum.Leases, sum.Mute = sum.Granted+a.Granted, sum.Wasted+a.Wasted, sum.Leases+a.Leases, sum.Mute+a.Mute
		w.leave()
	}
	return sum
}

// drainedInAdvance has processes take permits in advance: what was debited is what they spent and what they lost.
func (e *env) drainedInAdvance(name string, limit driver.Limit) {
	const lessees = 4
	key := e.key(name + " in advance")
	sum := e.drained(order{Do: "drain", Key: key, Limit: limit, Lessees: lessees})
	a := e.ask(e.open(), key, limit, 0, 0)
	// A request that comes just as a lease ends may count as spent, and have got nothing of it. Nobody has what a take got
	// whose answer was lost: at most the largest lease, and the permit of its caller.
	least := sum.Granted + sum.Wasted
	most := least + sum.Leases + sum.Mute*(limit.Rate/(2*lessees)+1)
	if debited := limit.Rate - a.Remaining; sum.Granted > limit.Rate || debited < least || debited > most {
		e.Errorf("%s of %d, by processes that take permits in advance: saw %d debited, want %d to %d, which are %d spent and %d lost in %d leases, and %d takes without an answer",
			name, limit.Rate, debited, least, most, sum.Granted, sum.Wasted, sum.Leases, sum.Mute)
	}
	e.Logf("%s of %d: %d granted to processes, %d wasted in %d leases, %d takes without an answer, %d left",
		name, limit.Rate, sum.Granted, sum.Wasted, sum.Leases, sum.Mute, a.Remaining)
}

// saturate asks from several clients for d, and gives what was granted. spent says when a
// grant counts.
func (e *env) saturate(key string, limit driver.Limit, d time.Duration, spent func(driver.Granted, time.Time, time.Time) spend) []spend {
	var mu sync.Mutex
	var all []spend
	start := time.Now()
	crowd(3, 2, e.open, func(l driver.Backend, i, j int) {
		for time.Since(start) < d && e.ctx.Err() == nil {
			sent := time.Now()
			t, err := l.Take(e.ctx, key, limit, []driver.Ask{{Min: 1, N: 1 + i + j}})
			came := time.Now()
			if err != nil || len(t.Asks) != 1 {
				e.Errorf("Take among many: saw %d answers, error %v, want one answer", len(t.Asks), err)
				return
			}
			if g := t.Asks[0]; g.N > 0 {
				mu.Lock()
				all = append(all, spent(g, sent, came))
				mu.Unlock()
			} else {
				time.Sleep(time.Millisecond)
			}
		}
	})
	return all
}

func atGrant(g driver.Granted, sent, came time.Time) spend { return spend{sent, came, g.N} }

// bounded fails the case if more than bound were granted within per, or, all told, less than
// least where time is judged: so many a store gives that is asked often enough.
func (e *env) bounded(name string, spends []spend, per time.Duration, bound, least int) {
	total := 0
	for _, s := range spends {
		total += s.n
	}
	most := mostWithin(spends, per)
	if most > bound {
		e.Errorf("%s: saw %d permits granted within %v, want at most %d", name, most, per, bound)
	}
	if e.timely() && total < least {
		e.Errorf("%s under saturation: saw %d permits granted, want at least %d", name, total, least)
	}
}

const boundRate, boundPer, boundTime = 40, 200 * time.Millisecond, 900 * time.Millisecond

func slidingBound(e *env) {
	limit := algorithms(boundRate, boundPer)["sliding window"]
	e.bounded("sliding window", e.saturate(e.key("k"), limit, boundTime, atGrant), boundPer, boundRate, 2*boundRate)
	// The burst late in one window, and another early in the next.
	l, key := e.open(), e.key("late")
	var spends []spend
	for end := time.Now().Add(3 * boundPer); time.Now().Before(end); {
		if a := e.ask(l, key, limit, 1, boundRate); a.N > 0 {
			spends = append(spends, spend{a.sent, a.came, a.N})
		}
		e.pass(boundPer / 7)
	}
	e.bounded("sliding window with bursts", spends, boundPer, boundRate, boundRate)
}

func bucketBound(e *env) {
	limit := normal(driver.Limit{Rate: boundRate, Per: boundPer, Burst: 10})
	spends := e.saturate(e.key("k"), limit, boundTime, atGrant)
	over := overBucket(spends, limit)
	if over > 0 {
		e.Errorf("token bucket %v: saw it overdrawn by %d permits, want at most Burst + Rate·W/Per in any time W", limit, over)
	}
	e.bounded("token bucket", spends, boundTime, limit.Burst+boundRate*int(boundTime/boundPer+1), boundRate)
}

func fixedBound(e *env) {
	limit := algorithms(boundRate, boundPer)["fixed window"]
	// Two windows may meet within a period of Per, never three.
	e.bounded("fixed window", e.saturate(e.key("k"), limit, boundTime, atGrant), boundPer, 2*boundRate, 2*boundRate)
}

func denialIsFree(e *env) {
	l := e.open()
	for name, limit := range still(10) {
		key := e.key(name)
		e.grantedN(e.ask(l, key, limit, 9, 9), 9, "9 of 10 under "+name)
		for range 20 {
			e.grantedN(e.ask(l, key, limit, 2, 2), 0, "2 with 1 left under "+name)
		}
		e.grantedN(e.ask(l, key, limit, 1, 1), 1, "the last one, after denials, under "+name)
		a := e.ask(l, key, limit, 1, 1)
		e.grantedN(a, 0, "one more than there are under "+name)
		if a.ValidFor != 0 {
			e.Errorf("ValidFor of a denial under %s: saw %v, want 0", name, a.ValidFor)
		}
	}
}

func atMost(e *env) {
	l := e.open()
	for name, limit := range still(10) {
		key := e.key(name)
		e.grantedN(e.ask(l, key, limit, 1, 3), 3, "up to 3 of 10 under "+name)
		e.grantedN(e.ask(l, key, limit, 1, 10), 7, "up to 10 with 7 left under "+name)
		e.grantedN(e.ask(l, key, limit, 1, 10), 0, "up to 10 with none left under "+name)
		key = e.key(name + " least")
		e.grantedN(e.ask(l, key, limit, 8, 8), 8, "8 of 10 under "+name)
		e.grantedN(e.ask(l, key, limit, 3, 10), 0, "3 to 10 with 2 left under "+name)
		e.grantedN(e.ask(l, key, limit, 2, 10), 2, "2 to 10 with 2 left under "+name)
	}
}

func noDrift(e *env) {
	limit := normal(driver.Limit{Rate: 700, Per: time.Second, Burst: 700})
	l, key := e.open(), e.key("k")
	first := e.ask(l, key, limit, 1, limit.Burst)
	e.grantedN(first, limit.Burst, "all of a full bucket")
	total, last, longest := 0, first, time.Duration(0)
	for i := 0; last.came.Sub(first.came) < time.Second; i++ {
		e.pass(time.Duration(1+i%7)*time.Millisecond + 333*time.Microsecond)
		before := last
		last = e.ask(l, key, limit, 1, limit.Burst)
		total += last.N
		longest = max(longest, last.came.Sub(before.sent))
	}
	least := int(int64(limit.Rate) * int64(last.sent.Sub(first.came)) / int64(limit.Per))
	most := int(int64(limit.Rate)*int64(last.came.Sub(first.sent))/int64(limit.Per)) + 1
	if total+last.Remaining > most {
		e.Errorf("refill of %v, taken in many steps: saw %d, want at most %d", limit, total+last.Remaining, most)
	}
	fills := limit.Per * time.Duration(limit.Burst) / time.Duration(limit.Rate)
	if longest >= fills {
		return // the bucket may have been full meanwhile
	}
	if total+last.Remaining < least-1 {
		e.Errorf("refill of %v, taken in many steps: saw %d, want at least %d: permits are lost in rounding", limit, total+last.Remaining, least-1)
	}
}

func inOrder(e *env) {
	l := e.open()
	for name, limit := range still(10) {
		t, err := l.Take(e.within(soon), e.key(name), limit, []driver.Ask{{Min: 6, N: 6}, {Min: 6, N: 6}, {Min: 1, N: 3}, {Min: 1, N: 5}, {}})
		e.noError(err, "Take of several asks")
		var got []int
		for _, g := range t.Asks {
			got = append(got, g.N)
		}
		if want := "[6 0 3 1 0]"; fmt.Sprint(got) != want || t.Remaining != 0 {
			e.Errorf("asks for 6, 6, up to 3, up to 5 and a peek, of 10 under %s: saw %v and %d left, want %s and none", name, got, t.Remaining, want)
		}
	}
}

func largeLimits(e *env) {
	l := e.open()
	for _, limit := range []driver.Limit{
		{Rate: 3_000_000, Per: time.Hour},
		{Rate: 1_000_000_000, Per: 24 * time.Hour},
		{Rate: driver.MaxRate, Per: year},
		{Rate: driver.MaxRate, Per: driver.MinPer, Algorithm: driver.FixedWindow},
		{Rate: 3_000_000, Per: time.Hour, Burst: 3_000_000},
		{Rate: 1_000_000, Per: time.Second, Algorithm: driver.TokenBucket},
		{Rate: 1, Per: year, Burst: 100},
	} {
		limit = normal(limit)
		key, most := e.key(limit.String()), limit.Max()
		e.grantedN(e.ask(l, key, limit, most, most), most, "all at once under "+limit.String())
		if limit.Per > time.Minute {
			if a := e.ask(l, key, limit, most, most); a.N != 0 {
				e.Errorf("all at once under %v, again: saw %d granted, want none", limit, a.N)
			}
		}
	}
}
