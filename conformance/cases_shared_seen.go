package conformance

import (
	"slices"
	"strings"
	"time"

	"github.com/coordgo/coord/conformance/internal/history"
	"github.com/coordgo/coord/driver"
)

func showsHolders(e *env) {
	a, b, key := e.shared(), e.shared(), e.key("k")
	if seen := e.sharersOf(a, key); len(seen) != 0 {
		e.Errorf("Holders of a free key: saw %d, want none", len(seen))
	}
	one, g := e.enter(a, key, permits(2, 9), "2 of 9")
	two, h := e.enter(b, key, permits(3, 8), "3 of 8 beside 2")
	e.keptOut(b, key, permits(8, 8), "8 of 8 beside 5")
	seen := e.sharersOf(a, key)
	if len(seen) != 2 {
		e.Errorf("Holders: saw %d, want 2", len(seen))
	}
	e.shows(seen, one, g)
	e.shows(seen, two, h)
	less := one
	less.Share.Weight = 1
	e.renew(a, key, less, "Renew with a smaller weight")
	e.shows(e.sharersOf(b, key), less, g)
	e.leave(a, key, one)
	if seen := e.sharersOf(b, key); len(seen) != 1 || seen[two.ID].ID == "" {
		e.Errorf("Holders after the other one has left: saw %d, want the one that holds", len(seen))
	}
	e.leave(b, key, two)
	rw := e.key("readers")
	write, g := e.enter(a, rw, writer, "a writer")
	e.shows(e.sharersOf(b, rw), write, g)
	less = write
	less.Share = reader
	e.renew(a, rw, less, "Renew of a writer as a reader")
	e.shows(e.sharersOf(b, rw), less, g)
	e.leave(a, rw, write)
	if seen := e.sharersOf(b, rw); len(seen) != 0 {
		e.Errorf("Holders after all have left: saw %d, want none", len(seen))
	}
}

// shows fails the case unless r is among the holders, as it was granted.
func (e *env) shows(seen map[string]driver.Holder, r driver.Request, g driver.Grant) {
	h, ok := seen[r.ID]
	if !ok {
		e.Errorf("Holders: saw %s missing, want every hold", history.ShortID(r.ID))
		return
	}
	got := driver.Share{Mode: h.Mode, Weight: h.Weight, Of: h.Of}
	if got != r.Share || h.Slot != g.Slot || int64(h.Token) != g.Token || h.Released {
		e.Errorf("Holders: saw %+v, slot %d, token %d, released %v, want %+v, slot %d, token %d, and not released", got, h.Slot, h.Token, h.Released, r.Share, g.Slot, g.Token)
	}
	if h.Name == "" || h.PID == 0 || h.Since.IsZero() {
		e.Errorf("Holders: saw name %q, pid %d, since %v, want what the id says", h.Name, h.PID, h.Since)
	}
	if h.TTL <= 0 || h.TTL > g.TTL+e.lapse(0) {
		e.Errorf("Holders: saw %v left of a lease of %v", h.TTL, g.TTL)
	}
}

// breaksShare revokes one of two holds.
func breaksShare(e *env) {
	a, b := e.shared(), e.shared()
	e.growing(2*e.ttl, func(e *env, ttl time.Duration) bool { return e.breaksOne(a, b, ttl) })
}

// breaksShareNow frees a share of each kind, as it is and after it was broken.
func breaksShareNow(e *env) {
	a, b := e.shared(), e.shared()
	for _, broken := range []bool{false, true} {
		for _, k := range []*kind{permitKind, writeKind, readKind} {
			what, s, full := k.name, k.share, k.whole
			if broken {
				what += " that was broken"
			}
			key, r := e.key(what), e.share(s, e.long)
			e.entered(a, key, r, what)
			var beside driver.Request
			if s.Mode != driver.Write {
				beside, _ = e.enter(a, key, s, "beside "+what)
			}
			if broken {
				e.noError(b.Break(e.within(soon), key, r.ID), "Break of "+what)
			}
			e.wantError(b.BreakNow(e.within(soon), key, e.newID()), "BreakNow of an id that has nothing, beside "+what, driver.ErrNotHeld)
			e.keptOut(b, key, full, "all of the key beside "+what)
			e.noError(b.BreakNow(e.within(soon), key, r.ID), "BreakNow of "+what)
			e.wantError(b.BreakNow(e.within(soon), key, r.ID), "second BreakNow of "+what, driver.ErrNotHeld)
			e.notRenewed(a, key, r, "Renew after BreakNow of "+what)
			if beside.ID != "" {
				e.keptOut(b, key, full, "all of the key beside the other hold, after BreakNow of "+what)
				e.renew(a, key, beside, "Renew of the hold beside "+what)
				e.leave(a, key, beside)
			}
			e.passes(b, key, full, "all of the key after BreakNow of "+what)
		}
	}
}

func (e *env) breaksOne(a, b driver.SharedLocker, ttl time.Duration) (early bool) {
	key, r := e.key("k"+ttl.String()), e.share(permits(1, 2), ttl)
	start := time.Now()
	g := e.entered(a, key, r, "1 of 2")
	other, _ := e.enter(a, key, permits(1, 2), "1 of 2 beside 1")
	e.wantError(b.Break(e.within(soon), key, e.newID()), "Break of an id that does not hold", driver.ErrNotHeld)
	err := b.Break(e.within(soon), key, r.ID)
	broken := time.Since(start)
	if broken > g.TTL/2 {
		return true
	}
	e.noError(err, "Break of one of two")
	e.notRenewed(a, key, r, "Renew of a broken hold")
	e.wantError(a.Unlock(e.within(soon), key, r.ID), "Unlock of a broken hold", driver.ErrNotHeld)
	e.renew(a, key, other, "Renew of the hold beside a broken one")
	switch h, ok := e.sharersOf(b, key)[r.ID]; {
	case ok && !h.Released:
		e.Errorf("Holders: saw a broken hold shown as held, want it shown as released")
	case !ok && time.Since(start) < g.TTL:
		e.Errorf("Holders: saw a broken hold not shown, want it shown until its lease ends")
	}
	next, _, at := e.lapsed(b, key, permits(1, 2), g.TTL, "one of whose holds is broken")
	if kept := at.Sub(start); kept < g.TTL-5*time.Millisecond {
		e.Errorf("the permit of a broken hold with a lease of %v: saw it granted to another after %v", g.TTL, kept)
	}
	e.keptOut(b, key, permits(1, 2), "1 of 2 beside 2")
	e.leave(a, key, other)
	e.leave(b, key, next)
	return false
}

// sharedKeysApart uses keys that look alike, and the other halves of the store under one of them.
func sharedKeysApart(e *env) {
	b := e.open()
	l, key := b.Shared(), e.key("one name")
	keys := []string{key, key + "\x00", key + "\x00r", key + "\x00s", key + "/", key + "/a", key + " ", strings.ToUpper(key), "\x00" + key, key + "%00"}
	held := make(map[string]driver.Request)
	for _, k := range slices.DeleteFunc(keys, e.tooLong) {
		held[k], _ = e.enter(l, k, writer, "a writer of a key like another one")
	}
	for k := range held {
		if n := len(e.sharersOf(l, k)); n != 1 {
			e.Errorf("Holders of %q: saw %d, want its own alone", k, n)
		}
	}
	if e.r.locks {
		r := e.req(e.long)
		e.take(b, key, r)
		e.wantError(b.Unlock(e.within(soon), key, held[key].ID), "Unlock as an exclusive lock of a shared hold", driver.ErrNotHeld)
		e.wantError(l.Unlock(e.within(soon), key, r.ID), "Unlock as a shared hold of an exclusive lock", driver.ErrNotHeld)
		e.keptOut(l, key, reader, "a reader beside a writer, and an exclusive lock of that name")
		e.refused(b, key, "while it is held, and a shared lock of that name, too")
		e.end(b, key, r.ID, "Unlock of an exclusive lock of the name of a shared one")
		e.keptOut(l, key, reader, "a reader beside a writer, after the exclusive lock of that name")
	}
	if e.r.limits {
		limit := normal(driver.Limit{Rate: 2, Per: time.Hour})
		e.grantedN(e.ask(b, key, limit, 1, 1), 1, "Take beside a shared hold of the same key")
		e.noError(b.Reset(e.within(soon), key, limit), "Reset beside a shared hold of the same key")
		e.keptOut(l, key, reader, "a reader beside a writer, after the Reset of a limit of that name")
	}
	for k, r := range held {
		e.leave(l, k, r)
	}
}
