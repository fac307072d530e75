package conformance

import (
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

func operatorCases() []Case {
	return []Case{
		{
			ID: "LOCK-95", Name: "inspect-shows-the-holder", Clause: "L12", run: inspect, Proves: driver.Inspect,
			Why:    "the first question in an incident is who holds the lock",
			Remedy: "store the id as it is, so that Inspect can show it, or do not claim inspect",
		}, {
			ID: "LOCK-96", Name: "break-revokes-and-keeps-the-key", Clause: "L12", run: breaks, Proves: driver.Break,
			Why:    "deleting a lock by hand gives it to the next one while its holder still works",
			Remedy: "replace the id under the entry's lease, so that the key stays taken; or do not claim break",
		}, {
			ID: "LOCK-97", Name: "break-now-frees-at-once", Clause: "L12", run: breaksNow,
			Why:    "an operator who knows that the holder is dead does not want to wait for its lease, nor to hit the next holder",
			Remedy: "let Unlock of any client free the hold of the id that it is given",
		},
	}
}

func inspect(e *env) {
	b, in := e.injected()
	c, key := e.clientOn(b), e.key("k")
	i, ok := e.open().(driver.Inspector)
	if !ok {
		e.Fatalf("the store is no driver.Inspector")
	}
	_, err := i.Inspect(e.within(soon), key)
	e.wantError(err, "Inspect of a free key", driver.ErrNotHeld)
	l := e.lock(c, key, coord.TTL(e.long))
	h, err := i.Inspect(e.within(soon), key)
	e.noError(err, "Inspect of a held key")
	if want := in.lastID("TryLock", key); h.ID != want || h.Name == "" || h.PID == 0 || h.Since.IsZero() {
		e.Errorf("Inspect: saw id %q, name %q, pid %d, since %v, want id %q and what it tells", h.ID, h.Name, h.PID, h.Since, want)
	}
	if h.TTL <= 0 || h.TTL > l.TTL()+e.info.TTLStep+time.Second || h.Released {
		e.Errorf("Inspect: saw TTL %v, released %v, want what is left of %v and not released", h.TTL, h.Released, l.TTL())
	}
	whole, err := e.client().Inspect(e.ctx, key)
	e.noError(err, "Client.Inspect")
	if whole.Token != l.Token() {
		e.Errorf("Client.Inspect: saw token %d, want the holder's %d", whole.Token, l.Token())
	}
	e.noError(l.Unlock(e.ctx), "Unlock")
	_, err = i.Inspect(e.within(soon), key)
	e.wantError(err, "Inspect after Unlock", driver.ErrNotHeld)
}

func breaks(e *env) {
	b, in := e.injected()
	key, operator := e.key("k"), e.client()
	if _, ok := e.open().(driver.Breaker); !ok {
		e.Fatalf("the store is no driver.Breaker")
	}
	l := e.lock(e.clientOn(b), key, coord.TTL(e.round(2*e.ttl)))
	id := in.lastID("TryLock", key)
	e.wantError(operator.Break(e.ctx, key, e.newID()), "Break of an id that does not hold", coord.ErrNotHeld)
	e.noError(l.Err(), "Err after the Break of another id")
	e.noError(operator.Break(e.ctx, key, id), "Break of the holder's id")
	e.refused(e.locker(), key, "right after Break: want the key kept taken until the lease lapses")
	e.wantError(operator.Break(e.ctx, key, id), "second Break", coord.ErrNotHeld)
	e.lossFirst(l, key)
}

func breaksNow(e *env) {
	b, in := e.injected()
	key, operator := e.key("k"), e.client()
	l := e.lock(e.clientOn(b), key, coord.TTL(e.round(2*e.ttl)))
	id := in.lastID("TryLock", key)
	e.wantError(operator.BreakNow(e.ctx, key, e.newID()), "BreakNow of an id that does not hold", coord.ErrNotHeld)
	e.noError(l.Err(), "Err after the BreakNow of another id")
	e.noError(operator.BreakNow(e.ctx, key, id), "BreakNow of the holder's id")
	next := e.lock(operator, key, coord.TTL(e.long))
	recv(e, l.Done(), l.TTL()+time.Second, "Done of the broken hold")
	e.wantError(operator.BreakNow(e.ctx, key, id), "BreakNow of the holder before", coord.ErrNotHeld)
	e.wantError(l.Unlock(e.ctx), "Unlock of the broken hold", coord.ErrLost)
	e.noError(next.Err(), "Err of the next holder")
	e.noError(next.Unlock(e.ctx), "Unlock by the next holder")
}
