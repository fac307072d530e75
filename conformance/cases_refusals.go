package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

func refusalCases() []Case {
	return []Case{
		{
			ID: "LOCK-231", Name: "store-that-refuses-grants-keeps-what-it-granted", Clause: "L4", run: storeRefuses, Hooks: []Hook{HookRefuse}, bound: time.Minute,
			Why:    "a store that is full, or may only be read, refuses new locks for a while; the locks that are held must outlive that (etcd's NOSPACE alarm lost 20 of 20 holds)",
			Remedy: "keep renewals and releases apart from grants, so that a refused grant spoils nothing, and let them need no new space",
		}, {
			ID: "LOCK-232", Name: "each-kind-of-call-refused-for-a-while-loses-nothing", Clause: "L6", run: callsRefused(lockOps),
			Why:    "a store may refuse one kind of call by a quota or a permission, and serve all others",
			Remedy: "mark an error that says that nothing was changed with driver.ErrNotSent, and never make ErrLocked or ErrNotHeld of it",
		}, {
			ID: "LIMIT-231", Name: "store-that-refuses-writes-keeps-the-bound", Clause: "R9", run: storeRefusesPermits, Hooks: []Hook{HookRefuse},
			Why:    "a limiter on a store that is full must say that it cannot decide, and must not admit without counting",
			Remedy: "return the store's error when a debit is refused, never a grant or a denial",
		}, {
			ID: "LIMIT-232", Name: "each-kind-of-call-on-limits-refused-for-a-while-loses-nothing", Clause: "R9", run: callsRefused(limitOps),
			Why:    "a store may refuse one kind of call by a quota or a permission, and serve all others",
			Remedy: "return the store's error, marked with driver.ErrNotSent if nothing was changed",
		},
	}
}

// lockOps and limitOps are the methods of a driver that package coord calls.
var (
	lockOps  = []string{"TryLock", "Lock", "Renew", "Unlock", "UnlockAfter", "Inspect", "Break", "Ping"}
	limitOps = []string{"Take", "TakeAll", "Refund", "Reset"}
)

// refusalLease is of holds that are to outlive a refusal. A busy machine does not lose it.
const refusalLease = 3 * time.Second

// fairlyRefused fails the case unless err says that the store did not serve the call, and nothing else.
func (e *env) fairlyRefused(op string, err error) {
	if !e.wantError(err, op+", refused", coord.ErrUnavailable) {
		return
	}
	for _, wrong := range []error{coord.ErrLocked, coord.ErrNotHeld, coord.ErrLimited, coord.ErrClosed, coord.ErrCorrupt} {
		if errors.Is(err, wrong) {
			e.Errorf("%s, refused: saw error %v, which is also %q: want none that speaks of a holder or a limit", op, err, wrong)
		}
	}
}

// holders are locks that are held while a store refuses something.
type holders struct {
	*env
	c     *coord.Client
	locks []*coord.Lock
	start time.Time
}

func (e *env) holdersOf(c *coord.Client, name string, n int) *holders {
	h := &holders{env: e, c: c, start: time.Now()}
	for i := range n {
		h.locks = append(h.locks, e.lock(c, e.key(fmt.Sprint(name, " ", i)), coord.TTL(e.round(refusalLease))))
	}
	return h
}

// live fails the case if a hold was lost, and not by the machine.
func (h *holders) live(when string) {
	for _, l := range h.locks {
		if err := l.Err(); err != nil && !h.overworked(h.start, l.TTL()) {
			h.Errorf("a lock that was held before, %s: saw %v, want it held", when, err)
		}
	}
}

// unlock gives the first hold back, and forgets it.
func (h *holders) unlock(when string) {
	l := h.locks[0]
	h.locks = h.locks[1:]
	if err := l.Unlock(h.ctx); err != nil && (!errors.Is(err, coord.ErrLost) || !h.overworked(h.start, l.TTL())) {
		h.Errorf("Unlock %s: saw %v, want nil", when, err)
	}
}

// storeRefuses takes locks, has the store refuse new ones for longer than their leases, and looks after them.
func storeRefuses(e *env) {
	faults := e.r.suite.Harness.Faults
	h := e.holdersOf(e.client(), "held", 10)
	rival := e.client()
	faults.Refuse(e)
	accept := sync.OnceFunc(func() { faults.Accept(e) })
	e.Cleanup(accept)
	refused := 0
	for until := time.Now().Add(h.locks[0].TTL() * 3 / 2); time.Now().Before(until); e.pass(50 * time.Millisecond) {
		l, err := h.c.TryLock(e.within(soon), e.key("fresh"), coord.TTL(e.ttl))
		if err == nil {
			e.noError(l.Unlock(e.ctx), "Unlock of a lock that was granted all the same")
			continue
		}
		refused++
		e.fairlyRefused("TryLock of a free key", err)
	}
	if refused == 0 {
		e.Errorf("TryLock while Faults.Refuse is in force: saw only grants, want refusals: the hook does nothing")
	}
	e.count("refused grants", refused)
	h.live("while the store refuses new ones")
	if _, err := rival.TryLock(e.within(soon), h.locks[0].Key()); err == nil {
		e.Errorf("TryLock of a held key while the store refuses new locks: saw a grant")
	}
	h.unlock("while the store refuses new locks")
	accept()
	h.live("after the store refused new ones")
	for _, key := range []string{e.key("fresh"), e.key("held 0")} {
		e.noError(e.lock(rival, key, coord.TTL(e.long)).Unlock(e.ctx), "Unlock after the store refused new locks")
	}
	for len(h.locks) > 0 {
		h.unlock("after the store refused new locks")
	}
}

// storeRefusesPermits asks for permits while the store refuses what would use more space.
func storeRefusesPermits(e *env) {
	const rate = 5
	faults := e.r.suite.Harness.Faults
	c, limit, granted := e.client(), coord.Per(rate, year), 0
	ask := func(key string) error {
		r, err := c.Allow(e.within(soon), key, limit)
		if r.Allowed {
			granted++
		}
		return err
	}
	e.noError(ask(e.key("old")), "Allow before the refusal")
	faults.Refuse(e)
	accept := sync.OnceFunc(func() { faults.Accept(e) })
	e.Cleanup(accept)
	for i := range 10 {
		if err := ask(e.key("old")); err != nil {
			e.fairlyRefused("Allow of a known limit", err)
		}
		r, err := c.Allow(e.within(soon), e.key(fmt.Sprint("new ", i)), limit)
		switch {
		case err != nil:
			e.fairlyRefused("Allow of a new limit", err)
		case !r.Allowed:
			e.Errorf("Allow of a new limit while the store refuses: saw it denied, want a permit or ErrUnavailable")
		}
	}
	accept()
	for range 2 * rate {
		e.noError(ask(e.key("old")), "Allow after the refusal")
	}
	if granted > rate {
		e.Errorf("permits granted before, during and after the refusal: saw %d, want at most %d", granted, rate)
		e.count(overBound, granted-rate)
	}
	r, err := c.Allow(e.within(soon), e.key("fresh"), limit)
	e.noError(err, "Allow of a new limit after the refusal")
	if !r.Allowed {
		e.Errorf("Allow of a new limit after the refusal: saw it denied")
	}
}

// callsRefused has one kind of call refused at a time, each for a while.
func callsRefused(ops []string) func(*env) {
	return func(e *env) {
		var wg sync.WaitGroup
		for _, op := range ops {
			wg.Go(func() { e.scopeOf(op+" refused", func(e *env) { callRefused(e, op) }) })
		}
		wg.Wait()
	}
}

// callRefused uses a client whose calls of op the store refuses, and then another time without that.
func callRefused(e *env, op string) {
	b, in := e.injected()
	c := e.clientOn(b)
	var h *holders
	taken := e.key("taken " + op)
	if e.r.locks {
		h = e.holdersOf(c, "held "+op, 2)
		e.take(e.locker(), taken, e.req(e.long))
	}
	var refused atomic.Int64
	in.Script(func(call Call) Fault {
		if call.Op == op || call.Op == op+"All" && op == "Renew" {
			refused.Add(1)
			return Refuse
		}
		return NoFault
	})
	// Longer than a third of the lease, which is the session's on some stores. Of renewals one is refused: what
	// is left of the lease after it may be little more than a third.
	lease := e.round(refusalLease)
	if h != nil {
		lease = h.locks[0].TTL()
	}
	enough := func() bool { return op == "Renew" && refused.Load() > 0 }
	for until := time.Now().Add(lease / 2); time.Now().Before(until) && !enough(); e.pass(min(100*time.Millisecond, lease/20)) {
		useAll(e, c, op, func(what string, err error) {
			if err != nil && !errors.Is(err, coord.ErrLocked) {
				e.fairlyRefused(what, err)
			}
		})
		if h == nil {
			continue
		}
		if _, err := c.Lock(e.within(soon), taken, coord.WaitAtMost(20*time.Millisecond)); !errors.Is(err, coord.ErrLocked) {
			e.fairlyRefused("Lock of a key that another client holds", err)
		}
	}
	in.Script(nil)
	// What could not be given back is, in the background, within the lease at most.
	if h != nil {
		h.live("after " + op + " was refused")
		for _, l := range h.locks {
			e.noError(l.Unlock(e.ctx), "Unlock after the refusal")
		}
		e.free(e.locker(), e.key("fresh "+op), e.lapse(e.ttl), "after the refusal")
	}
	useAll(e, c, op, func(what string, err error) { e.noError(err, what+" after the refusal") })
}

// useAll makes one call of every kind, and hands on how each went.
func useAll(e *env, c *coord.Client, op string, told func(what string, err error)) {
	ctx := e.within(soon)
	if e.r.locks {
		useLocks(ctx, e, c, op, told)
	}
	if e.r.limits {
		useLimits(ctx, e, c, op, told)
	}
	told("Ping", c.Ping(ctx))
}

func useLocks(ctx context.Context, e *env, c *coord.Client, op string, told func(what string, err error)) {
	key := e.key("fresh " + op)
	l, err := c.TryLock(ctx, key, coord.TTL(e.ttl))
	told("TryLock", err)
	if err == nil {
		_, err := c.TryLock(ctx, key, coord.TTL(e.ttl))
		e.wantError(err, "TryLock of a held key", coord.ErrLocked)
		if c.Info().Claims.Has(driver.Inspect) {
			_, err := c.Inspect(ctx, key)
			told("Inspect", err)
		}
		told("Unlock", l.Unlock(ctx))
	}
	kept, err := c.TryLock(ctx, e.key("kept "+op+e.newID()), coord.TTL(e.ttl), coord.MinHold(time.Millisecond))
	told("TryLock with MinHold", err)
	if err == nil {
		told("Unlock with MinHold", kept.Unlock(ctx))
	}
	if c.Info().Claims.Has(driver.Break) {
		err := c.Break(ctx, key, e.newID())
		if errors.Is(err, coord.ErrNotHeld) {
			err = nil
		}
		told("Break", err)
	}
}

func useLimits(ctx context.Context, e *env, c *coord.Client, op string, told func(what string, err error)) {
	limit, bucket := coord.PerSecond(1_000_000), coord.Limit{Rate: 1_000_000, Per: time.Second, Burst: 1_000_000}
	_, err := c.Allow(ctx, e.key("limit "+op), limit)
	told("Allow", err)
	_, err = c.Peek(ctx, e.key("limit "+op), limit)
	told("Peek", err)
	told("Wait", c.Wait(ctx, e.key("limit "+op), bucket))
	told("Reset", c.Reset(ctx, e.key("limit "+op), limit))
	if c.Info().Claims.Has(driver.AtomicMulti) {
		_, err = c.AllowAll(ctx, coord.Demand{Key: e.key("a " + op), Limit: limit, N: 1}, coord.Demand{Key: e.key("b " + op), Limit: limit, N: 1})
		told("AllowAll", err)
	}
}
