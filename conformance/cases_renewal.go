package conformance

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

func renewalCases() []Case {
	return []Case{
		{
			ID: "LOCK-20", Name: "held-lock-outlives-its-lease", Clause: "L4", Slow: true, run: renewed,
			Why:    "work takes longer than a lease more often than anyone plans",
			Remedy: "let Renew extend the lease to the TTL from now, in the store",
		}, {
			ID: "LOCK-21", Name: "failed-renewals-are-retried", Clause: "L4", run: renewalRetried,
			Why:    "one lost packet must not cost a lock that has two thirds of its lease left",
			Remedy: "leave no state in the adapter after a failed renewal, so that the next may succeed",
		}, {
			ID: "LOCK-22", Name: "broken-connection-is-no-loss", Clause: "L4", run: connectionReset, Hooks: []Hook{HookLink},
			Why:    "the same when the connections break, through the store's own client library",
			Remedy: "reconnect by yourself; an id, not the connection, owns the lock",
		}, {
			ID: "LOCK-23", Name: "max-hold-ends-the-hold", Clause: "L4", run: maxHold,
			Why:    "a renewal without bound keeps the key for a worker that hangs",
			Remedy: "let Unlock free the key at once",
		}, {
			ID: "LOCK-24", Name: "renew-never-revives", Clause: "L4", run: renewNeverRevives,
			Why:    "a renewal written as a plain set re-creates what has lapsed, beside the next holder",
			Remedy: "renew only an entry that is there and is the id's own, in one atomic step",
		}, {
			ID: "LOCK-25", Name: "renew-never-shortens", Clause: "L4", run: renewNeverShortens,
			Why:    "a late reply, or a retry with a shorter TTL, must not take back time that was promised",
			Remedy: "set the lease to the longer of what is left and what is asked for",
		}, {
			ID: "LOCK-26", Name: "no-renewal-after-unlock", Clause: "L4", run: noLateRenewal, Hooks: []Hook{HookFakeTime},
			Why:    "a watchdog that outlives the unlock keeps a free key taken (redisson#7272)",
			Remedy: "run no renewal in the adapter: the client renews",
		},
	}
}

func renewed(e *env) {
	e.outlives(lockKind)
	e.growing(e.ttl, func(e *env, ttl time.Duration) bool { return e.prolonged(e.open(), ttl) })
}

// outlives has a client hold a key, twice if it can, until the leases were renewed.
func (e *env) outlives(k *kind) {
	h, rival, key := &holders{env: e, c: e.client()}, k.at(e.open()), e.key(k.name)
	h.hold(k.locker(h.c), key)
	if k == readKind || k == permitKind {
		h.hold(k.locker(h.c), key)
	}
	granted := time.Now()
	tried := func() bool {
		h.live("while it is renewed")
		return e.keptOut(rival, k.key(key), k.barred, "TryLock by another id while the lock is renewed")
	}
	e.until(e.keep, "a renewal", func() bool { return h.renewed() || !tried() })
	if most := e.keep * 2 / 5; e.timely() && time.Since(granted) > most {
		e.Errorf("the first renewal of a lease of %v: saw it after %v, want it after a third", e.keep, time.Since(granted))
	}
	for end := granted.Add(e.keep * 5 / 2); e.timely() && time.Now().Before(end); e.pass(e.keep / 20) {
		tried()
	}
	for len(h.locks) > 0 {
		h.unlock("of what was renewed")
	}
	e.freeFor(rival, k.key(key), k.whole, time.Second, "after the Unlock")
}

// prolonged renews a short lease by a long one, and sees it outlive the short one's end.
func (e *env) prolonged(rival driver.Locker, ttl time.Duration) (early bool) {
	l, key, r := e.open(), e.key("prolonged "+ttl.String()), e.req(ttl)
	start := time.Now()
	g := e.take(l, key, r)
	r.TTL = e.long
	_, err := l.Renew(e.within(soon), key, r)
	if errors.Is(err, driver.ErrNotHeld) && time.Since(start) >= g.TTL {
		return true
	}
	e.noError(err, "Renew of a live hold")
	e.passUntil(start.Add(e.lapse(g.TTL)))
	e.refused(rival, key, "after the end of a lease that was renewed")
	e.renew(l, key, r, "Renew after the end of a lease that was renewed")
	e.end(l, key, r.ID, "Unlock of a hold that was renewed")
	return false
}

func renewalRetried(e *env) {
	key := e.key("k")
	b, in := e.injected()
	l := e.lock(e.clientOn(b), key, coord.TTL(e.keep))
	var failures atomic.Int32
	in.Script(func(c Call) Fault {
		if (c.Op == "Renew" || c.Op == "RenewAll") && failures.Add(1) <= 3 {
			return FailBefore
		}
		return NoFault
	})
	first := l.Deadline()
	e.until(l.TTL(), "a renewal to succeed after three failed", func() bool {
		return l.Err() != nil || l.Deadline().After(first)
	})
	e.noError(l.Err(), "Err while renewals fail and the lease lasts")
	if n := failures.Load(); n < 4 {
		e.Errorf("renewals: saw %d, want three that failed and one that did not", n)
	}
	e.gaveBack(l.Unlock(e.ctx), "Unlock")
}

func connectionReset(e *env) {
	const resets = 3
	key := e.key("k")
	b, link := byNetwork(e)
	c := e.clientOn(b)
	l := e.lock(c, key, coord.TTL(e.long))
	rival := e.open()
	for i := range resets {
		link.Reset()
		// It is connected again when it serves another call. One that meets the break may fail.
		other := e.key(fmt.Sprint("other ", i))
		e.until(soon, "the client to be connected again", func() bool {
			l, err := c.TryLock(e.within(soon), other, coord.TTL(e.long))
			if err == nil {
				err = l.Unlock(e.ctx)
			} else if errors.Is(err, coord.ErrLocked) {
				other += "'" // what the call before has left is cleared up
			}
			return err == nil
		})
		e.noError(l.Err(), "Err of a lock whose connections break now and then")
		e.refused(rival, key, "while the holder's connections break now and then")
	}
	e.gaveBack(l.Unlock(e.ctx), "Unlock")
	e.free(rival, key, time.Second, "after the Unlock")
}

func maxHold(e *env) {
	key, most := e.key("k"), 300*time.Millisecond
	start := time.Now()
	l := e.lock(e.client(), key, coord.TTL(e.long), coord.MaxHold(most))
	granted := time.Now()
	recv(e, l.Done(), most+time.Second, "Done at MaxHold")
	at := time.Now()
	if took := at.Sub(start); took < most || e.timely() && at.Sub(granted) > most {
		e.Errorf("MaxHold of %v: saw the hold end after %v", most, took)
	}
	e.wantError(l.Err(), "Err after MaxHold", coord.ErrMaxHold, coord.ErrLost)
	e.free(e.open(), key, 2*time.Second, "after MaxHold")
	e.wantError(l.Unlock(e.ctx), "Unlock after MaxHold", coord.ErrMaxHold)
}

func renewNeverRevives(e *env) {
	l, key, ttl := e.open(), e.key("k"), e.round(50*time.Millisecond)
	never := e.req(e.long)
	e.notRenewed(l, key, never, "Renew of a key that nobody holds")
	r := e.req(ttl)
	e.take(l, key, r) // at once: Renew has taken nothing
	e.free(l, key, e.lapse(ttl), "whose holder has let its lease lapse")
	r.TTL = e.long
	e.notRenewed(l, key, r, "Renew of a lease that has lapsed")
	e.free(e.open(), key, 0, "after the Renew of a lease that has lapsed")
	r = e.req(e.long)
	e.take(l, key, r)
	e.end(l, key, r.ID, "Unlock")
	e.notRenewed(l, key, r, "Renew after Unlock")
	e.free(e.open(), key, 0, "after the Renew of what was unlocked")
	e.lapsedIsOver(l, e.key("lapsed"), ttl)
	if e.info.Claims.Has(driver.MinHoldAfterExit) {
		e.keptIsOver(l, e.key("kept"))
	}
}

// lapsedIsOver renews a hold that has lapsed, and which nobody has asked for since.
func (e *env) lapsedIsOver(l driver.Locker, key string, ttl time.Duration) {
	r := e.req(ttl)
	g := e.take(l, key, r)
	e.pass(e.lapse(g.TTL))
	r.TTL = e.long
	e.notRenewed(l, key, r, "Renew of a lease that has lapsed, nobody having asked for the key since")
	e.free(e.open(), key, 0, "after the Renew of a lease that has lapsed, nobody having asked for the key since")
}

// keptIsOver renews a hold that was given up, while the store keeps its key taken.
func (e *env) keptIsOver(l driver.Locker, key string) {
	r := e.req(e.long)
	e.take(l, key, r)
	e.noError(l.UnlockAfter(e.within(soon), key, r.ID, e.keep), "UnlockAfter")
	e.notRenewed(l, key, r, "Renew after UnlockAfter, the key being kept taken")
	e.wantError(l.Unlock(e.within(soon), key, r.ID), "Unlock after UnlockAfter, the key being kept taken", driver.ErrNotHeld)
	e.refused(e.open(), key, "which is kept taken after UnlockAfter")
}

func renewNeverShortens(e *env) {
	e.growing(600*time.Millisecond, renewedShorter)
}

func renewedShorter(e *env, ttl time.Duration) (early bool) {
	l, key, short := e.open(), e.key("k"+ttl.String()), e.round(ttl/3)
	r := e.req(ttl)
	start := time.Now()
	g := e.take(l, key, r)
	promised := start.Add(g.TTL)
	r.TTL = short
	renewal, err := l.Renew(e.within(soon), key, r)
	again, tried := l.TryLock(e.within(soon), key, r)
	if !time.Now().Before(promised) {
		return true
	}
	e.noError(err, "Renew with a shorter TTL")
	if err := tried; err != nil || again.Token != g.Token || renewal.Token != g.Token {
		e.Errorf("TryLock by the holder with a shorter TTL: saw token %d, error %v, want the hold's %d", again.Token, err, g.Token)
	}
	rival := e.open()
	// A store whose lease is a session grants the session's time, and frees a hold that
	// is not renewed when what was asked for is over.
	_, at := e.seize(rival, key, e.req(short), e.lapse(max(g.TTL, 3*short)), "after a renewal with a shorter TTL")
	if early := promised.Sub(at); early > margin(g.TTL) {
		e.Errorf("a rival was granted %v before the end of the lease first promised: want the shorter renewal to leave it", early)
	}
	return false
}

func noLateRenewal(e *env) {
	b, in := e.injected()
	c, key, ttl := e.clientOn(b), e.key("k"), e.round(300*time.Millisecond)
	for range 12 {
		l := e.lock(c, key, coord.TTL(ttl))
		e.randMu.Lock()
		jitter := time.Duration(e.rand.Int64N(int64(10 * time.Millisecond)))
		e.randMu.Unlock()
		e.pass(ttl/3 - 5*time.Millisecond + jitter)
		if err := l.Unlock(e.ctx); err != nil && !errors.Is(err, coord.ErrLost) {
			e.Errorf("Unlock while a renewal is due: saw %v, want nil", err)
		}
	}
	ended := make(map[string]time.Time)
	for _, call := range in.Calls() {
		switch call.Op {
		case "Unlock":
			ended[call.ID] = call.At
		case "Renew":
			if at, ok := ended[call.ID]; ok && call.At.After(at) {
				e.Errorf("Renew of a hold %v after its Unlock was sent: want none", call.At.Sub(at))
			}
		}
	}
}
