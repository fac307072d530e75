package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/conformance/internal/history"
	"github.com/coordgo/coord/driver"
)

func lossCases() []Case {
	return []Case{
		{
			ID: "LOCK-10", Name: "lapse-is-seen-before-regrant", Clause: "L3", run: lapse,
			Why:    "a lease counted from the reply, and not from the send, ends after the store's",
			Remedy: "set Grant.Since to before the request was sent, and Grant.TTL to what the store really granted",
		}, {
			ID: "LOCK-13", Name: "frozen-holder-knows-and-is-fenced", Clause: "L3", run: frozenWriters(1), Hooks: []Hook{HookWorker},
			Why:    "a paused process wakes up after its lease and writes; only its token can stop it (the classic pause)",
			Remedy: "let leases run out in the store by themselves, and raise the token at the next grant",
		}, {
			ID: "LOCK-14", Name: "removed-entry-is-seen-by-the-next-renewal", Clause: "L3", run: removed,
			Why:    "an evicted or deleted entry whose renewal quietly re-creates it gives two holders",
			Remedy: "let Renew compare the id in the store, and answer ErrNotHeld if it is another or none",
		}, {
			ID: "LOCK-15", Name: "paused-store-loses-at-the-deadline", Clause: "L3", run: pausedStore, Hooks: []Hook{HookPause},
			Why:    "a store that is stopped answers nothing and refuses nothing; the deadline is local",
			Remedy: "return from every call at the end of its context, though the store says nothing",
		}, {
			ID: "LOCK-16", Name: "loss-ends-the-work", Clause: "L3", run: lossEndsWork,
			Why:    "work that is not told goes on beside the next holder's",
			Remedy: "answer ErrNotHeld at a renewal, and at an unlock, of what is gone",
		}, {
			ID: "LOCK-17", Name: "wiped-store-is-never-renewed", Clause: "L3", run: wiped, Hooks: []Hook{HookWipe},
			Why:    "a store that comes back empty grants to others: a renewal that re-creates what was there is a second holder",
			Remedy: "never let Renew create what it does not find",
		}, {
			ID: "LOCK-18", Name: "loss-is-pushed", Clause: "L3", run: lossPushed, Proves: driver.LossPush,
			Why:    "a holder that learns of its loss at the next renewal works on for a third of its lease",
			Remedy: "watch the holder's entry and report its removal by NotifyLost, or do not claim loss-push",
		},
	}
}

// lossFirst lets a rival take key and checks that its holder knew before.
func (e *env) lossFirst(l *coord.Lock, k *kind, key string) {
	rival, key, r := k.at(e.open()), k.key(key), e.share(k.barred, e.long)
	ctx, stop := l.Context(e.ctx)
	defer stop()
	// Where a hold has the lease of a session, its client gives it up when its own TTL is over.
	g, _ := e.seize(rival, key, r, e.lapse(max(l.TTL(), e.round(2*e.ttl))), "whose holder cannot renew")
	closed := false
	select {
	case <-l.Done(): // before Err, which would close it
		closed = true
	default:
	}
	err, cause := l.Err(), context.Cause(ctx)
	if !errors.Is(err, coord.ErrLost) {
		e.Errorf("the holder's Err when a rival was granted: saw %v, want ErrLost", err)
	}
	recv(e, l.Done(), time.Second, "Done of the holder, after a rival was granted")
	switch { // they are told by a timer and other goroutines, which a machine may run late
	case e.timely() && !closed:
		e.Errorf("the holder's Done: saw it open when a rival was granted, want it closed before")
	case e.timely():
		e.wantError(cause, "cause of the holder's context when a rival was granted", coord.ErrLost)
	default:
		<-ctx.Done() // it ends with the hold
		e.wantError(context.Cause(ctx), "cause of the holder's context", coord.ErrLost)
	}
	rises(e, "the rival", g.Token, int64(l.Token()>>10))
	e.wantError(l.Unlock(e.ctx), "Unlock after the loss", coord.ErrLost)
	e.renew(rival, key, r, "the rival's Renew after the loser's Unlock")
}

// margin is what a holder takes off its lease for clocks that drift.
func margin(ttl time.Duration) time.Duration { return history.Margin(ttl) }

func lapse(e *env) {
	key := e.key("k")
	e.lossFirst(e.lock(e.client(), key, coord.TTL(e.round(2*e.ttl)), coord.NoRenew()), lockKind, key)
}

// blackHoled has one client lose several locks at once.
func blackHoled(k *kind) func(*env, pathTo) {
	return func(e *env, path pathTo) {
		const locks = 5
		b, link := path(e)
		c, held := k.locker(e.clientOn(b)), make(map[string]*coord.Lock)
		for i := range locks {
			key := e.key(fmt.Sprint("k", i))
			held[key] = e.lock(c, key, coord.TTL(e.round(2*e.ttl)))
		}
		blackHole(link)
		for key, l := range held {
			e.lossFirst(l, k, key)
		}
	}
}

func removed(e *env) {
	b, in := e.injected()
	key := e.key("k")
	rival, r := e.open(), e.req(e.long)
	l := e.lock(e.clientOn(b), key, coord.TTL(e.keep)) // it is removed, and does not lapse
	e.end(rival, key, in.lastID("TryLock", key), "removal of the entry by its id")
	e.take(rival, key, r)
	recv(e, l.Done(), l.TTL()/3+500*time.Millisecond, "the holder's Done, one renewal after its entry was removed")
	e.wantError(l.Err(), "the holder's Err after its entry was removed", coord.ErrLost)
	e.wantError(l.Unlock(e.ctx), "Unlock after the loss", coord.ErrLost)
	if _, err := rival.Renew(e.within(soon), key, r); err != nil {
		e.Errorf("the next holder's Renew: saw %v, want its hold untouched", err)
	}
}

func pausedStore(e *env) {
	f, key := e.r.suite.Harness.Faults, e.key("k")
	l := e.lock(e.client(), key, coord.TTL(e.ttl))
	f.Pause(e)
	resume := func() { f.Resume(e) }
	e.Cleanup(func() { resume() })
	recv(e, l.Done(), l.TTL()+500*time.Millisecond, "the holder's Done while the store is stopped")
	at := time.Now()
	e.wantError(l.Err(), "the holder's Err while the store is stopped", coord.ErrLost)
	if late := at.Sub(l.Deadline()); e.timely() && late > 0 {
		e.Errorf("the holder's Done: saw it close %v after Deadline, want at Deadline at the latest", late)
	}
	began := time.Now()
	e.wantError(l.Unlock(e.ctx), "Unlock after the loss, while the store is stopped", coord.ErrLost)
	e.inTime(began, 2*time.Second+prompt, "Unlock while the store is stopped")
	f.Resume(e)
	resume = func() {}
	e.free(e.open(), key, e.lapse(l.TTL()), "after the store went on")
}

// operatorUnlock removes a hold of a short lease, which may have lapsed before.
func (e *env) operatorUnlock(l driver.Locker, key, id string) {
	if err := l.Unlock(e.within(soon), key, id); !errors.Is(err, driver.ErrNotHeld) {
		e.noError(err, "removal of the entry by its id")
	}
}

func wiped(e *env) {
	key := e.key("k")
	l := e.lock(e.client(), key, coord.TTL(e.ttl))
	wipe(e)
	recv(e, l.Done(), l.TTL()+500*time.Millisecond, "the holder's Done after the store lost everything")
	e.wantError(l.Err(), "the holder's Err after the store lost everything", coord.ErrLost)
	e.free(e.open(), key, time.Second, "after the store lost everything")
	e.wantError(l.Unlock(e.ctx), "Unlock after the loss", coord.ErrLost)
}

func lossPushed(e *env) {
	b, in := e.injected()
	key := e.key("k")
	l := e.lock(e.clientOn(b), key, coord.TTL(e.long))
	e.end(e.open(), key, in.lastID("TryLock", key), "removal of the entry by its id")
	recv(e, l.Done(), time.Second, "the holder's Done, long before its next renewal")
	e.wantError(l.Err(), "Err after a loss that was pushed", coord.ErrLost)
	if n := in.count("Renew") + in.count("RenewAll"); n > 0 {
		e.Errorf("renewals before the holder's Done: saw %d, want the loss to be told without one", n)
	}
}

func lossEndsWork(e *env) {
	b, in := e.injected()
	c, key := e.clientOn(b), e.key("k")
	rival := e.open()
	failed := errors.New("the work's own error")
	began := make(chan struct{})
	var cause error
	result := async(func() error {
		return coord.Do(e.ctx, c, key, func(ctx context.Context) error {
			close(began)
			<-ctx.Done()
			cause = context.Cause(ctx)
			return failed
		}, coord.TTL(e.ttl))
	})
	recv(e, began, soon, "Do to begin its work")
	e.operatorUnlock(rival, key, in.lastID("TryLock", key))
	err := recv(e, result, e.ttl+2*time.Second, "Do to return after a loss")
	e.wantError(err, "Do after a loss", coord.ErrLost, failed)
	e.wantError(cause, "cause of the work's context", coord.ErrLost)
	e.free(rival, key, 2*time.Second, "after Do has returned")
	// Work that ignores its context is told by Do's result all the same.
	err = coord.Do(e.ctx, c, key, func(context.Context) error {
		return rival.Unlock(e.within(soon), key, in.lastID("TryLock", key))
	}, coord.TTL(e.keep))
	e.wantError(err, "Do whose hold was removed while it worked", driver.ErrNotHeld)
}
