package conformance

import (
	"fmt"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

// mutantCases came from broken drivers that all the other cases let pass.
func mutantCases() []Case {
	return []Case{
		{
			ID: "LOCK-27", Name: "a-batch-answers-for-each-hold", Clause: "L4", run: renewAll,
			Why:    "a batch that stops at its first hold, or mixes up its answers, loses locks only of those who hold many",
			Remedy: "RenewAll answers for each hold, in order, what Renew would have: give every hold its own result",
		}, {
			ID: "LOCK-59", Name: "waiters-go-on-when-a-dead-holders-lease-lapses", Clause: "L8", run: deadHolderWaiters,
			Why:    "a holder that died sends no Unlock: a queue that moves on releases alone stands still",
			Remedy: "wake the first waiter when the lease in its way ends, or have it look again then",
		}, {
			ID: "LOCK-77", Name: "min-hold-outlives-its-client", Clause: "L9", run: minHoldOverClose, Needs: driver.Claims{driver.PerHoldTTL},
			Why:    "a job that is done at once closes its client: a timer of the client ends with it",
			Remedy: "keep the key taken at the store: by UnlockAfter there, or by the rest of the lease",
		}, {
			ID: "LIMIT-18", Name: "fixed-windows-are-aligned", Clause: "R1", run: aligned,
			Why:    "windows that begin at the first use of each key let every caller choose a moment to spend twice",
			Remedy: "begin windows at multiples of the period since the Unix epoch, on the store's clock",
		}, {
			ID: "LIMIT-19", Name: "an-idle-bucket-is-no-fuller-than-full", Clause: "R1", run: idleBucket,
			Why:    "a bucket that goes on filling overnight admits the night's permits in the morning",
			Remedy: "cap what has refilled at the burst, before anything is taken from it",
		},
	}
}

// renewAll renews several holds, one of which is gone, in one batch.
func renewAll(e *env) {
	l := e.open()
	e.batches(l)
	e.growing(2*e.ttl, func(e *env, ttl time.Duration) bool {
		keys := make([]string, 4)
		for i := range keys {
			keys[i] = e.key(fmt.Sprint("k", i, " ", ttl))
		}
		return e.renewsBatch(l, keys, exclusive, ttl)
	})
}

// batches ends the case if the store renews holds one by one.
func (e *env) batches(l driver.Locker) {
	if l.RenewAll(e.within(soon), []driver.Hold{{Key: e.key("free"), Request: e.req(e.long)}}) == nil {
		e.Unsupported("the store has no request that renews several holds")
	}
}

// renewsBatch renews holds of keys for long, of which one is gone, and sees the others outlive their first leases.
func (e *env) renewsBatch(l driver.Locker, keys []string, s driver.Share, ttl time.Duration) (early bool) {
	const gone = 1
	start := time.Now()
	var holds []driver.Hold
	var grants []driver.Grant
	for _, key := range keys {
		h := driver.Hold{Key: key, Request: e.share(s, ttl)}
		grants = append(grants, e.entered(l, key, h.Request, "a hold of several"))
		h.TTL = e.long
		holds = append(holds, h)
	}
	whole := s
	if s.Mode == driver.Permits {
		whole.Weight, holds[0].Share.Weight = s.Of, 1
	}
	e.end(l, holds[gone].Key, holds[gone].ID, "Unlock of one hold of several")
	answers := l.RenewAll(e.within(soon), holds)
	if time.Since(start) > grants[0].TTL/2 {
		return true
	}
	if len(answers) != len(keys) {
		e.Fatalf("RenewAll of %d holds: saw %d answers, want one for each", len(keys), len(answers))
	}
	for i, a := range answers {
		what := fmt.Sprintf("RenewAll of %d holds, answer %d", len(keys), i)
		switch {
		case i == gone:
			e.wantError(a.Err, what+", whose hold was unlocked", driver.ErrNotHeld)
		case a.Err != nil:
			e.Errorf("%s: saw %v, want its lease prolonged", what, a.Err)
		case a.Grant.Token != grants[i].Token || a.Grant.Slot != grants[i].Slot:
			e.Errorf("%s: saw token %d and slot %d, want its own, %d and %d", what, a.Grant.Token, a.Grant.Slot, grants[i].Token, grants[i].Slot)
		}
	}
	e.passUntil(start.Add(grants[0].TTL + grants[0].TTL/4))
	if s.Mode == driver.Permits {
		e.passes(l, keys[0], permits(7, 10), "7 of 10 beside 3 that were renewed in a batch")
		e.keptOut(l, keys[0], permits(8, 10), "8 of 10 beside 3 that were renewed in a batch")
	}
	for i, h := range holds {
		if i != gone {
			e.keptOut(l, h.Key, whole, fmt.Sprintf("all of a key when the first lease of hold %d is over, which was renewed in a batch", i))
			e.end(l, h.Key, h.ID, "Unlock of a hold that was renewed in a batch")
		}
	}
	return false
}

// deadHolderWaiters has two clients wait for a hold that nobody renews or releases: not even
// the core of its client, which cleans up when a hold has ended.
func deadHolderWaiters(e *env) {
	key, r := e.key("k"), e.req(e.ttl)
	g := e.take(e.open(), key, r)
	_, _, first := e.waiting(e.ctx, key, coord.TTL(e.long))
	_, _, second := e.waiting(e.ctx, key, coord.TTL(e.long))
	e.noError(recv(e, first, e.lapse(g.TTL), "a waiter, after the lease of a dead holder"), "Lock behind a dead holder")
	e.noError(recv(e, second, e.lapse(g.TTL), "the other waiter, after the lease of a dead holder"), "Lock behind a dead holder")
}

func minHoldOverClose(e *env) {
	c, key, least := e.client(), e.key("k"), e.round(2*e.ttl)
	asked := time.Now()
	l := e.lock(c, key, coord.TTL(least), coord.MinHold(least))
	e.gaveBack(l.Unlock(e.ctx), "Unlock before MinHold")
	e.gaveBack(c.Close(), "Close before MinHold")
	e.keptFor(key, least, asked, least, ", its client being closed")
}

// aligned compares the ends of the windows of keys that were first used at different moments: whatever
// the store's clock says, they are whole periods apart.
func aligned(e *env) {
	l := e.open()
	limit := normal(driver.Limit{Rate: 10, Per: time.Second, Algorithm: driver.FixedWindow})
	var first asked
	for i := range 5 {
		a := e.ask(l, e.key(fmt.Sprint("k", i)), limit, 1, 1)
		if i == 0 {
			first = a
		}
		// Each end is ResetAfter behind some moment of its call; answers are in whole milliseconds at worst.
		early := a.sent.Add(a.ResetAfter).Sub(first.came.Add(first.ResetAfter)) - 2*time.Millisecond
		late := a.came.Add(a.ResetAfter).Sub(first.sent.Add(first.ResetAfter)) + 2*time.Millisecond
		if n := late / limit.Per; late < 0 || n*limit.Per < early {
			e.Errorf("windows of %v of two keys: saw the second end %v to %v after the first, want whole periods", limit.Per, early, late)
		}
		e.pass(limit.Per / 7)
	}
}

func idleBucket(e *env) {
	limit := normal(driver.Limit{Rate: 10, Per: 100 * time.Millisecond, Burst: 10})
	l, key := e.open(), e.key("k")
	e.grantedN(e.ask(l, key, limit, 10, 10), 10, "all of a full bucket")
	e.pass(4 * limit.Per)
	var spends []spend
	for start := time.Now(); time.Since(start) < limit.Per/2; {
		a := e.ask(l, key, limit, 1, limit.Burst)
		if a.N == 0 {
			break
		}
		spends = append(spends, spend{a.sent, a.came, a.N})
	}
	if over := overBucket(spends, limit); over > 0 {
		e.Errorf("token bucket %v after %v without use: saw %d permits more than Burst + Rate·W/Per", limit, 4*limit.Per, over)
	}
}
