package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

func reentryCases() []Case {
	return []Case{
		{
			ID: "LOCK-60", Name: "reentry-shares-hold-and-token", Clause: "L7", run: reentry,
			Why:    "a token per entry lets an inner write fence out the outer holder (Redisson); a release that does not count frees too early (dolphinscheduler#17715)",
			Remedy: "nothing of the adapter's, as a rule: see that its calls do not fail",
		}, {
			ID: "LOCK-61", Name: "reentry-with-other-options-is-refused", Clause: "L7", run: reentryOptions,
			Why:    "a re-entry that asks for a longer lease and silently gets the old one is a surprise in the worst hour",
			Remedy: "nothing of the adapter's, as a rule: see that its calls do not fail",
		}, {
			ID: "LOCK-62", Name: "reentry-after-loss-is-lost", Clause: "L7", run: reentryAfterLoss,
			Why:    "a local counter that is bumped without looking at the lease enters a lock that another holds (Curator)",
			Remedy: "let Renew answer ErrNotHeld for an entry that is gone",
		}, {
			ID: "LOCK-63", Name: "reentry-has-a-depth", Clause: "L7", run: reentryDepth,
			Why:    "unbounded recursion under a lock is to end in an error, not in memory",
			Remedy: "nothing of the adapter's, as a rule: see that its calls do not fail",
		}, {
			ID: "LOCK-64", Name: "others-are-excluded", Clause: "L7", run: othersExcluded,
			Why:    "re-entry by process or by session lets every goroutine in",
			Remedy: "tell ids apart, not clients or processes",
		}, {
			ID: "LOCK-358", Name: "goroutines-of-one-context-take-turns", Clause: "L7", run: takeTurns,
			Why:    "goroutines that an errgroup starts under one lock enter a second one together, if all that share a context are one holder",
			Remedy: "nothing of the adapter's, as a rule: see that its calls do not fail",
		}, {
			ID: "LOCK-66", Name: "do-nests", Clause: "L7", run: doNests,
			Why:    "a function that locks calls another that locks the same key",
			Remedy: "nothing of the adapter's, as a rule: see that its calls do not fail",
		},
	}
}

func reentry(e *env) {
	b, in := e.injected()
	c, key, rival := e.clientOn(b), e.key("k"), e.open()
	ctx := coord.WithOwner(e.ctx)
	outer, err := c.Lock(ctx, key, coord.TTL(e.long))
	e.noError(err, "Lock")
	before := in.count("")
	inner, err := c.Lock(ctx, key)
	e.noError(err, "Lock by the owner that holds")
	tried, err := c.TryLock(ctx, key)
	e.noError(err, "TryLock by the owner that holds")
	if n := in.count("") - before; n != 0 {
		e.Errorf("re-entry: saw %d calls on the store, want none", n)
	}
	if inner.Token() != outer.Token() || tried.Token() != outer.Token() {
		e.Errorf("tokens of one hold: saw %d, %d, %d, want the same", outer.Token(), inner.Token(), tried.Token())
	}
	for what, l := range map[string]*coord.Lock{"inner": inner, "second inner": tried} {
		e.gaveBack(l.Unlock(ctx), "Unlock of the "+what+" handle")
		e.wantError(l.Unlock(ctx), "second Unlock of the "+what+" handle", coord.ErrNotHeld)
		e.refused(rival, key, "while the outer handle holds")
		e.noError(outer.Err(), "Err of the outer handle")
	}
	e.gaveBack(outer.Unlock(ctx), "Unlock of the outer handle")
	e.free(rival, key, time.Second, "after the last Unlock")
}

func reentryOptions(e *env) {
	c, key, ctx := e.client(), e.key("k"), coord.WithOwner(e.ctx)
	l, err := c.Lock(ctx, key, coord.TTL(e.long))
	e.noError(err, "Lock")
	same, err := c.Lock(ctx, key, coord.TTL(e.long))
	e.noError(err, "re-entry with the hold's own TTL")
	e.gaveBack(same.Unlock(ctx), "Unlock")
	for what, o := range map[string]coord.LockOption{
		"another TTL": coord.TTL(e.long + time.Second), "MaxHold": coord.MaxHold(time.Minute),
		"MinHold": coord.MinHold(time.Millisecond), "NoRenew": coord.NoRenew(),
	} {
		_, err := c.Lock(ctx, key, o)
		e.wantError(err, "re-entry with "+what, coord.ErrInvalid)
	}
	e.noError(l.Err(), "Err after refused re-entries")
	e.gaveBack(l.Unlock(ctx), "the one Unlock that is due after refused re-entries")
	e.free(e.open(), key, time.Second, "after the Unlock")
}

func reentryAfterLoss(e *env) {
	c, key, ctx := e.client(), e.key("k"), coord.WithOwner(e.ctx)
	l := e.lockIn(ctx, c, key, coord.TTL(e.ttl), coord.NoRenew())
	recv(e, l.Done(), l.TTL()+time.Second, "Done at the end of the lease")
	rival, r := e.open(), e.req(e.long)
	e.seize(rival, key, r, e.lapse(l.TTL()), "after the loss")
	_, err := c.TryLock(ctx, key)
	e.wantError(err, "TryLock by an owner whose hold is lost", coord.ErrLost)
	_, err = c.Lock(ctx, key)
	e.wantError(err, "Lock by an owner whose hold is lost", coord.ErrLost)
	e.wantError(l.Unlock(ctx), "Unlock of the lost hold", coord.ErrLost)
	_, err = c.TryLock(ctx, key)
	if e.wantError(err, "TryLock after the lost hold was unlocked", coord.ErrLocked); errors.Is(err, coord.ErrLost) {
		e.Errorf("TryLock after the lost hold was unlocked: saw %v, want a fresh attempt", err)
	}
	e.end(rival, key, r.ID, "the rival's Unlock")
	fresh, err := c.Lock(ctx, key)
	e.noError(err, "Lock after the lost hold was unlocked, of a free key")
	rises(e, "the fresh hold", fresh.Token(), l.Token())
	e.gaveBack(fresh.Unlock(ctx), "Unlock of the fresh hold")
}

func reentryDepth(e *env) {
	const most = 100_000
	c, key, ctx := e.client(), e.key("k"), coord.WithOwner(e.ctx)
	var handles []*coord.Lock
	for {
		l, err := c.Lock(ctx, key, coord.TTL(e.long))
		if err != nil {
			e.wantError(err, "re-entry too deep", coord.ErrInvalid)
			break
		}
		if handles = append(handles, l); len(handles) > most {
			e.Fatalf("re-entry: saw %d entries, want an error at some depth", most)
		}
	}
	if len(handles) < 2 {
		e.Fatalf("re-entry: saw it refused at depth %d, want some depth", len(handles))
	}
	for _, l := range handles[:len(handles)-1] {
		e.gaveBack(l.Unlock(ctx), "Unlock of one entry")
	}
	e.refused(e.open(), key, "while one entry is left")
	e.gaveBack(handles[len(handles)-1].Unlock(ctx), "Unlock of the last entry")
	e.free(e.open(), key, time.Second, "after the last Unlock")
}

func othersExcluded(e *env) {
	c, key, ctx := e.client(), e.key("k"), coord.WithOwner(e.ctx)
	l, err := c.Lock(ctx, key, coord.TTL(e.long))
	e.noError(err, "Lock")
	for who, try := range map[string]func() (*coord.Lock, error){
		"another owner of the same client":  func() (*coord.Lock, error) { return c.TryLock(coord.WithOwner(e.ctx), key) },
		"nobody's context, the same client": func() (*coord.Lock, error) { return c.TryLock(e.ctx, key) },
		"the same owner in another client":  func() (*coord.Lock, error) { return e.client().TryLock(ctx, key) },
	} {
		_, err := try()
		e.wantError(err, "TryLock by "+who, coord.ErrLocked)
	}
	other, err := c.TryLock(ctx, e.key("other"))
	e.noError(err, "TryLock of another key by the same owner")
	e.gaveBack(other.Unlock(ctx), "Unlock of the other key")
	started := make(chan struct{})
	excluded := make(chan error, 1)
	coord.Go(ctx, func(ctx context.Context) {
		close(started)
		_, err := c.TryLock(ctx, key)
		excluded <- err
	})
	<-started
	e.wantError(recv(e, excluded, soon, "a goroutine of coord.Go"), "TryLock in a goroutine of coord.Go", coord.ErrLocked)
	e.gaveBack(l.Unlock(ctx), "Unlock")
}

// takeTurns has goroutines that share the context of a lock, of a leader and of nothing take another key, each in all ways.
func takeTurns(e *env) {
	const goroutines = 8
	c, key := e.client(), e.key("account")
	var ways []func(ctx context.Context, fn func(context.Context) error) error
	by := func(l coord.Locker) {
		ways = append(ways, func(ctx context.Context, fn func(context.Context) error) error {
			return coord.Do(ctx, l, key, fn, coord.TTL(e.long))
		})
	}
	by(c)
	ways = append(ways, func(ctx context.Context, fn func(context.Context) error) error {
		return e.doAll(ctx, c, []string{key}, fn, coord.TTL(e.long))
	})
	if e.info.Claims.Has(driver.Shared) {
		by(c.ReadWrite().Write())
		by(c.Semaphore(1))
	}
	outer := map[string]func(fn func(context.Context) error) error{
		"nothing": func(fn func(context.Context) error) error { return fn(e.ctx) },
		"a lock": func(fn func(context.Context) error) error {
			return coord.Do(e.ctx, c, e.key("batch"), fn, coord.TTL(e.long))
		},
		"a leader": func(fn func(context.Context) error) error {
			return e.lead(e.ctx, c, e.key("batch"), fn, coord.TTL(e.long))
		},
		"the same lock": func(fn func(context.Context) error) error {
			return coord.Do(e.ctx, c, key, fn, coord.TTL(e.long))
		},
	}
	for name, under := range outer {
		for _, way := range ways {
			s := &section{e: e}
			err := under(func(ctx context.Context) error {
				crowd(1, goroutines, e.plain, func(*coord.Client, int, int) {
					err := way(ctx, func(context.Context) error {
						s.guarded("goroutines under "+name, 1, func() { e.pass(time.Millisecond) })
						return nil
					})
					if err != nil {
						e.Errorf("a goroutine under %s: saw %v, want its turn", name, err)
					}
				})
				return nil
			})
			e.noError(err, "a fan-out under "+name)
			s.visited(goroutines)
		}
	}
}

func doNests(e *env) {
	c, key, rival := e.client(), e.key("k"), e.open()
	failed := errors.New("the work's own error")
	err := coord.Do(e.ctx, c, key, func(ctx context.Context) error {
		outer, ok := coord.Held(ctx, key)
		if !ok {
			e.Fatalf("Held inside Do: saw nothing, want the lock")
		}
		ran, err := coord.TryDo(ctx, c, key, func(ctx context.Context) error {
			if inner, ok := coord.Held(ctx, key); !ok || inner.Token() != outer.Token() {
				e.Errorf("Held inside a nested Do: want the outer hold's token")
			}
			return nil
		})
		if !ran || err != nil {
			e.Errorf("TryDo inside Do: saw ran %v, error %v, want it to run", ran, err)
		}
		e.refused(rival, key, "inside Do, after a nested Do")
		return failed
	}, coord.TTL(e.long))
	e.wantError(err, "Do", failed)
	e.free(rival, key, time.Second, "after Do")
	e.panics("Do", func(fn func(context.Context) error) error {
		return coord.Do(e.ctx, c, key, fn, coord.TTL(e.long))
	})
	e.free(rival, key, time.Second, "after a panic in Do")
	r := e.req(e.long)
	e.take(rival, key, r)
	ran, err := coord.TryDo(e.ctx, c, key, func(context.Context) error { return nil })
	if ran || err != nil {
		e.Errorf("TryDo of a held key: saw ran %v, error %v, want neither", ran, err)
	}
	e.end(rival, key, r.ID, "Unlock")
}
