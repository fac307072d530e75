package conformance

import (
	"errors"
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
			ID: "LOCK-26", Name: "no-renewal-after-unlock", Clause: "L4", run: noLateRenewal,
			Why:    "a watchdog that outlives the unlock keeps a free key taken (redisson#7272)",
			Remedy: "run no renewal in the adapter: the client renews",
		},
	}
}

func renewed(e *env) {
	ttl, key := e.round(2*e.ttl), e.key("k")
	start := time.Now()
	l := e.lock(e.client(), key, coord.TTL(ttl))
	rival, first := e.locker(), l.Deadline()
	for end := time.Now().Add(ttl * 5 / 2); time.Now().Before(end); e.pass(ttl / 20) {
		_, tried := rival.TryLock(e.within(soon), key, e.req(e.ttl))
		if err := l.Err(); err != nil { // asked after the rival: without a loss there is no grant, however late everything is
			if e.overworked(start, ttl) {
				return
			}
			e.noError(err, "Err of a lock that is renewed")
		}
		if !e.wantError(tried, "TryLock by another id while the lock is renewed", driver.ErrLocked) {
			return
		}
	}
	if !l.Deadline().After(first) {
		e.Errorf("Deadline after several renewals: saw it where it was, want it later")
	}
	if err := l.Unlock(e.ctx); err != nil && !e.overworked(start, ttl) {
		e.Errorf("Unlock: saw %v, want nil", err)
	}
	e.free(rival, key, time.Second, "after the Unlock")
}

func renewalRetried(e *env) {
	ttl, key := e.round(2*e.ttl), e.key("k")
	b, in := e.injected()
	l := e.lock(e.clientOn(b), key, coord.TTL(ttl))
	var failures atomic.Int32
	in.Script(func(c Call) Fault {
		if (c.Op == "Renew" || c.Op == "RenewAll") && failures.Add(1) <= 3 {
			return FailBefore
		}
		return NoFault
	})
	first, start := l.Deadline(), time.Now()
	e.until(3*ttl, "a renewal to succeed after three failed", func() bool {
		return l.Err() != nil || l.Deadline().After(first)
	})
	if err := l.Err(); err != nil {
		if e.overworked(start, ttl/2) { // three failures have used up the rest
			return
		}
		e.noError(err, "Err while renewals fail and the lease lasts")
	}
	if n := failures.Load(); n < 4 {
		e.Errorf("renewals: saw %d, want three that failed and one that did not", n)
	}
	e.noError(l.Unlock(e.ctx), "Unlock")
}

func connectionReset(e *env) {
	ttl, key := e.round(10*e.ttl), e.key("k") // time for a slow store to be connected to again, on a busy machine
	b, link := byNetwork(e)
	l := e.lock(e.clientOn(b), key, coord.TTL(ttl))
	rival, start := e.locker(), time.Now()
	for time.Since(start) < 3*ttl/2 {
		link.Reset()
		e.pass(ttl / 5)
		if err := l.Err(); err != nil {
			if !e.overworked(start, ttl) {
				e.noError(err, "Err of a lock whose connections break now and then")
			}
			return
		}
		e.refused(rival, key, "while the holder's connections break now and then")
	}
	if err := l.Unlock(e.ctx); err != nil && !e.overworked(start, ttl) {
		e.noError(err, "Unlock")
	}
	e.free(rival, key, time.Second, "after the Unlock")
}

func maxHold(e *env) {
	key, most := e.key("k"), 300*time.Millisecond
	start := time.Now()
	l := e.lock(e.client(), key, coord.TTL(e.long), coord.MaxHold(most))
	at := recv(e, watchLoss(l), most+time.Second, "Done at MaxHold")
	if took := at.Sub(start); took < most {
		e.Errorf("MaxHold of %v: saw the hold end after %v", most, took)
	}
	e.wantError(l.Err(), "Err after MaxHold", coord.ErrMaxHold, coord.ErrLost)
	e.free(e.locker(), key, 2*time.Second, "after MaxHold")
	e.wantError(l.Unlock(e.ctx), "Unlock after MaxHold", coord.ErrMaxHold)
}

func renewNeverRevives(e *env) {
	l, key, ttl := e.locker(), e.key("k"), e.round(50*time.Millisecond)
	never := e.req(e.long)
	_, err := l.Renew(e.within(soon), key, never)
	e.wantError(err, "Renew of a key that nobody holds", driver.ErrNotHeld)
	r := e.req(ttl)
	e.take(l, key, r) // at once: Renew has taken nothing
	e.free(l, key, e.lapse(ttl), "whose holder has let its lease lapse")
	r.TTL = e.long
	_, err = l.Renew(e.within(soon), key, r)
	e.wantError(err, "Renew of a lease that has lapsed", driver.ErrNotHeld)
	e.free(e.locker(), key, 0, "after the Renew of a lease that has lapsed")
	r = e.req(e.long)
	e.take(l, key, r)
	e.noError(l.Unlock(e.within(soon), key, r.ID), "Unlock")
	_, err = l.Renew(e.within(soon), key, r)
	e.wantError(err, "Renew after Unlock", driver.ErrNotHeld)
	e.free(e.locker(), key, 0, "after the Renew of what was unlocked")
}

func renewNeverShortens(e *env) {
	l, key, short := e.locker(), e.key("k"), e.round(200*time.Millisecond)
	r := e.req(e.round(3 * short))
	start := time.Now()
	g := e.take(l, key, r)
	promised := start.Add(g.TTL)
	r.TTL = short
	renewal, err := l.Renew(e.within(soon), key, r)
	again, tried := l.TryLock(e.within(soon), key, r)
	if !time.Now().Before(promised) {
		e.notJudged("the machine was too slow for a lease of %v", g.TTL)
		return
	}
	e.noError(err, "Renew with a shorter TTL")
	if err := tried; err != nil || again.Token != g.Token || renewal.Token != g.Token {
		e.Errorf("TryLock by the holder with a shorter TTL: saw token %d, error %v, want the hold's %d", again.Token, err, g.Token)
	}
	rival := e.locker()
	// A store whose lease is a session grants the session's time, and frees a hold that
	// is not renewed when what was asked for is over.
	_, at := e.seize(rival, key, e.req(short), e.lapse(max(g.TTL, 3*short)), "after a renewal with a shorter TTL")
	if early := promised.Sub(at); early > margin(g.TTL) {
		e.Violationf("a rival was granted %v before the end of the lease first promised: want the shorter renewal to leave it", early)
	}
}

func noLateRenewal(e *env) {
	b, in := e.injected()
	c, key, ttl := e.clientOn(b), e.key("k"), e.round(300*time.Millisecond)
	start := time.Now()
	for i := 0; i < 20 && time.Since(start) < 4*time.Second; i++ {
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
			at, ok := ended[call.ID]
			if late := call.At.Sub(at); ok && late > 2*time.Millisecond+e.starved(start) {
				e.Errorf("Renew of a hold %v after its Unlock was sent: want none", late)
			}
		}
	}
}
