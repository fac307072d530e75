package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

func ownershipCases() []Case {
	return []Case{
		{
			ID: "LOCK-30", Name: "repeated-try-gives-the-same-token", Clause: "L5", run: repeatedTry,
			Why:    "a retry after a lost reply must find its own hold, and not be refused by it (go-redis#2985)",
			Remedy: "find the id's own live entry first, and answer with its token",
		}, {
			ID: "LOCK-31", Name: "try-after-expiry-is-a-fresh-hold", Clause: "L5", run: tryAfterExpiry,
			Why:    "a hold that comes back with its old token after another held hides that other from every fence",
			Remedy: "treat an expired entry as none, also if it is the id's own: count a new token",
		}, {
			ID: "LOCK-32", Name: "stale-calls-leave-the-successor", Clause: "L5", run: staleCalls,
			Why:    "a release without comparing the owner frees the next holder's lock (the classic DEL; etcd#22082)",
			Remedy: "compare the id in the same atomic step that deletes or extends",
		}, {
			ID: "LOCK-33", Name: "second-unlock-is-told", Clause: "L5", run: secondUnlock,
			Why:    "an Unlock that always returns nil hides the loss that its caller has to undo (etcd's Unlock after revocation)",
			Remedy: "answer ErrNotHeld when the id holds nothing",
		}, {
			ID: "LOCK-34", Name: "unlock-works-under-a-cancelled-context", Clause: "L5", run: unlockCancelled,
			Why:    "deferred unlocks run under the context that was just cancelled",
			Remedy: "let Unlock use the context that it is given, and nothing older",
		}, {
			ID: "LOCK-37", Name: "unreachable-unlock-frees-later", Clause: "L5", run: unlockUnreachable,
			Why:    "an Unlock that cannot reach the store must end in time, and the key be freed when the store is back",
			Remedy: "let Unlock end with its context while the store is away",
		},
	}
}

func repeatedTry(e *env) {
	a, b, key, r := e.open(), e.open(), e.key("k"), e.req(e.long)
	first := e.take(a, key, r)
	for range 3 {
		for name, l := range map[string]driver.Locker{"the same client": a, "another connection": b} {
			if g, err := l.TryLock(e.within(soon), key, r); err != nil || g.Token != first.Token {
				e.Errorf("TryLock by the holder's id over %s: saw token %d, error %v, want token %d", name, g.Token, err, first.Token)
			}
		}
	}
	e.end(a, key, r.ID, "one Unlock after several TryLocks")
	e.free(b, key, 0, "after one Unlock")
}

func tryAfterExpiry(e *env) {
	l, key, r := e.open(), e.key("k"), e.req(e.round(50*time.Millisecond))
	first := e.take(l, key, r)
	between, _ := e.free(e.open(), key, e.lapse(r.TTL), "whose holder has let its lease lapse")
	again, err := l.TryLock(e.within(soon), key, r)
	e.noError(err, "TryLock by an id whose hold has lapsed, on a free key")
	if first.Token >= between.Token || between.Token >= again.Token {
		e.Errorf("tokens of a hold, the one after it, and the first id again: saw %d, %d, %d, want them to rise", first.Token, between.Token, again.Token)
	}
}

func staleCalls(e *env) {
	a, b, key, old := e.open(), e.open(), e.key("k"), e.req(e.round(50*time.Millisecond))
	e.take(a, key, old)
	r := e.req(e.long)
	g, _ := e.seize(b, key, r, e.lapse(old.TTL), "whose holder has let its lease lapse")
	e.wantError(a.Unlock(e.within(soon), key, old.ID), "Unlock by the holder before", driver.ErrNotHeld)
	e.notRenewed(a, key, old, "Renew by the holder before")
	_, err := a.TryLock(e.within(soon), key, old)
	e.wantError(err, "TryLock by the holder before", driver.ErrLocked)
	if e.info.Claims.Has(driver.MinHoldAfterExit) {
		e.wantError(a.UnlockAfter(e.within(soon), key, old.ID, e.ttl), "UnlockAfter by the holder before", driver.ErrNotHeld)
	}
	e.keeps(b, key, r, g, "Renew by the successor, after stale calls")
	e.refused(a, key, "after stale calls")
}

func secondUnlock(e *env) {
	c, key := e.client(), e.key("k")
	l := e.lock(c, key)
	e.gaveBack(l.Unlock(e.ctx), "Unlock")
	err := l.Unlock(e.ctx)
	if e.wantError(err, "second Unlock", coord.ErrNotHeld); errors.Is(err, coord.ErrLost) {
		e.Errorf("second Unlock: saw %v, want ErrNotHeld without ErrLost: nothing was lost", err)
	}
	e.wantError(l.Err(), "Err after Unlock", coord.ErrNotHeld)
	recv(e, l.Done(), time.Second, "Done after Unlock")
	l = e.lock(c, key, coord.TTL(e.ttl), coord.NoRenew())
	recv(e, l.Done(), l.TTL()+time.Second, "Done at the end of a lease without renewal")
	e.wantError(l.Unlock(e.ctx), "Unlock after a loss", coord.ErrLost)

	d, r, key := e.open(), e.req(e.long), e.key("driver")
	e.take(d, key, r)
	e.end(d, key, r.ID, "Unlock on the driver")
	e.wantError(d.Unlock(e.within(soon), key, r.ID), "second Unlock on the driver", driver.ErrNotHeld)
}

func unlockCancelled(e *env) {
	key := e.key("k")
	l := e.lock(e.client(), key, coord.TTL(e.long))
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	e.gaveBack(l.Unlock(ctx), "Unlock under a cancelled context")
	e.free(e.open(), key, 0, "after an Unlock under a cancelled context")
}

// warm opens the connections of a client.
func (e *env) warm(c *coord.Client) {
	e.gaveBack(e.lock(c, e.key("warm"), coord.TTL(e.long)).Unlock(e.ctx), "Unlock before the faults")
}

func unlockReplyLost(e *env, path pathTo) {
	b, link := path(e)
	c, key := e.clientOn(b), e.key("k")
	rival := e.open()
	const rounds = 3
	late := 0 // a busy machine may need longer to ask again than Unlock has, but not each time
	for range rounds {
		l := e.lock(c, key, coord.TTL(e.long))
		link.DropReply()
		err := l.Unlock(e.ctx)
		outOfTime := errors.Is(err, context.DeadlineExceeded) && !e.timely()
		if outOfTime {
			late++
		}
		if err != nil && (!outOfTime || late == rounds) {
			e.Errorf("Unlock whose reply was lost: saw %v, want nil: the store has applied it", err)
		}
		link.Heal()
		r := e.req(e.long)
		g, _ := e.seize(rival, key, r, time.Second, "after an Unlock whose reply was lost")
		e.pass(100 * time.Millisecond) // whatever the first holder still sends arrives
		e.keeps(rival, key, r, g, "the successor's Renew")
		e.end(rival, key, r.ID, "the successor's Unlock")
	}
}

func unlockUnreachable(e *env) {
	b, link := byDriver(e)
	key := e.key("k")
	l := e.lock(e.clientOn(b), key, coord.TTL(e.long))
	blackHole(link)
	start := time.Now()
	err := l.Unlock(e.ctx)
	e.inTime(start, 2*time.Second+prompt, "Unlock without an answer")
	e.wantError(err, "Unlock without an answer", coord.ErrUnavailable)
	e.wantError(l.Err(), "Err after an Unlock without an answer", coord.ErrNotHeld)
	link.Heal()
	e.free(e.open(), key, 5*time.Second, "after the link has healed: want it freed long before its lease")
}
