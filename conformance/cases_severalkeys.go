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

func severalKeysCases() []Case {
	const remedy = "nothing of the adapter's, as a rule: see that its calls do not fail"
	return []Case{
		{
			ID: "LOCK-261", Name: "several-keys-in-any-order", Clause: "M1", run: anyOrder,
			Why:    "two callers that take the same keys in opposite orders wait for each other for ever (Redisson 1160, 4050)",
			Remedy: remedy,
		}, {
			ID: "LOCK-262", Name: "several-keys-or-none", Clause: "M3", run: allOrNone,
			Why:    "keys that were taken before the one that was refused stay taken until their leases end (Redisson 4456)",
			Remedy: "let Unlock free the key at once",
		}, {
			ID: "LOCK-263", Name: "loss-of-one-of-several-ends-all", Clause: "M2", run: oneOfSeveralLost,
			Why:    "work that needs two keys goes on with one",
			Remedy: "let Renew answer ErrNotHeld for an entry that is gone",
		}, {
			ID: "LOCK-264", Name: "several-keys-reenter", Clause: "M5", run: severalReenter,
			Why:    "a function that holds a key calls another that takes it together with a second, or names it twice",
			Remedy: remedy,
		}, {
			ID: "LOCK-265", Name: "one-bound-for-several-keys", Clause: "M4", run: oneBound,
			Why:    "a bound for each key makes the wait for ten keys ten times as long",
			Remedy: remedy,
		}, {
			ID: "LOCK-266", Name: "several-keys-with-lost-replies", Clause: "M3", run: severalLostReplies,
			Why:    "a reply that is lost in the middle leaves some keys taken and nobody who knows of them",
			Remedy: "let a repeated TryLock of an id find its hold, and Unlock remove it",
		},
	}
}

// severalKeys is DoAll or, with try, TryDoAll: what these cases are about. The suite's own tests put broken ones in
// their place.
type severalKeys func(ctx context.Context, try bool, l coord.Locker, keys []string, fn func(context.Context) error, opts ...coord.LockOption) (ran bool, err error)

func (e *env) severally(ctx context.Context, try bool, l coord.Locker, keys []string, fn func(context.Context) error, opts ...coord.LockOption) (ran bool, err error) {
	switch f := e.r.suite.Harness.severalKeys; {
	case f != nil:
		return f(ctx, try, l, keys, fn, opts...)
	case try:
		return coord.TryDoAll(ctx, l, keys, fn, opts...)
	}
	err = coord.DoAll(ctx, l, keys, fn, opts...)
	return err == nil, err
}

func (e *env) doAll(ctx context.Context, l coord.Locker, keys []string, fn func(context.Context) error, opts ...coord.LockOption) error {
	_, err := e.severally(ctx, false, l, keys, fn, opts...)
	return err
}

func (e *env) tryDoAll(ctx context.Context, l coord.Locker, keys []string, fn func(context.Context) error, opts ...coord.LockOption) (ran bool, err error) {
	return e.severally(ctx, true, l, keys, fn, opts...)
}

// anyOrder has clients take three keys in all orders at once, and counts who is inside.
func anyOrder(e *env) {
	const clients, rounds = 3, 6
	orders := [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}
	keys := []string{e.key("a"), e.key("b"), e.key("c")}
	s := &section{e: e}
	crowd(clients, 1, e.plain, func(c *coord.Client, i, _ int) {
		e.scopeOf("a client", func(e *env) {
			for n := range rounds {
				order := orders[(i+n*clients)%len(orders)]
				list := []string{keys[order[0]], keys[order[1]], keys[order[2]]}
				err := e.doAll(e.within(2*soon), c, list, func(ctx context.Context) error {
					lock, _ := coord.Held(ctx, keys[0])
					s.visit("DoAll", lock, func() { e.pass(time.Millisecond) })
					return ctx.Err()
				}, coord.TTL(e.long))
				e.noError(err, "DoAll of three keys that others take in another order")
			}
		})
	})
}

// allOrNone has the last of the keys held by another.
func allOrNone(e *env) {
	b0, in := e.injected()
	c, rival := e.clientOn(b0), e.open()
	a, b, z := e.key("a"), e.key("b"), e.key("z")
	r := e.req(e.long)
	e.take(rival, z, r)
	never := func(context.Context) error {
		e.Errorf("DoAll of keys of which one is held: saw its function run, want it not to")
		return nil
	}
	left := func(what string) {
		for _, key := range []string{a, b} {
			e.free(rival, key, time.Second, "after "+what)
		}
	}

	ran, err := e.tryDoAll(e.within(soon), c, []string{z, b, a}, never, coord.TTL(e.long))
	e.noError(err, "TryDoAll")
	if ran {
		e.Errorf("TryDoAll: saw ran, want it refused")
	}
	left("TryDoAll was refused")

	wait := 500 * time.Millisecond
	err = e.doAll(e.within(soon), c, []string{z, a, b}, never, coord.TTL(e.long), coord.WaitAtMost(wait))
	e.outOfTime(err)
	left("a wait that ran out")

	ctx, cancel := context.WithCancel(e.ctx)
	before := in.count("TryLock")
	waits := async(func() error { return e.doAll(ctx, c, []string{a, b, z}, never, coord.TTL(e.long)) })
	e.until(soon, "the last key to be refused", func() bool { return in.returned("TryLock") >= before+3 })
	cancel()
	e.wantError(recv(e, waits, soon, "DoAll, which was cancelled"), "DoAll, which was cancelled", context.Canceled)
	left("a wait that was cancelled")

	e.panics("DoAll", func(fn func(context.Context) error) error {
		return e.doAll(e.within(soon), c, []string{b, a}, fn, coord.TTL(e.long))
	})
	left("a panic")
	e.end(rival, z, r.ID, "Unlock by the rival")
	e.keptWhileRunning(c, rival, []string{a, b})
	left("the function, whose context was cancelled, returned")
}

// keptWhileRunning cancels the context of a function that does not return for a while.
func (e *env) keptWhileRunning(c *coord.Client, rival driver.Locker, keys []string) {
	ctx, cancel := context.WithCancel(e.ctx)
	runs, linger := make(chan struct{}), make(chan struct{})
	let := sync.OnceFunc(func() { close(linger) })
	e.Cleanup(let)
	works := async(func() error {
		return e.doAll(ctx, c, keys, func(ctx context.Context) error {
			close(runs)
			<-linger
			return ctx.Err()
		}, coord.TTL(e.long))
	})
	recv(e, runs, soon, "the function of DoAll to run")
	cancel()
	e.pass(500 * time.Millisecond)
	for _, key := range keys {
		e.refused(rival, key, "while the function of DoAll runs, its context being cancelled")
	}
	let()
	e.wantError(recv(e, works, soon, "DoAll, after its function returned"), "DoAll whose context was cancelled", context.Canceled)
}

// oneOfSeveralLost removes each of three holds in turn, as an operator would, and then one while the last is waited for.
func oneOfSeveralLost(e *env) {
	var wg sync.WaitGroup
	for which, at := range positions {
		wg.Go(func() { e.scopeOf("the "+at, func(e *env) { e.lostInside(which) }) })
	}
	wg.Go(func() { e.scopeOf("in the wait", (*env).lostInTheWait) })
	wg.Wait()
}

var positions = [...]string{"first", "second", "third"}

// lostInside removes one of the holds while the function runs.
func (e *env) lostInside(which int) {
	b, in := e.injected()
	c, operator := e.clientOn(b), e.open()
	at := positions[which]
	keys := []string{e.key(at + " a"), e.key(at + " b"), e.key(at + " c")}
	ttl := e.keep
	var cause error
	err := e.doAll(e.ctx, c, keys, func(ctx context.Context) error {
		id := in.lastID("TryLock", keys[which])
		if err := operator.Unlock(e.within(soon), keys[which], id); err != nil {
			e.Errorf("Unlock of the %s hold by the operator: saw %v, want nil", at, err)
			return nil
		}
		select {
		case <-ctx.Done():
			cause = context.Cause(ctx)
		case <-time.After(e.bound(e.lapse(ttl))):
			e.Errorf("the function's context: saw it live on, want it to end with the loss of the %s of three keys", at)
		case <-e.ctx.Done():
		}
		return nil
	}, coord.TTL(ttl))
	e.wantError(err, "DoAll, whose "+at+" hold was lost", coord.ErrLost)
	e.wantError(cause, "cause of the function's context, the "+at+" hold being lost", coord.ErrLost)
	for _, key := range keys {
		e.free(operator, key, e.lapse(ttl), "after DoAll returned")
	}
}

// lostInTheWait removes the first hold while the second key is waited for.
func (e *env) lostInTheWait() {
	b, in := e.injected()
	c, rival := e.clientOn(b), e.open()
	first, second, r := e.key("wait a"), e.key("wait b"), e.req(e.long)
	e.take(rival, second, r)
	waits := async(func() error {
		return e.doAll(e.ctx, c, []string{first, second}, func(context.Context) error {
			e.Errorf("DoAll, of whose keys one is held and one was lost: saw its function run, want it not to")
			return nil
		}, coord.TTL(e.keep))
	})
	e.until(soon, "the second key to be refused", func() bool { return in.returned("TryLock") >= 2 || len(waits) > 0 })
	e.operatorUnlock(rival, first, in.lastID("TryLock", first))
	const what = "DoAll, which lost its first key while it waits for the second"
	e.wantError(recv(e, waits, e.lapse(e.keep), what), what, coord.ErrLost)
	e.end(rival, second, r.ID, "Unlock of the second key")
}

func severalReenter(e *env) {
	b, in := e.injected()
	c, rival := e.clientOn(b), e.open()
	first, second := e.key("a"), e.key("b")
	err := coord.Do(e.within(soon), c, first, func(ctx context.Context) error {
		outer, _ := coord.Held(ctx, first)
		before := in.count("TryLock") + in.count("Lock")
		err := e.doAll(ctx, c, []string{second, first, second}, func(ctx context.Context) error {
			inner, ok := coord.Held(ctx, first)
			if !ok || inner.Token() != outer.Token() {
				e.Errorf("the key that was held before: saw another hold, want the same")
			}
			if _, ok := coord.Held(ctx, second); !ok {
				e.Errorf("Held of the other key: saw nothing, want its lock")
			}
			e.refused(rival, second, "while DoAll holds")
			return nil
		}, coord.TTL(e.long))
		e.noError(err, "DoAll of a key that is held and one that is not")
		if n := in.count("TryLock") + in.count("Lock") - before; n != 1 {
			e.Errorf("attempts at the store for a key that is held and one that is named twice: saw %d, want 1", n)
		}
		e.refused(rival, first, "after DoAll, while the outer Do holds")
		e.free(rival, second, time.Second, "after DoAll")
		return nil
	}, coord.TTL(e.long))
	e.noError(err, "Do")
	e.free(rival, first, time.Second, "after Do")
}

// oneBound frees the first key when half of the wait is over; the second stays taken.
func oneBound(e *env) {
	e.abandons()
	const wait = 2 * time.Second // for each of two keys it would be 3 s
	c, rival := e.client(), e.open()
	a, z := e.key("a"), e.key("z")
	ra, rz := e.req(e.long), e.req(e.long)
	e.take(rival, a, ra)
	e.take(rival, z, rz)
	start := time.Now()
	done := async(func() error {
		return e.doAll(e.ctx, c, []string{a, z}, func(context.Context) error {
			e.Errorf("DoAll: saw its function run, want it refused")
			return nil
		}, coord.TTL(e.long), coord.WaitAtMost(wait))
	})
	e.pass(wait / 2)
	e.end(rival, a, ra.ID, "Unlock of the first key")
	err := recv(e, done, soon, "DoAll, whose wait is over")
	e.inTime(start, wait+prompt, fmt.Sprintf("DoAll that waits for %v in all", wait))
	e.outOfTime(err)
	e.free(rival, a, time.Second, "after the wait")
	e.end(rival, z, rz.ID, "Unlock of the second key")
}

// outOfTime fails the case unless err is that of a wait that ran out. Where the store took long to answer the last
// attempt, it is not known whether the key was taken.
func (e *env) outOfTime(err error) {
	e.wantError(err, "DoAll, whose wait is over", context.DeadlineExceeded)
	if e.timely() || !errors.Is(err, coord.ErrUnavailable) {
		e.wantError(err, "DoAll, whose wait is over", coord.ErrLocked)
	}
}

// severalLostReplies loses the reply to the attempt on each of the keys.
func severalLostReplies(e *env) {
	rival := e.open()
	for i, which := range positions {
		b, in := e.injected()
		c := e.clientOn(b)
		keys := []string{e.key(which + " a"), e.key(which + " b"), e.key(which + " c")}
		in.Script(func(call Call) Fault {
			if call.Op == "TryLock" && call.Key == keys[i] {
				return FailAfter
			}
			return NoFault
		})
		ran, err := e.tryDoAll(e.within(soon), c, keys, func(context.Context) error { return nil }, coord.TTL(e.round(2*e.ttl)))
		if ran {
			e.Errorf("TryDoAll, whose %s reply was lost: saw its function run, want an error", which)
		}
		e.wantError(err, "TryDoAll, whose "+which+" reply was lost", coord.ErrUnavailable)
		in.Script(nil)
		for _, key := range keys {
			e.free(rival, key, e.lapse(e.round(2*e.ttl)), "after the "+which+" reply was lost")
		}
	}
}
