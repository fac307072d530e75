package conformance

import (
	"errors"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

func leaseCases() []Case {
	return []Case{
		{
			ID: "LOCK-70", Name: "impossible-ttl-is-refused", Clause: "L9", run: badTTL,
			Why:    "a TTL of zero means for ever on some stores and at once on others",
			Remedy: "state MaxTTL truly in Info: the client refuses what is above",
		}, {
			ID: "LOCK-71", Name: "tiny-ttl-is-rounded-up-and-ends", Clause: "L9", run: tinyTTL,
			Why:    "half a second cut to whole seconds is zero, and zero never expires (ShedLock on memcached)",
			Remedy: "round a TTL up to the store's step, never down to zero, which many stores take for no end",
		}, {
			ID: "LOCK-72", Name: "lease-lasts-what-was-granted", Clause: "L9", run: leaseLasts,
			Why:    "a store that counts whole seconds drops a one-second lease after a few milliseconds (memcached)",
			Remedy: "tell in Grant.TTL what the store granted, rounded down, and ask the store for no less",
		}, {
			ID: "LOCK-73", Name: "each-hold-has-its-own-ttl", Clause: "L9", run: ownTTL, Proves: driver.PerHoldTTL,
			Why:    "on a store with sessions a short lease lasts as long as the session",
			Remedy: "give each hold a lease of its own, or do not claim per-hold-ttl",
		}, {
			ID: "LOCK-74", Name: "min-hold-keeps-the-key", Clause: "L9", run: minHold,
			Why:    "a job that is done in a millisecond runs again on the node whose clock is late (ShedLock's lockAtLeastFor)",
			Remedy: "let UnlockAfter keep the key until that moment and no longer, by the store's clock",
		}, {
			ID: "LOCK-75", Name: "min-hold-outlives-the-process", Clause: "L9", run: minHoldAfterExit,
			Proves: driver.MinHoldAfterExit, Hooks: []Hook{HookWorker},
			Why:    "a scheduled job exits as soon as it is done: who keeps its key then?",
			Remedy: "let the store end the hold by a lease that it counts itself, or do not claim min-hold-after-exit",
		}, {
			ID: "LOCK-76", Name: "a-lease-begins-with-its-grant", Clause: "L9", run: wholeLease,
			Why:    "where holds share a lease, a lock that is not renewed ends with what another lock has left of it",
			Remedy: "begin the lease with the grant where Request.Whole asks for it",
		}, {
			ID: "LOCK-359", Name: "a-hold-outlives-its-backend", Clause: "L9", run: holdAfterClose, Needs: driver.Claims{driver.PerHoldTTL},
			Why:    "coord keeps the overrides of limits in holds that nobody renews: they would end with the command that made them",
			Remedy: "let Close end nothing that nobody has given back, or do not claim per-hold-ttl",
		},
	}
}

// holdAfterClose: Close of a backend gives back no hold: its lease ends it.
func holdAfterClose(e *env) {
	other, key := e.open(), e.key("k")
	b := e.open()
	r := e.req(e.long)
	r.Whole = true
	e.take(b, key, r)
	share := e.share(reader, e.long)
	share.Whole = true
	if e.info.Claims.Has(driver.Shared) {
		_, err := b.Shared().TryLock(e.within(soon), key, share)
		e.noError(err, "TryLock of a reader")
	}
	e.noError(b.Close(), "Close of the backend")
	_, err := other.TryLock(e.within(soon), key, e.req(e.long))
	e.wantError(err, "TryLock of what a backend held that is closed", driver.ErrLocked)
	if e.info.Claims.Has(driver.Shared) {
		_, err := other.Shared().TryLock(e.within(soon), key, e.share(writer, e.long))
		e.wantError(err, "TryLock of a writer beside a reader whose backend is closed", driver.ErrLocked)
		e.noError(other.Shared().Unlock(e.within(soon), key, share.ID), "Unlock of the reader by another backend")
	}
	e.end(other, key, r.ID, "Unlock by another backend")
}

func badTTL(e *env) {
	c, l, key := e.client(), e.open(), e.key("k")
	for _, ttl := range []time.Duration{0, -1, -time.Hour} {
		_, err := c.TryLock(e.ctx, key, coord.TTL(ttl))
		e.wantError(err, "TryLock with TTL "+ttl.String(), coord.ErrInvalid)
		// The core never asks a driver for it. One that is asked may do anything but hold for ever.
		if _, err = l.TryLock(e.within(soon), key, driver.Request{ID: e.newID(), TTL: ttl}); err == nil {
			e.free(l, key, e.lapse(e.round(time.Nanosecond)), "granted for a TTL of "+ttl.String())
		}
	}
	if most := e.info.MaxTTL; most > 0 {
		_, err := c.TryLock(e.ctx, key, coord.TTL(most+1))
		e.wantError(err, "TryLock with a TTL above Info.MaxTTL", coord.ErrInvalid)
		r := e.req(most)
		e.take(l, key, r)
		e.end(l, key, r.ID, "Unlock of a lease of Info.MaxTTL")
	}
	e.free(l, key, 0, "after attempts with impossible TTLs")
}

func tinyTTL(e *env) {
	c, key := e.client(), e.key("k")
	start := time.Now()
	l, err := c.Lock(e.within(soon), key, coord.TTL(max(e.info.MinTTL, 10*time.Millisecond)+time.Nanosecond), coord.NoRenew())
	if err != nil {
		// A lease so short may end before its reply is here. It must end all the same.
		e.wantError(err, "Lock with a tiny TTL", coord.ErrUnavailable)
		e.free(e.open(), key, e.lapse(e.round(time.Nanosecond)), "after a Lock with a tiny TTL")
		return
	}
	ttl := l.TTL()
	if step := e.info.TTLStep; ttl < e.info.MinTTL || step > 0 && e.info.Claims.Has(driver.PerHoldTTL) && ttl%step != 0 {
		e.Errorf("TTL of a lock that asked for hardly any: saw %v, want at least %v in steps of %v", ttl, e.info.MinTTL, step)
	}
	_, at := e.free(e.open(), key, e.lapse(ttl), "after a tiny TTL: want it to end, never to last for ever")
	if took := at.Sub(start); took < ttl-margin(ttl) {
		e.Errorf("a lease reported as %v: saw the key free after %v", ttl, took)
	}
}

func leaseLasts(e *env) { e.lasts(e.open(), e.open(), e.key("k"), "") }

// lasts lets the lease of a holder lapse, and has a rival take its key: no earlier than was granted, nor much later.
func (e *env) lasts(holder, rival driver.Locker, key, whose string) (r driver.Request, first, next driver.Grant) {
	sent := time.Now()
	first = e.take(holder, key, e.req(e.ttl))
	if first.TTL < e.ttl && e.info.Claims.Has(driver.PerHoldTTL) {
		e.Errorf("granted TTL%s: saw %v, want at least the %v asked for", whose, first.TTL, e.ttl)
	}
	since := sent
	if !first.Since.IsZero() {
		since = first.Since
	}
	r = e.req(e.long)
	next, at := e.seize(rival, key, r, e.lapse(first.TTL), "with a lease that is not renewed"+whose)
	if early := since.Add(first.TTL).Sub(at); early > margin(first.TTL) {
		e.Errorf("a lease of %v%s: saw a rival granted %v before its end", first.TTL, whose, early)
	}
	return r, first, next
}

func ownTTL(e *env) {
	l, short, long := e.open(), e.req(e.ttl), e.req(e.long)
	a, b := e.key("short"), e.key("long")
	for _, hold := range []driver.Hold{{Key: b, Request: long}, {Key: a, Request: short}} {
		if g := e.take(l, hold.Key, hold.Request); g.TTL < hold.TTL {
			e.Errorf("TryLock for %v: saw a lease of %v, want what was asked for", hold.TTL, g.TTL)
		}
	}
	e.free(e.open(), a, e.lapse(short.TTL), "of the short lease")
	e.refused(e.open(), b, "of the long lease, after the short one has lapsed")
	e.end(l, b, long.ID, "Unlock of the long lease")
}

func minHold(e *env) {
	c, key, least := e.client(), e.key("k"), e.ttl
	asked := time.Now()
	l := e.lock(c, key, coord.TTL(e.long), coord.MinHold(least))
	granted := time.Now()
	e.gaveBack(l.Unlock(e.ctx), "Unlock before MinHold")
	e.inTime(granted, prompt, "Unlock before MinHold of "+least.String())
	e.wantError(l.Err(), "Err after Unlock", coord.ErrNotHeld)
	e.keptFor(key, least, asked, least, "")
	// Work that takes longer than MinHold is not held up.
	l = e.lock(c, key, coord.TTL(e.long), coord.MinHold(10*time.Millisecond))
	e.pass(20 * time.Millisecond)
	e.gaveBack(l.Unlock(e.ctx), "Unlock after MinHold")
	e.free(e.open(), key, 0, "unlocked after its MinHold")
}

// wholeLease takes locks that nobody renews some time after another of the same TTL, at once and
// after a wait.
func wholeLease(e *env) { e.growing(2*e.ttl, wholeLeaseOf) }

func wholeLeaseOf(e *env, ttl time.Duration) (early bool) {
	b, in := e.injected()
	c := e.clientOn(b)
	whole := func(l *coord.Lock, what string, asked time.Time) {
		t := l.TTL()
		slack := time.Millisecond
		if !e.timely() {
			slack = t / 8 // what was on its way when it was asked for; a lease that is shared is a quarter of the TTL old
		}
		switch left := l.Deadline().Sub(asked); {
		case left >= t-margin(t)-slack:
		case !e.timely() && t < watchdog: // what a machine held up is less of a longer lease; what is shared, is not
			early = true
		default:
			e.Errorf("%s, of TTL %v: saw it certain for %v from when it was granted, want all of it", what, t, left)
		}
		if err := l.Unlock(e.ctx); errors.Is(err, coord.ErrLost) {
			early = true
		} else {
			e.gaveBack(err, "Unlock")
		}
	}
	e.gaveBack(e.lock(c, e.key("before"+ttl.String()), coord.TTL(e.long)).Unlock(e.ctx), "Unlock")
	e.pass(ttl / 4)
	key, asked := e.key("k"+ttl.String()), time.Now()
	whole(e.lock(c, key, coord.TTL(ttl), coord.NoRenew()), "a lock that is not renewed", asked)
	e.pass(ttl / 4)
	asked = time.Now()
	whole(e.lock(c, key, coord.TTL(ttl), coord.MinHold(time.Millisecond)), "a lock with MinHold", asked)

	first := e.lock(e.client(), key, coord.TTL(ttl))
	got := make(chan *coord.Lock, 1)
	waits := async(func() error {
		l, err := c.Lock(e.within(soon), key, coord.TTL(ttl), coord.NoRenew())
		got <- l
		return err
	})
	e.pass(ttl / 4)
	asked = time.Now()
	unlocked := first.Unlock(e.ctx)
	if waited := recv(e, waits, soon, "Lock behind a holder that unlocks"); waited != nil {
		if !e.timely() && errors.Is(waited, coord.ErrUnavailable) { // its grant was seen too late
			return true
		}
		e.Fatalf("Lock behind a holder that unlocks: saw %v, want a lock", waited)
	}
	if errors.Is(unlocked, coord.ErrLost) {
		return true
	}
	e.gaveBack(unlocked, "Unlock of the holder")
	if calls := in.Calls(); calls[len(calls)-1].Op == "TryLock" && in.last("TryLock").Before(asked) {
		asked = in.last("TryLock") // it was under way when the holder unlocked, and its grant begins with it
	}
	whole(<-got, "a lock that was waited for", asked)
	return early
}

func minHoldAfterExit(e *env) {
	w, key, least := e.startWorker(), e.key("k"), 2*e.ttl
	asked := time.Now()
	w.do(order{Do: "lock", Key: key, TTL: e.ttl, MinHold: least})
	w.do(order{Do: "unlock"})
	w.leave()
	e.keptFor(key, least, asked, least+e.ttl, ", its process being gone")
}

// keptFor fails the case if key, whose Lock was called then, is free before its MinHold is over, or long after most.
func (e *env) keptFor(key string, least time.Duration, asked time.Time, most time.Duration, when string) {
	_, at := e.free(e.open(), key, e.lapse(most), "after MinHold"+when)
	if took := at.Sub(asked); took < least-margin(least) {
		e.Errorf("MinHold of %v%s: saw the key free %v after Lock was called", least, when, took)
	}
}
