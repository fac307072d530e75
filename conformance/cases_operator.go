package conformance

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
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
			Remedy: "let BreakNow, or Unlock without it, free the hold of the id that it is given, through any client",
		}, {
			ID: "LOCK-288", Name: "break-now-frees-what-is-kept", Clause: "L12", run: breaksKept, Proves: driver.Break,
			Why:    "after Break, which is tried first, or under a MinHold, a dead holder's key stayed taken for an hour, and nothing freed it",
			Remedy: "keep the id of the last holder with a key that is only kept taken, and let BreakNow of it free the key and wake the first waiter",
		}, {
			ID: "LOCK-286", Name: "list-names-what-is-held", Clause: "L12", run: lists, Proves: driver.List,
			Why:    "in an incident nobody knows the names of the locks; a list that leaves one out hides the one that hangs",
			Remedy: "give back the keys as they were before you encoded them, with those that are only kept taken, and without limits and tokens",
		}, {
			ID: "LOCK-287", Name: "refusal-names-who-holds", Clause: "L12", run: refusalNames,
			Why:    "who reads that a lock is taken looks for its holder; a wrong name sends them to a process that has nothing to do with it",
			Remedy: "set LockedError.Holder to the id that the refusing request itself has read, and leave it empty where nobody holds",
		},
	}
}

func inspect(e *env) {
	b, in := e.injected()
	c, key := e.clientOn(b), e.key("k")
	i := e.open()
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
	e.gaveBack(l.Unlock(e.ctx), "Unlock")
	_, err = i.Inspect(e.within(soon), key)
	e.wantError(err, "Inspect after Unlock", driver.ErrNotHeld)
}

func breaks(e *env) {
	e.growing(2*e.ttl, breaksHold)
}

func breaksHold(e *env, ttl time.Duration) (early bool) {
	b, in := e.injected()
	key, operator, rival := e.key("k"+ttl.String()), e.client(), e.open()
	l := e.lock(e.clientOn(b), key, coord.TTL(ttl))
	id := in.lastID("TryLock", key)
	e.wantError(operator.Break(e.ctx, key, e.newID()), "Break of an id that does not hold", coord.ErrNotHeld)
	until := l.Deadline()
	broken := operator.Break(e.ctx, key, id)
	r := e.req(e.long)
	_, tried := rival.TryLock(e.within(soon), key, r)
	if time.Now().After(until) {
		return true
	}
	e.noError(broken, "Break of the holder's id")
	e.wantError(tried, "TryLock right after Break: want the key kept taken until the lease lapses", driver.ErrLocked)
	e.wantError(operator.Break(e.ctx, key, id), "second Break", coord.ErrNotHeld)
	e.lossFirst(l, lockKind, key)
	return false
}

func breaksNow(e *env) {
	b, in := e.injected()
	key, operator := e.key("k"), e.client()
	l := e.lock(e.clientOn(b), key, coord.TTL(e.keep))
	id := in.lastID("TryLock", key)
	e.wantError(operator.BreakNow(e.ctx, key, e.newID()), "BreakNow of an id that does not hold", coord.ErrNotHeld)
	e.noError(l.Err(), "Err after the BreakNow of another id")
	e.noError(operator.BreakNow(e.ctx, key, id), "BreakNow of the holder's id")
	next := e.lock(operator, key, coord.TTL(e.long))
	recv(e, l.Done(), l.TTL()+time.Second, "Done of the broken hold")
	e.wantError(operator.BreakNow(e.ctx, key, id), "BreakNow of the holder before", coord.ErrNotHeld)
	e.wantError(l.Unlock(e.ctx), "Unlock of the broken hold", coord.ErrLost)
	e.noError(next.Err(), "Err of the next holder")
	e.gaveBack(next.Unlock(e.ctx), "Unlock by the next holder")
}

// breaksKept frees keys that are kept, for who waits and for who does not.
func breaksKept(e *env) {
	breaker := e.open()
	operator := e.client()
	frees := func(key, id, what string) {
		other, rival := e.req(e.long), e.open()
		e.wantError(breaker.BreakNow(e.within(soon), key, other.ID), "BreakNow of another id, of a key that is kept "+what, driver.ErrNotHeld)
		_, err := rival.TryLock(e.within(soon), key, e.req(e.long))
		e.wantError(err, "TryLock of a key that is kept "+what, driver.ErrLocked)
		_, _, waiter := e.waiting(e.ctx, key, coord.TTL(e.long))
		e.noError(operator.BreakNow(e.ctx, key, id), "BreakNow of who held a key that is kept "+what)
		e.noError(recv(e, waiter, soon, "who waits for a key that BreakNow has freed"), "Lock of a key that BreakNow has freed")
		e.take(rival, key, other)
		e.wantError(operator.BreakNow(e.ctx, key, id), "BreakNow of who held the key before", coord.ErrNotHeld)
		e.renew(rival, key, other, "Renew by the next holder")
		e.end(rival, key, other.ID, "Unlock by the next holder")
	}
	key, holder, r := e.key("broken"), e.open(), e.req(e.long)
	e.take(holder, key, r)
	e.noError(breaker.Break(e.within(soon), key, r.ID), "Break of the holder's id")
	frees(key, r.ID, "after Break")
	e.notRenewed(holder, key, r, "Renew of a hold that was broken")

	key = e.key("min-hold")
	b, in := e.injected()
	l := e.lock(e.clientOn(b), key, coord.TTL(e.long), coord.MinHold(e.long))
	id := in.lastID("TryLock", key)
	e.gaveBack(l.Unlock(e.ctx), "Unlock with a MinHold")
	frees(key, id, "by MinHold")
}

// refusalNames fails the case if a refusal names another than the holder.
func refusalNames(e *env) {
	a, b, key := e.open(), e.open(), e.key("k")
	r := e.req(e.long)
	names := func(what, want string) {
		_, err := b.TryLock(e.within(soon), key, e.req(e.long))
		var locked *driver.LockedError
		switch {
		case !e.wantError(err, "TryLock of a key "+what, driver.ErrLocked):
		case want != "" && (!errors.As(err, &locked) || locked.Holder == ""):
			e.Unsupported("the store's refusal does not name the holder")
		case errors.As(err, &locked) && locked.Holder != want:
			e.Errorf("TryLock of a key %s: saw %q named as the holder, want %q", what, locked.Holder, want)
		}
	}
	for _, what := range []string{"that is held", "that another holds now"} {
		r = e.req(e.long)
		e.take(a, key, r)
		names(what, r.ID)
		if what == "that is held" {
			e.end(a, key, r.ID, "Unlock by the holder")
		}
	}
	if e.info.Claims.Has(driver.Break) {
		e.noError(b.Break(e.within(soon), key, r.ID), "Break of the holder's id")
		names("that is kept after a Break", "")
	}
}

func lists(e *env) {
	lister := e.open()
	locks, prefix := e.open(), e.key("list/")
	ids := map[string]string{}
	take := func(key string) {
		r := e.req(e.long)
		_, err := locks.TryLock(e.within(soon), key, r)
		e.noError(err, "TryLock of "+key)
		ids[key] = r.ID
	}
	wants := func(what string) {
		want := slices.DeleteFunc(slices.Sorted(maps.Keys(ids)), func(key string) bool { return !strings.HasPrefix(key, prefix) })
		if got := e.listed(lister, prefix); !slices.Equal(got, want) {
			e.Errorf("List %s: saw %d keys, want %d: missing %q, too many %q", what, len(got), len(want), without(want, got), without(got, want))
		}
	}
	wants("before anything is held")
	for _, name := range nasty() {
		if !e.tooLong(prefix + name) {
			take(prefix + name)
		}
	}
	take(strings.TrimSuffix(prefix, "/"))
	take(strings.ToUpper(prefix) + "a")
	wants("of what is held")
	c := e.client(coord.WithPrefix(prefix))
	e.gaveBack(e.lock(c, "kept", coord.TTL(e.long), coord.MinHold(e.long)).Unlock(e.ctx), "Unlock with a MinHold")
	ids[prefix+"kept"] = ""
	n := 0
	for _, key := range slices.Sorted(maps.Keys(ids)) {
		if n++; n%2 == 0 && ids[key] != "" {
			e.end(locks, key, ids[key], "Unlock of "+key)
			delete(ids, key)
		}
	}
	wants("after some were given back, and one is kept taken")
	for key, err := range c.List(e.within(soon), "ke") {
		e.noError(err, "Client.List")
		if key != "kept" {
			e.Errorf("Client.List with a prefix: saw %q, want %q", key, "kept")
		}
	}
	if e.info.Claims.Has(driver.Shared) {
		e.listsShares()
	}
}

// listsShares: keys that several hold are listed as long as one does, and not among locks.
func (e *env) listsShares() {
	b := e.open()
	sharers, lister, prefix := b.Shared(), e.open().Shared(), e.key("shares/")
	wants := func(what string, want ...string) {
		if got := e.listed(lister, prefix); !slices.Equal(got, want) {
			e.Errorf("List of keys that several hold, %s: saw %q, want %q", what, got, want)
		}
	}
	wants("before anything is held")
	holds := map[string][]string{}
	for key, shares := range map[string][]driver.Share{"a": {reader, reader}, "b": {writer}, "c": {permits(1, 3)}} {
		for _, s := range shares {
			r := e.share(s, e.long)
			_, err := sharers.TryLock(e.within(soon), prefix+key, r)
			e.noError(err, "TryLock of a shared hold")
			holds[key] = append(holds[key], r.ID)
		}
	}
	wants("of what is held", prefix+"a", prefix+"b", prefix+"c")
	if got := e.listed(b, prefix); len(got) > 0 {
		e.Errorf("List of locks: saw %q, which several hold", got)
	}
	for _, id := range []string{holds["a"][0], holds["b"][0]} {
		key := prefix + map[bool]string{true: "a", false: "b"}[id == holds["a"][0]]
		e.noError(sharers.Unlock(e.within(soon), key, id), "Unlock of a shared hold")
	}
	wants("after one of two readers and the writer have gone", prefix+"a", prefix+"c")
	c, seen := e.client(coord.WithPrefix(prefix)), []string{}
	for key, err := range c.List(e.within(soon), "") {
		e.noError(err, "Client.List")
		seen = append(seen, key)
	}
	if len(seen) > 0 {
		e.Errorf("Client.List: saw %q, which are no keys of a client", seen)
	}
	held, err := c.ReadWrite().Read().Lock(e.within(soon), "read", coord.TTL(e.long))
	e.noError(err, "Lock of a reader")
	for key, err := range c.List(e.within(soon), "") {
		e.noError(err, "Client.List")
		if key != "read" {
			e.Errorf("Client.List: saw %q, want the key that a reader holds", key)
		}
		seen = append(seen, key)
	}
	if len(seen) == 0 {
		e.Errorf("Client.List: saw nothing, want the key that a reader holds")
	}
	e.gaveBack(held.Unlock(e.ctx), "Unlock of a reader")
}

// listed is what List yields, each key once.
func (e *env) listed(lister interface {
	List(context.Context, string) iter.Seq2[string, error]
}, prefix string,
) (keys []string) {
	for key, err := range lister.List(e.within(soon), prefix) {
		e.noError(err, "List")
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// without gives what is in a and not in b.
func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(key string) bool { return slices.Contains(b, key) })
}
