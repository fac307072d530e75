package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

func refusalCases() []Case {
	return []Case{
		{
			ID: "LOCK-231", Name: "store-that-refuses-grants-keeps-what-it-granted", Clause: "L4", Slow: true, run: storeRefuses, Hooks: []Hook{HookRefuse},
			Why:    "a store that is full, or may only be read, refuses new locks for a while; the locks that are held must outlive that (etcd's NOSPACE alarm lost 20 of 20 holds)",
			Remedy: "keep renewals and releases apart from grants, so that a refused grant spoils nothing, and let them need no new space",
		}, {
			ID: "LOCK-232", Name: "each-kind-of-call-refused-for-a-while-loses-nothing", Clause: "L6", run: callsRefused(lockOps),
			Why:    "a store may refuse one kind of call by a quota or a permission, and serve all others",
			Remedy: "mark an error that says that nothing was changed with driver.ErrNotSent, and never make ErrLocked or ErrNotHeld of it; name a holder by its id, not by its client",
		}, {
			ID: "LOCK-346", Name: "store-that-refuses-grants-keeps-shares", Clause: "SH2", Slow: true, run: storeRefusesShares, Needs: sharing, Hooks: []Hook{HookRefuse},
			Why:    "a full Redis renewed locks, and refused to write the hold of a reader or a permit anew: each was lost after its TTL",
			Remedy: "write first what needs no space, or what the store writes also when it is full, when a share is renewed or ends",
		}, {
			ID: "LIMIT-231", Name: "store-that-refuses-writes-keeps-the-bound", Clause: "R9", run: storeRefusesPermits, Hooks: []Hook{HookRefuse},
			Why:    "a limiter on a store that is full must say that it cannot decide, and must not admit without counting",
			Remedy: "return the store's error when a debit is refused, never a grant or a denial",
		}, {
			ID: "LIMIT-232", Name: "each-kind-of-call-on-limits-refused-for-a-while-loses-nothing", Clause: "R9", run: callsRefused(limitOps),
			Why:    "a store may refuse one kind of call by a quota or a permission, and serve all others",
			Remedy: "return the store's error, marked with driver.ErrNotSent if nothing was changed, and let no call need another one that came before it",
		},
	}
}

// lockOps and limitOps are the methods of a driver that package coord calls.
var (
	lockOps  = []string{"TryLock", "Lock", "Renew", "Unlock", "UnlockAfter", "Inspect", "Break", "Ping"}
	limitOps = []string{"Take", "TakeAll", "Refund", "Reset"}
)

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
	first []time.Time // their deadlines, before they were renewed
}

func (e *env) holdersOf(c *coord.Client, name string, n int) *holders {
	h := &holders{env: e, c: c}
	for i := range n {
		h.hold(c, e.key(fmt.Sprint(name, " ", i)))
	}
	return h
}

// hold takes another lock.
func (h *holders) hold(c coord.Locker, key string) {
	l := h.lock(c, key, coord.TTL(h.keep))
	h.locks, h.first = append(h.locks, l), append(h.first, l.Deadline())
}

// renewed reports whether all were renewed, or lost.
func (h *holders) renewed() bool {
	for i, l := range h.locks {
		if l.Err() == nil && !l.Deadline().After(h.first[i]) {
			return false
		}
	}
	return true
}

// live fails the case if a hold was lost.
func (h *holders) live(when string) {
	for _, l := range h.locks {
		if err := l.Err(); err != nil {
			h.Errorf("a lock that was held before, %s: saw %v, want it held", when, err)
		}
	}
}

// unlock gives the first hold back, and forgets it.
func (h *holders) unlock(when string) {
	l := h.locks[0]
	h.locks = h.locks[1:]
	h.gaveBack(l.Unlock(h.ctx), "Unlock "+when)
}

// refuse has the store refuse what needs more space, until the function that it gives is called or the case is over.
func (e *env) refuse() (accept func()) {
	faults := e.r.suite.Harness.Faults
	faults.Refuse(e)
	accept = sync.OnceFunc(func() { faults.Accept(e) })
	e.Cleanup(accept)
	return accept
}

// outlive has the holders live through a time in which the store refuses, until all were renewed. They call meanwhile
// now and then.
func (h *holders) outlive(meanwhile, after func()) {
	accept := h.refuse()
	for ; !h.renewed(); h.pass(50 * time.Millisecond) {
		meanwhile()
	}
	h.live("while the store refuses new ones")
	h.unlock("while the store refuses new ones")
	accept()
	h.live("after the store refused new ones")
	after()
	for len(h.locks) > 0 {
		h.unlock("after the store refused new ones")
	}
}

// storeRefuses takes locks, has the store refuse new ones until they have been renewed, and looks after them.
func storeRefuses(e *env) {
	h := e.holdersOf(e.client(), "held", 10)
	rival, refused := e.client(), 0
	h.outlive(func() {
		l, err := h.c.TryLock(e.within(soon), e.key("fresh"), coord.TTL(e.ttl))
		if err == nil {
			e.gaveBack(l.Unlock(e.ctx), "Unlock of a lock that was granted all the same")
			return
		}
		refused++
		e.fairlyRefused("TryLock of a free key", err)
		if _, err := rival.TryLock(e.within(soon), h.locks[0].Key()); err == nil {
			e.Errorf("TryLock of a held key while the store refuses new locks: saw a grant")
		}
	}, func() {
		if refused == 0 {
			e.Errorf("TryLock while Faults.Refuse is in force: saw only grants, want refusals: the hook does nothing")
		}
		for _, key := range []string{e.key("fresh"), e.key("held 0")} {
			e.gaveBack(e.lock(rival, key, coord.TTL(e.long)).Unlock(e.ctx), "Unlock after the store refused new locks")
		}
	})
}

// storeRefusesShares is storeRefuses for those who share a key.
func storeRefusesShares(e *env) {
	h := &holders{env: e, c: e.client()}
	rival, key := e.shared(), e.key("k")
	for _, k := range []*kind{permitKind, permitKind, readKind, readKind} {
		h.hold(k.locker(h.c), key)
	}
	h.outlive(func() {}, func() {
		for _, k := range []*kind{permitKind, readKind} {
			e.keptOut(rival, k.key(key), k.barred, "all of a key beside a "+k.name+" that was held while the store refused new ones")
		}
	})
}

// storeRefusesPermits asks for permits while the store refuses what would use more space.
func storeRefusesPermits(e *env) {
	const rate = 5
	c, limit, granted := e.client(), coord.Per(rate, year), 0
	ask := func(key string) error {
		r, err := c.Allow(e.within(soon), key, limit)
		if r.Allowed {
			granted++
		}
		return err
	}
	e.noError(ask(e.key("old")), "Allow before the refusal")
	accept := e.refuse()
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
	}
	e.allows(c, e.key("fresh"), limit, 1, "Allow of a new limit after the refusal")
}

// callsRefused has one kind of call refused at a time, each for a while.
func callsRefused(ops []string) func(*env) {
	return func(e *env) { parts(e, ops, callRefused) }
}

// refusal is a client whose calls of one kind the store refuses, for a while.
type refusal struct {
	*env
	c    *coord.Client
	op   string
	over bool // all calls are served again
}

// told judges the outcome of a call that needs the methods needs of the driver. Only a call that needs the
// refused one may fail.
func (r *refusal) told(what string, err error, needs ...string) {
	switch {
	case err == nil:
	case !r.over && slices.Contains(needs, r.op):
		r.fairlyRefused(what, err)
	case r.over:
		r.Errorf("%s after the refusal: saw %v, want it served", what, err)
	default:
		r.Errorf("%s while only %s is refused: saw %v, want it served", what, r.op, err)
	}
}

// callRefused uses a client whose calls of op the store refuses, and then another time without that.
func callRefused(e *env, op string) {
	b, in := e.injected()
	r := &refusal{env: e, c: e.clientOn(b), op: op}
	taken := e.key("taken " + op)
	var h *holders
	var rival driver.Locker
	other := e.req(e.long)
	if e.r.locks {
		h, rival = e.holdersOf(r.c, "held "+op, 2), e.open()
		e.take(rival, taken, other)
	}
	var refused atomic.Int64
	in.Script(func(call Call) Fault {
		renewal := op == "Renew" && (call.Op == "Renew" || call.Op == "RenewAll")
		if call.Op != op && !renewal || renewal && refused.Load() > 0 {
			return NoFault
		}
		refused.Add(1)
		return Refuse
	})
	// Until the holds are renewed, also with the session that they have on some stores. Of renewals one is refused.
	const rounds = 5
	enough := func(n int) bool {
		return n >= rounds && (h == nil || h.renewed()) || op == "Renew" && refused.Load() > 0
	}
	for n := 0; !enough(n); n++ {
		r.useAll()
		e.pass(100 * time.Millisecond)
		if h == nil {
			continue
		}
		if _, err := r.c.Lock(e.within(soon), taken, coord.WaitAtMost(20*time.Millisecond)); !errors.Is(err, coord.ErrLocked) {
			e.fairlyRefused("Lock of a key that another client holds", err)
		}
	}
	in.Script(nil)
	r.over = true
	// What could not be given back is, in the background, within the lease at most.
	if h != nil {
		h.live("after " + op + " was refused")
		for len(h.locks) > 0 {
			h.unlock("after the refusal")
		}
		e.free(e.open(), e.key("fresh "+op), e.lapse(e.keep), "after the refusal")
		e.end(rival, taken, other.ID, "the other holder's Unlock after the refusal")
	}
	r.useAll()
}

// useAll makes one call of every kind.
func (r *refusal) useAll() {
	ctx := r.within(soon)
	if r.r.locks {
		r.useLocks(ctx)
	}
	if r.r.limits {
		r.useLimits(ctx)
	}
	r.told("Ping", r.c.Ping(ctx), "Ping")
}

func (r *refusal) useLocks(ctx context.Context) {
	key, ttl := r.key("fresh "+r.op), coord.TTL(r.keep)
	sent := time.Now()
	l, err := r.c.TryLock(ctx, key, ttl)
	if !errors.Is(err, coord.ErrLocked) || r.over || r.op != "Unlock" { // the hold before may still be there
		r.told("TryLock", err, "TryLock")
	}
	if err == nil {
		_, err := r.c.TryLock(ctx, key, ttl)
		r.wantError(err, "TryLock of a held key", coord.ErrLocked)
		if r.c.Info().Claims.Has(driver.Inspect) {
			_, err := r.c.Inspect(ctx, key)
			r.told("Inspect", err, "Inspect")
		}
		err = r.unlock(ctx, l, "Unlock")
		r.told("Unlock", err, "Unlock")
		if err != nil {
			r.stillTaken(ctx, key, sent.Add(l.TTL()))
		}
	}
	kept, err := r.c.TryLock(ctx, r.key("kept "+r.op+r.newID()), ttl, coord.MinHold(time.Millisecond))
	r.told("TryLock with MinHold", err, "TryLock")
	if err == nil {
		r.told("Unlock with MinHold", r.unlock(ctx, kept, "Unlock", "UnlockAfter"), "Unlock", "UnlockAfter")
	}
	if r.c.Info().Claims.Has(driver.Break) {
		err := r.c.Break(ctx, key, r.newID())
		if errors.Is(err, coord.ErrNotHeld) {
			err = nil
		}
		r.told("Break", err, "Break")
	}
}

// unlock gives l back, which is served unless the refused call is one of needs.
func (r *refusal) unlock(ctx context.Context, l *coord.Lock, needs ...string) error {
	err := l.Unlock(ctx)
	if !r.over && slices.Contains(needs, r.op) {
		return err
	}
	return r.given(err)
}

// stillTaken fails the case if a hold that could not be given back is granted again before the end of its lease.
func (r *refusal) stillTaken(ctx context.Context, key string, end time.Time) {
	_, err := r.c.TryLock(ctx, key, coord.TTL(r.keep))
	if err == nil && time.Now().Before(end) {
		r.Errorf("TryLock of a key whose Unlock was refused: saw a grant, want ErrLocked until the lease is over")
	}
}

func (r *refusal) useLimits(ctx context.Context) {
	limit, bucket := coord.PerSecond(1_000_000), coord.Limit{Rate: 1_000_000, Per: time.Second, Burst: 1_000_000}
	key := r.key("limit " + r.op)
	_, err := r.c.Allow(ctx, key, limit)
	r.told("Allow", err, "Take")
	_, err = r.c.Peek(ctx, key, limit)
	r.told("Peek", err, "Take")
	r.told("Wait", r.c.Wait(ctx, key, bucket), "Take")
	r.told("Reset", r.c.Reset(ctx, key, limit), "Reset")
	if r.c.Info().Claims.Has(driver.AtomicMulti) {
		_, err = r.c.AllowAll(ctx, coord.Demand{Key: r.key("a " + r.op), Limit: limit, N: 1}, coord.Demand{Key: r.key("b " + r.op), Limit: limit, N: 1})
		r.told("AllowAll", err, "TakeAll")
	}
}
