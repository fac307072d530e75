package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

func waitCases() []Case {
	return []Case{
		{
			ID: "LOCK-40", Name: "cancelled-wait-leaves-nothing", Clause: "L6", run: cancelledWait,
			Why:    "a waiter that left but stays in the queue blocks everyone behind it (Curator#600, go-zookeeper)",
			Remedy: "withdraw the waiter's entry when its context ends, also if the store grants at that moment",
		}, {
			ID: "LOCK-41", Name: "timed-out-wait-says-both", Clause: "L6", run: timedOutWait,
			Why:    "a caller wants to know that the key is locked and that its time is over (redsync hides the second)",
			Remedy: "return the context's error from a wait that it ended",
		}, {
			ID: "LOCK-46", Name: "cancel-at-the-grant-loses-no-key", Clause: "L6", run: cancelAtGrant,
			Why:    "a grant and a cancellation that cross leave a key that nobody holds and nobody frees",
			Remedy: "give a grant that crosses with the cancellation back, or pass it on",
		}, {
			ID: "LOCK-47", Name: "one-failed-call-anywhere-leaves-nothing", Clause: "L6", run: faultLoop(byDriver, usesOf(lockUsages, "Lock and Unlock"), failingKinds()[:2]),
			Why:    "every call of an acquisition is the last before a crash of the network some day (SQLite fails the Nth call, for every N)",
			Remedy: "make TryLock, Lock and Unlock repeatable by id after any error",
		}, {
			ID: "LOCK-48", Name: "waiter-rides-out-an-outage", Clause: "L6", run: ridesOut,
			Why:    "a restart of the store in a second must not fail every waiter of the fleet",
			Remedy: "return errors of an outage from a wait, and let the same id wait again",
		}, {
			ID: "LOCK-50", Name: "waiter-is-woken", Clause: "L8", run: woken, Proves: driver.Wake,
			Why:    "a wake-up that is lost between the check and the wait hangs its waiter on a free key (redisson#1763, rueidislock)",
			Remedy: "check again after the watch or subscription is set, before waiting; or do not claim wake",
		}, {
			ID: "LOCK-51", Name: "fair-waiters-are-granted-in-order", Clause: "L8", run: fairOrder, Proves: driver.Fair,
			Why:    "polling starves whoever polls at the wrong moments; overtaking starves who waits longest",
			Remedy: "order waiters in the store by when they came, and refuse newcomers while one waits; or do not claim fair",
		}, {
			ID: "LOCK-52", Name: "dead-waiter-is-skipped", Clause: "L8", run: deadWaiter,
			Why:    "a queue that waits for a process which is gone stands still",
			Remedy: "give waiters a lease, too, and skip those whose lease has ended",
		}, {
			ID: "LOCK-53", Name: "waiters-go-on-when-the-lease-lapses", Clause: "L8", run: waitersGoOn,
			Why:    "waiters of the holder's own process stay blocked by a local mutex after the store has let go (spring#3821)",
			Remedy: "look again when the holder's lease runs out, not only when it unlocks",
		}, {
			ID: "LOCK-58", Name: "who-waits-is-told-so-once", Clause: "L8", run: tellsWhoWaits,
			Why:    "a wait rides out an outage only from a place in the queue: the core has to know who has one, and an error of who has none is told at once",
			Remedy: "call waits of Lock when the store has refused the key, before the wait, and never for a grant",
		},
	}
}

// waiting starts Lock on a client behind an Injector, and returns when its first attempt was refused, or
// when it is over, because what it was to wait for has ended before.
func (e *env) waiting(ctx context.Context, key string, opts ...coord.LockOption) (*coord.Client, *Injector, <-chan error) {
	b, in := e.injected()
	c := e.clientOn(b)
	queues := e.queues()
	result := e.visit(ctx, c, key, opts...)
	e.until(soon, "a waiter to ask the store", func() bool {
		return in.returned("TryLock") > 0 && (!queues || in.count("Lock") > 0) || len(result) > 0
	})
	return c, in, result
}

func cancelledWait(e *env) {
	e.abandons()
	holder, key, r := e.open(), e.key("k"), e.req(e.long)
	e.take(holder, key, r)
	enough := errors.New("waited enough")
	ctx, cancel := context.WithCancelCause(e.ctx)
	_, _, result := e.waiting(ctx, key, coord.TTL(e.long))
	_, _, behind := e.waiting(e.ctx, key, coord.TTL(e.long))
	start := time.Now()
	cancel(enough)
	err := recv(e, result, soon, "a cancelled Lock to return")
	e.inTime(start, prompt, "cancelled Lock")
	e.wantError(err, "cancelled Lock", context.Canceled, enough, coord.ErrLocked)
	e.end(holder, key, r.ID, "Unlock by the holder")
	e.noError(recv(e, behind, 3*time.Second, "the waiter behind the cancelled one"), "Lock behind a cancelled one")
	e.free(holder, key, time.Second, "after its waiters have gone")
}

func timedOutWait(e *env) {
	holder, key, r := e.open(), e.key("k"), e.req(e.long)
	e.take(holder, key, r)
	c := e.client()
	const wait = 200 * time.Millisecond
	// A wait that is over before the store has said that the key is locked does not say so. A longer one does.
	check := func(what string, lock func(wait time.Duration) error) {
		for wait := wait; ; wait *= 2 {
			start := time.Now()
			err := lock(wait)
			took := time.Since(start)
			e.wantError(err, what, context.DeadlineExceeded)
			if took < wait {
				e.Errorf("%s: saw it return after %v, want after %v", what, took, wait)
			}
			e.inTime(start, wait+prompt, what)
			if errors.Is(err, coord.ErrLocked) || e.timely() || wait > watchdog/4 {
				e.wantError(err, what, coord.ErrLocked)
				return
			}
		}
	}
	check("Lock with WaitAtMost", func(wait time.Duration) error {
		_, err := c.Lock(e.ctx, key, coord.WaitAtMost(wait))
		return err
	})
	check("Lock under a deadline", func(wait time.Duration) error {
		_, err := c.Lock(e.within(wait), key)
		return err
	})
	start := time.Now()
	_, err := c.TryLock(e.ctx, key)
	e.wantError(err, "TryLock of a held key", coord.ErrLocked)
	e.inTime(start, prompt, "TryLock of a held key")
	_, err = c.TryLock(e.ctx, key, coord.WaitAtMost(wait))
	e.wantError(err, "TryLock with WaitAtMost", coord.ErrInvalid)
	e.end(holder, key, r.ID, "Unlock by the holder")
	e.free(holder, key, time.Second, "after its waiters have gone")
}

func cancelAtGrant(e *env) {
	e.abandons()
	holder, key := e.open(), e.key("k")
	for range 15 {
		r := e.req(e.long)
		// A position in the queue that a cancelled call was still asking for goes, but not at once.
		e.seize(holder, key, r, 3*time.Second, "after a Lock was cancelled at its grant")
		ctx, cancel := context.WithCancel(e.ctx)
		_, _, result := e.waiting(ctx, key, coord.TTL(e.long))
		_, _, behind := e.waiting(e.ctx, key, coord.TTL(e.long))
		meet(cancel, func() {
			if err := holder.Unlock(e.ctx, key, r.ID); err != nil {
				e.Errorf("Unlock by the holder: saw %v, want nil", err)
			}
		})
		if err := recv(e, result, soon, "Lock that was cancelled at its grant"); err != nil {
			e.wantError(err, "Lock that was cancelled at its grant", context.Canceled)
		}
		e.noError(recv(e, behind, 3*time.Second, "the waiter behind one that was cancelled at its grant"), "Lock behind one that was cancelled at its grant")
		e.free(holder, key, 3*time.Second, "after a Lock was cancelled at its grant")
	}
}

func ridesOut(e *env) {
	holder, key, r := e.open(), e.key("k"), e.req(e.long)
	e.take(holder, key, r)
	_, in, result := e.waiting(e.ctx, key, coord.TTL(e.long))
	in.Script(func(Call) Fault { return FailBefore })
	in.Reset()
	e.pass(200 * time.Millisecond)
	in.Script(nil)
	select {
	case err := <-result:
		e.Fatalf("Lock of a waiter during an outage of 200ms: saw it return with %v, want it to wait on: its TTL is %v", err, e.long)
	default:
	}
	e.end(holder, key, r.ID, "Unlock by the holder")
	e.noError(recv(e, result, 3*time.Second, "a waiter that has ridden out an outage"), "Lock and Unlock of a waiter")
}

func woken(e *env) {
	if !e.queues() {
		e.Fatalf("the store has no queue: a waiter has to poll")
	}
	holder, key, r := e.open(), e.key("k"), e.req(e.long)
	e.take(holder, key, r)
	_, in, result := e.waiting(e.ctx, key, coord.TTL(e.long))
	before := in.count("")
	e.pass(400 * time.Millisecond)
	if polls := in.count("") - before; polls > 2 {
		e.Errorf("calls of a waiter while the key is held: saw %d in 400ms, want none: it is to be woken", polls)
	}
	e.end(holder, key, r.ID, "Unlock by the holder")
	e.noError(recv(e, result, 2*time.Second, "a waiter to be woken"), "Lock and Unlock of a waiter")
	e.handOver()
}

// handOver makes many wake-ups: two clients take turns with one key.
func (e *env) handOver() {
	const turns = 30
	key, holder := e.key("turns"), e.client()
	b, in := e.injected()
	waiter := e.clientOn(b)
	for range turns {
		l := e.lock(holder, key, coord.TTL(e.long))
		asked := in.count("Lock")
		result := e.visit(e.ctx, waiter, key, coord.TTL(e.long))
		e.until(soon, "a waiter to be in the queue", func() bool { return in.count("Lock") > asked })
		e.gaveBack(l.Unlock(e.ctx), "Unlock by the holder")
		e.noError(recv(e, result, 2*time.Second, "a waiter to be woken, again"), "Lock and Unlock of a waiter")
	}
}

func fairOrder(e *env) {
	if !e.queues() {
		e.Fatalf("the store has no queue: it has no order of waiters")
	}
	const waiters = 5
	holder, key, r := e.open(), e.key("k"), e.req(e.long)
	e.take(holder, key, r)
	granted := make(chan int, waiters)
	ids := make([]string, waiters)
	lockers := make([]driver.Locker, waiters)
	for i := range waiters {
		b := e.open()
		w := driver.Request{ID: e.newID(), TTL: e.long, Fair: true}
		ids[i], lockers[i] = w.ID, b
		go func() {
			if _, err := b.Lock(e.ctx, key, w, func() {}); err != nil {
				e.Errorf("Lock of waiter %d: saw %v, want a grant", i, err)
			}
			granted <- i
		}()
		e.queued(key, i+1)
	}
	free, id := driver.Locker(holder), r.ID
	for want := range waiters {
		e.end(free, key, id, "Unlock by the holder")
		e.refused(holder, key, "by a newcomer that would overtake fair waiters")
		got := recv(e, granted, e.lapse(e.ttl), "the next fair waiter")
		if got != want {
			e.Fatalf("grant number %d: saw waiter %d, want waiter %d: the order in which they came", want, got, want)
		}
		free, id = lockers[got], ids[got]
	}
	e.end(free, key, id, "Unlock by the last waiter")
}

// tellsWhoWaits has two wait behind a holder.
func tellsWhoWaits(e *env) {
	key, b := e.key("k"), e.open()
	if !e.queues() {
		e.Unsupported("the store has no queue: the core polls")
	}
	type answer struct {
		id   string
		told int
		err  error
	}
	answers := make(chan answer, 1)
	lock := func(id string) (told <-chan struct{}) {
		first, n := make(chan struct{}, 1), atomic.Int32{}
		go func() {
			_, err := b.Lock(e.ctx, key, driver.Request{ID: id, TTL: e.long}, func() {
				if n.Add(1) == 1 {
					first <- struct{}{}
				}
			})
			answers <- answer{id, int(n.Load()), err}
		}()
		return first
	}
	granted := func(what string, told int) (id string) {
		a := recv(e, answers, e.lapse(e.ttl), what+" to be granted")
		e.noError(a.err, "Lock of "+what)
		if a.told != told {
			e.Errorf("calls of waits by Lock of %s: saw %d, want %d", what, a.told, told)
		}
		return a.id
	}
	holder := e.newID()
	for _, what := range []string{"a free key", "a key that the id has"} {
		lock(holder)
		granted(what, 0)
	}
	for _, what := range []string{"a waiter", "a second waiter"} {
		recv(e, lock(e.newID()), soon, what+" to be told that it waits, while another holds")
	}
	for _, what := range []string{"a waiter", "a second waiter"} {
		e.end(b, key, holder, "Unlock by the holder")
		holder = granted(what, 1)
	}
	e.end(b, key, holder, "Unlock by the last waiter")
}

// queued returns when n waiters are in the store's queue for key.
func (e *env) queued(key string, n int) {
	if i := e.open(); e.info.Claims.Has(driver.Inspect) {
		if h, err := i.Inspect(e.within(soon), key); err == nil && h.Waiters >= 0 {
			e.until(soon, fmt.Sprintf("%d waiters to be in the queue", n), func() bool {
				h, err := i.Inspect(e.within(soon), key)
				return err == nil && h.Waiters >= n
			})
			return
		}
	}
	e.pass(100 * time.Millisecond) // the store does not show its waiters
}

// deadWaiter has a waiter die, and the holder unlock at once, and when the dead one's lease has ended.
func deadWaiter(e *env) {
	e.scopeOf("at once", func(e *env) { e.passesDead(e.key("k"), 0, e.lapse(2*e.ttl)) })
	e.scopeOf("after its lease", func(e *env) { e.passesDead(e.key("later"), e.lapse(e.ttl), prompt) })
}

// passesDead fails the case unless who waits behind one that has died so long ago is granted within.
func (e *env) passesDead(key string, ago, within time.Duration) {
	holder, r := e.open(), e.req(e.long)
	e.take(holder, key, r)
	ctx, die := context.WithCancel(e.ctx)
	_, in, dead := e.waiting(ctx, key, coord.TTL(e.ttl))
	_, _, behind := e.waiting(e.ctx, key, coord.TTL(e.long))
	in.StallRequests() // it dies without a word
	die()
	e.wantError(recv(e, dead, soon, "the dead waiter's Lock to return"), "Lock of the dead waiter", context.Canceled)
	e.pass(ago)
	e.end(holder, key, r.ID, "Unlock by the holder")
	e.noError(recv(e, behind, within, "the waiter behind the dead one"), "Lock behind a dead waiter")
}

func waitersGoOn(e *env) {
	key, c := e.key("k"), e.client()
	l := e.lock(c, key, coord.TTL(e.ttl), coord.NoRenew())
	pass := func(c *coord.Client) <-chan error {
		return e.visit(e.ctx, c, key, coord.TTL(e.long))
	}
	local, remote := pass(c), pass(e.client())
	bound := l.TTL() + 3*time.Second
	e.noError(recv(e, local, bound, "a waiter of the holder's client"), "Lock in the holder's client")
	e.noError(recv(e, remote, bound, "a waiter of another client"), "Lock in another client")
}
