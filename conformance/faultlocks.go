package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

// lockUsages are the uses of locks that the fault loop goes through.
func lockUsages(e *env) []usage {
	return e.possible([]usage{
		{name: "Lock and Unlock", run: useLock},
		{name: "TryLock and Unlock", run: useTryLock},
		{name: "Lock with MinHold", run: useMinHold},
		{name: "Lock behind another client", run: useContended},
		{name: "fair Lock behind another client", needs: driver.Fair, run: useContended},
		{name: "Lock behind a goroutine of the same client", run: useLocalQueue},
		{name: "Lock that is cancelled", run: useCancelledWait},
		{name: "Lock that times out", run: useTimedOut},
		{name: "renewal", run: useRenewal},
		{name: "Do within Do", run: useDo},
		{name: "re-entry", run: useReentry},
		{name: "Inspect", needs: driver.Inspect, run: useInspect},
		{name: "Break", needs: driver.Break, run: useBreak},
		{name: "BreakNow", needs: driver.Break, run: useBreakNow},
		{name: "Close while a lock is held", run: useCloseHolding},
		{name: "Close while a lock is waited for", run: useCloseWaiting},
		{name: "Ping", run: usePing},
	})
}

// possible leaves out what the store does not claim to do.
func (e *env) possible(all []usage) []usage {
	var list []usage
	for _, u := range all {
		if u.needs == "" || e.info.Claims.Has(u.needs) {
			list = append(list, u)
		}
	}
	return list
}

// lockAs is Lock, with what the run allows.
func (f *faultRun) lockAs(opts ...coord.LockOption) (*coord.Lock, error) {
	return f.lockBy(f.ctx, f.of.locker(f.c).Lock, opts...)
}

// lockBy is lockAs by Lock or TryLock of a Locker, in a context such as an owner's.
func (f *faultRun) lockBy(ctx context.Context, lock lockFunc, opts ...coord.LockOption) (l *coord.Lock, err error) {
	opts = append([]coord.LockOption{coord.TTL(f.long)}, opts...)
	err = f.call("Lock", func(bound context.Context) (err error) {
		at, _ := bound.Deadline()
		ctx, cancel := context.WithDeadline(ctx, at)
		defer cancel()
		l, err = lock(ctx, f.k, opts...)
		return err
	})
	return l, err
}

// useLocked goes on with a lock if there is one.
func (f *faultRun) useLocked(l *coord.Lock, err error) {
	switch {
	case err == nil:
		f.holds(l)
		_ = f.unlock(l) // that it failed is the fault's; what it left is looked at later
	case f.lost:
		f.unsettled(err, "Lock that was applied without an answer")
	}
}

func useLock(f *faultRun) { f.useLocked(f.lockAs()) }

func useTryLock(f *faultRun) { f.useLocked(f.lockBy(f.ctx, f.of.locker(f.c).TryLock)) }

func useMinHold(f *faultRun) {
	f.useLocked(f.lockAs(coord.TTL(f.ttl), coord.MinHold(20*time.Millisecond)))
	f.freeBy = f.lapse(f.ttl)
}

// taken has the rival hold the run's key.
func (f *faultRun) taken() driver.Request {
	r, _ := f.enter(f.of.at(f.rival), f.of.key(f.k), f.of.barred, "a free key")
	return r
}

// freed ends what taken has begun.
func (f *faultRun) freed(r driver.Request) {
	f.end(f.of.at(f.rival), f.of.key(f.k), r.ID, "Unlock by the holder")
}

// waiter starts a Lock, which takes and gives back what it is granted, and returns once it has asked the store, or has
// failed.
func (f *faultRun) waiter(ctx context.Context, opts ...coord.LockOption) <-chan error {
	opts = append([]coord.LockOption{coord.TTL(f.long)}, opts...)
	queues := f.queues()
	returned := make(chan struct{})
	result := async(func() error {
		defer close(returned)
		return f.passThrough(ctx, opts...)
	})
	f.until(soon, "a waiter to ask the store", func() bool {
		select {
		case <-returned:
			return true
		default:
			asked := f.in.returned(f.of.op("TryLock")) > 0
			if queues && f.of == lockKind { // a fair one does not try the key first
				asked = f.in.count("Lock") > 0
			}
			return asked || f.at == 1 && f.in.count("TryLock") > 0 // which may hang
		}
	})
	return result
}

// passThrough takes a lock and gives it back.
func (f *faultRun) passThrough(ctx context.Context, opts ...coord.LockOption) error {
	l, err := f.of.locker(f.c).Lock(ctx, f.k, opts...)
	if err != nil {
		f.meaningful("Lock", err)
		return err
	}
	f.holds(l)
	return f.unlock(l)
}

func useContended(f *faultRun) {
	r := f.taken()
	// A waiter in the queue rides out an outage: its context ends it.
	const allowed = 2 * hangFor
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	var opts []coord.LockOption
	if f.fair {
		opts = append(opts, coord.Fair())
	}
	result := f.waiter(ctx, opts...)
	defer time.AfterFunc(allowed, cancel).Stop()
	f.freed(r)
	_ = recv(f.env, result, allowed+soon, "a waiter to be granted, or to fail")
}

func useLocalQueue(f *faultRun) {
	l, err := f.lockAs()
	ctx, cancel := context.WithTimeout(f.ctx, 2*hangFor)
	defer cancel()
	second := async(func() error { return f.passThrough(ctx, coord.TTL(f.long)) })
	f.useLocked(l, err)
	_ = recv(f.env, second, 2*hangFor+unlockFor+prompt, "the second goroutine to be granted, or to fail")
}

func useCancelledWait(f *faultRun) {
	r := f.taken()
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	result := f.waiter(ctx)
	start := time.Now()
	cancel()
	err := recv(f.env, result, soon, "a cancelled Lock")
	f.env.inTime(start, prompt, "cancelled Lock")
	if err == nil {
		f.Errorf("Lock of a held key: saw a lock")
	}
	f.freed(r)
}

func useTimedOut(f *faultRun) {
	r := f.taken()
	if l, err := f.lockAs(coord.WaitAtMost(50 * time.Millisecond)); err == nil {
		f.Errorf("Lock of a held key: saw a lock")
		_ = f.unlock(l)
	}
	f.freed(r)
}

func useRenewal(f *faultRun) {
	l, err := f.lockAs(coord.TTL(f.ttl))
	if err != nil {
		return
	}
	first := l.Deadline()
	f.until(f.lapse(l.TTL()), "a renewal, or the loss", func() bool { return l.Deadline().After(first) || l.Err() != nil })
	f.holds(l)
	_ = f.unlock(l)
}

func useDo(f *faultRun) {
	ctx, cancel := context.WithTimeout(f.ctx, f.allowed())
	defer cancel()
	_ = f.inTime("Do", f.allowed()+unlockFor, func() error {
		return coord.Do(ctx, f.c, f.k, func(ctx context.Context) error {
			l, ok := coord.Held(ctx, f.k)
			if !ok {
				f.Errorf("Held within Do: saw none")
				return nil
			}
			f.holds(l)
			ran := false
			err := coord.Do(ctx, f.c, f.k, func(context.Context) error { ran = true; return nil }, coord.TTL(f.long))
			if !ran && l.Err() == nil && ctx.Err() == nil {
				f.Errorf("Do within Do, the lock being held: saw %v, want it to run", err)
			}
			return nil
		}, coord.TTL(f.long))
	})
}

func useReentry(f *faultRun) {
	ctx := coord.WithOwner(f.ctx)
	outer, err := f.lockBy(ctx, f.c.Lock)
	if err != nil {
		return
	}
	calls := f.in.count("")
	inner, err := f.lockBy(ctx, f.c.Lock)
	if err != nil {
		f.Errorf("re-entry of a lock that is held: saw %v, want no call on the store that could fail", err)
	} else {
		_ = f.unlock(inner)
	}
	if now := f.in.count(""); now != calls {
		f.Errorf("calls on the store by a re-entry: saw %d, want none", now-calls)
	}
	f.holds(outer)
	_ = f.unlock(outer)
}

func useInspect(f *faultRun) {
	r := f.taken()
	var h coord.Holder
	err := f.call("Inspect", func(ctx context.Context) (err error) {
		h, err = f.c.Inspect(ctx, f.k)
		return err
	})
	if err == nil && h.ID != r.ID {
		f.Errorf("Inspect: saw the holder %q, want %q", h.ID, r.ID)
	}
	if errors.Is(err, coord.ErrNotHeld) {
		f.Errorf("Inspect of a held key: saw %v, want its holder, or that the store failed", err)
	}
	f.freed(r)
}

func useBreak(f *faultRun) {
	r := f.taken()
	f.take(f.rival, f.k+" short", driver.Request{ID: r.ID, TTL: f.ttl})
	err := f.call("Break", func(ctx context.Context) error { return f.c.Break(ctx, f.k+" short", r.ID) })
	if err == nil {
		f.notRenewed(f.rival, f.k+" short", r, "Renew by a holder that was broken")
	}
	f.free(f.rival, f.k+" short", f.lapse(f.ttl), "after the lease of a hold that was broken")
	f.refused(f.rival, f.k, "after another key was broken")
	f.end(f.rival, f.k, r.ID, "Unlock of another key")
}

// useBreakNow: the rival's hold is gone after a revocation that was confirmed, and as it was after one that was not made.
func useBreakNow(f *faultRun) {
	r := f.taken()
	err := f.call("BreakNow", func(ctx context.Context) error { return f.c.BreakNow(ctx, f.k, r.ID) })
	if err == nil {
		f.notRenewed(f.rival, f.k, r, "Renew by a holder that was revoked")
	} else if errors.Is(err, coord.ErrNotHeld) {
		f.Errorf("revocation of a live hold: saw %v, want nil, or that the store failed", err)
	}
	if err := f.rival.Unlock(f.within(soon), f.k, r.ID); err != nil {
		f.wantError(err, "Unlock by a holder that may have been revoked", driver.ErrNotHeld)
	}
}

// useCloseHolding: nothing cleans up after Close but the lease.
func useCloseHolding(f *faultRun) {
	l, err := f.lockAs(coord.TTL(f.ttl))
	f.close()
	if err == nil {
		f.wantError(l.Err(), "Err after Close", coord.ErrNotHeld)
	}
	f.freeBy = f.lapse(f.ttl)
}

func useCloseWaiting(f *faultRun) {
	r := f.taken()
	result := f.waiter(f.ctx, coord.TTL(f.ttl))
	f.close()
	if err := recv(f.env, result, time.Second, "a waiter, after Close"); err == nil {
		f.Errorf("Lock during Close: saw a lock of a held key")
	}
	f.freed(r)
	f.freeBy = f.lapse(f.ttl)
}

func usePing(f *faultRun) {
	_ = f.call("Ping", f.c.Ping)
}
