package conformance

import (
	"fmt"
	"time"

	"github.com/coordgo/coord/driver"
)

// deadShare leaves one of two permits, and one of two readers, to lapse.
func deadShare(e *env) {
	a, b, key, rw := e.shared(), e.shared(), e.key("permits"), e.key("readers")
	live, _ := e.enter(b, key, permits(1, 2), "1 of 2")
	stays, _ := e.enter(b, rw, reader, "a reader")
	dead, gone := e.share(permits(1, 2), e.ttl), e.share(reader, e.ttl)
	start := time.Now()
	g := e.entered(a, key, dead, "1 of 2 beside 1")
	e.entered(a, rw, gone, "a reader beside a reader")
	// To renew one renews no other.
	for k, r := range map[string]driver.Request{key: live, rw: stays} {
		e.renew(b, k, r, "Renew of a live hold")
	}
	if free := e.share(permits(1, 2), e.ttl); time.Since(start) < g.TTL/2 {
		if _, err := b.TryLock(e.within(soon), key, free); err == nil && time.Since(start) < g.TTL {
			e.Errorf("1 of 2 beside 2, while the leases last: saw a grant, want ErrLocked")
		} else if err == nil {
			_ = b.Unlock(e.within(soon), key, free.ID) // or it has lapsed on a machine that is too slow
		}
	}
	next, h, at := e.lapsed(b, key, permits(1, 2), g.TTL, "whose holder is dead")
	if kept := at.Sub(start); kept < g.TTL-5*time.Millisecond {
		e.Errorf("a lease of %v: saw its permit granted to another after %v", g.TTL, kept)
	}
	rises(e, "the next holder", h.Token, g.Token)
	if h.Slot != g.Slot {
		e.Errorf("slot of the next holder: saw %d, want %d, which the dead one had", h.Slot, g.Slot)
	}
	// Who is over touches nobody.
	e.notRenewed(a, key, dead, "Renew of a hold that has lapsed")
	e.wantError(a.Unlock(e.within(soon), key, dead.ID), "Unlock of a hold that has lapsed", driver.ErrNotHeld)
	e.keptOut(a, key, permits(1, 2), "1 of 2 beside the live one and the successor")
	_, err := a.TryLock(e.within(soon), key, e.share(permits(1, 2), e.round(time.Millisecond))) // which all are older than
	e.wantError(err, "1 of 2 for a moment, beside the live one and the successor", driver.ErrLocked)
	if seen := e.sharersOf(a, key); len(seen) != 2 || seen[live.ID].ID == "" || seen[next.ID].ID == "" {
		e.Errorf("Holders after a lease has ended: saw %d, want the other one and the successor", len(seen))
	}
	e.leave(b, key, live, next)

	e.until(e.lapse(g.TTL), "the dead reader to be shown no more", func() bool { return len(e.sharersOf(b, rw)) == 1 })
	e.keptOut(b, rw, writer, "a writer beside a live reader, when a dead one's lease has ended")
	e.leave(b, rw, stays)
	e.passes(a, rw, writer, "a writer after the last live reader has left")
}

// sharedTokensRise has holds come and go, over clients, with pauses in which nobody holds.
func sharedTokensRise(e *env) {
	lockers := []driver.Locker{e.shared(), e.shared()}
	e.tokensRise(lockers, e.key("readers and writers"), 3, writer, reader, reader)
	e.tokensRise(lockers, e.key("permits"), 3, permits(3, 3), permits(1, 3), permits(2, 3))
}

// tokensRise has those who are together take a key, and then one who takes all of it, over clients by turns.
func (e *env) tokensRise(lockers []driver.Locker, key string, rounds int, all driver.Share, together ...driver.Share) {
	last := int64(0)
	rising := func(g driver.Grant, what string) {
		rises(e, what, g.Token, last)
		last = g.Token
	}
	for i := range rounds {
		l, other := lockers[i%2], lockers[(i+1)%2]
		var held []driver.Request
		var grants []driver.Grant
		for n, s := range together {
			r, g := e.enter(lockers[(i+n)%2], key, s, "who shares a key")
			rising(g, "who shares a key")
			held, grants = append(held, r), append(grants, g)
		}
		e.keeps(l, key, held[0], grants[0], "Renew by the holder")
		e.leave(l, key, held...)
		r, g := e.enter(other, key, all, "who takes all")
		rising(g, "who takes all")
		e.leave(other, key, r)
	}
}

func lowestSlots(e *env) {
	a, b := e.shared(), e.shared()
	for name, share := range map[string]driver.Share{"permits": permits(1, 5), "readers": reader} {
		key := e.key(name)
		last := make(map[int]int64)
		take := func(l driver.Locker, want int) driver.Request {
			r, g := e.enter(l, key, share, "one of "+name)
			if g.Slot != want {
				e.Errorf("slot of one of %s: saw %d, want %d, the lowest that is free", name, g.Slot, want)
			}
			rises(e, fmt.Sprint("slot ", g.Slot), g.Token, last[g.Slot])
			last[g.Slot] = g.Token
			return r
		}
		zero, one, two := take(a, 0), take(b, 1), take(a, 2)
		e.leave(b, key, one)
		one = take(a, 1)
		e.leave(a, key, zero, one)
		zero, one = take(b, 0), take(a, 1)
		g := e.renew(a, key, two, "Renew")
		if g.Slot != 2 {
			e.Errorf("slot of a renewal: saw %d, want the hold's own, 2", g.Slot)
		}
		three := take(b, 3)
		e.leave(b, key, zero, one, two, three)
	}
}

// sharedRestart kills the store's server while holds are live.
func sharedRestart(e *env) {
	a, b, key, rw := e.shared(), e.shared(), e.key("permits"), e.key("readers")
	held, g := e.enter(a, key, permits(2, 3), "2 of 3")
	reads, h := e.enter(b, rw, reader, "a reader")
	killAndRestart(e)
	back := e.shared()
	e.until(2*soon, "the store to answer after a restart", func() bool {
		_, err := back.Holders(e.within(soon), key)
		return err == nil
	})
	e.keptOut(back, key, permits(2, 3), "2 of 3 beside 2, over a restart")
	e.keptOut(back, rw, writer, "a writer beside a reader, over a restart")
	more, n := e.enter(back, key, permits(1, 3), "1 of 3 beside 2, over a restart")
	beside, m := e.enter(back, rw, reader, "a reader beside a reader, over a restart")
	if n.Token <= g.Token || m.Token <= h.Token {
		e.Errorf("tokens over a restart: saw %d after %d, and %d after %d, want greater ones", n.Token, g.Token, m.Token, h.Token)
	}
	if n.Slot == g.Slot || m.Slot == h.Slot {
		e.Errorf("slots over a restart: saw those of live holds, %d and %d, want others", n.Slot, m.Slot)
	}
	e.leave(back, key, held, more)
	e.leave(back, rw, reads, beside)
}

func countsOnce(e *env) {
	a, b, key := e.shared(), e.shared(), e.key("k")
	r := e.share(permits(1, 3), e.long)
	g := e.entered(a, key, r, "1 of 3")
	other, _ := e.enter(b, key, permits(1, 3), "1 of 3 beside 1")
	for range 2 { // by its own client: what another one knows of a session is nothing
		again := e.entered(a, key, r, "a repeated attempt")
		if again.Token != g.Token || again.Slot != g.Slot {
			e.Errorf("a repeated attempt: saw token %d and slot %d, want those of its hold, %d and %d", again.Token, again.Slot, g.Token, g.Slot)
		}
	}
	last, _ := e.enter(b, key, permits(1, 3), "1 of 3, when one of two before asked three times")
	e.keptOut(a, key, permits(1, 3), "1 of 3 beside 3")
	e.entered(a, key, r, "a repeated attempt of a key that is full")
	e.leave(a, key, r)
	e.wantError(a.Unlock(e.within(soon), key, r.ID), "Unlock for the second time", driver.ErrNotHeld)
	once, h := e.enter(b, key, permits(1, 3), "1 of 3, after who asked more than once has left")
	rises(e, "the next holder", h.Token, g.Token)
	fresh := e.share(r.Share, e.long)
	fresh.ID = r.ID // over: this is a new attempt, and there is no room
	_, err := a.TryLock(e.within(soon), key, fresh)
	e.wantError(err, "a repeated attempt after Unlock, of a key that is full", driver.ErrLocked)
	e.leave(b, key, other, last, once)
}

func renewalOfShares(e *env) {
	a, b, key, rw := e.shared(), e.shared(), e.key("permits"), e.key("readers")
	// A hold is renewed by the client that has it: on a store with sessions nobody else can.
	renew := func(l driver.SharedLocker, key string, r driver.Request, s driver.Share, what string) {
		r.Share = s
		e.renew(l, key, r, what)
	}
	e.notRenewed(a, key, e.share(permits(1, 3), e.long), "Renew of an id that does not hold")
	over, _ := e.enter(b, key, permits(3, 3), "3 of 3 after a Renew of nobody")
	e.leave(b, key, over)
	e.notRenewed(a, key, over, "Renew after Unlock")

	one, _ := e.enter(a, key, permits(1, 3), "1 of 3 after the Renew of a hold that is over")
	renew(a, key, one, permits(3, 3), "Renew with a greater weight")
	two, _ := e.enter(b, key, permits(2, 3), "2 of 3 beside 1 whose Renew asked for 3")
	renew(b, key, two, permits(2, 3), "Renew with the same weight")
	e.keptOut(b, key, permits(1, 3), "1 of 3 beside 3, after a Renew of 2")
	renew(b, key, two, permits(1, 3), "Renew with a smaller weight")
	third, _ := e.enter(b, key, permits(1, 3), "1 of 3 beside 2, of which one was 2")
	renew(b, key, two, permits(2, 3), "Renew with the weight before")
	e.keptOut(b, key, permits(1, 3), "1 of 3 beside 3")
	e.leave(b, key, third)
	third, _ = e.enter(b, key, permits(1, 3), "1 of 3 beside 2, of which one asked for more")
	e.leave(a, key, one, two, third)

	first, _ := e.enter(a, rw, reader, "a reader")
	renew(a, rw, first, writer, "Renew of a reader as a writer")
	second, _ := e.enter(b, rw, reader, "a reader beside one whose Renew asked to write")
	short := first
	short.TTL = e.ttl
	renew(a, rw, short, reader, "Renew with a shorter TTL")
	e.entered(a, rw, short, "a repeated attempt with a shorter TTL")
	if left := e.sharersOf(b, rw)[first.ID].TTL; e.info.Claims.Has(driver.PerHoldTTL) && left < first.TTL/2 {
		e.Errorf("lease of %v, after a Renew for %v: saw %v left, want it no shorter than it was", first.TTL, e.ttl, left)
	}
	e.leave(a, rw, first, second)
	e.passes(b, rw, writer, "a writer after the readers have left")
}

// downgrades has a writer become a reader while another writer is at the head of the queue.
func downgrades(e *env) {
	a, b, key := e.shared(), e.shared(), e.key("k")
	r, g := e.enter(a, key, writer, "a writer")
	head := e.share(atHead(writer), e.long)
	e.marked(b, key, head, func() (driver.Request, error) {
		less := r
		less.Share = reader
		e.keeps(a, key, less, g, "Renew of a writer as a reader")
		return e.asking(b, key, reader)()
	})
	_, err := b.TryLock(e.within(soon), key, head)
	e.wantError(err, "the writer at the head beside a writer that became a reader", driver.ErrLocked)
	e.end(b, key, head.ID, "Unlock of the head, which gives up")
	beside, _ := e.enter(b, key, reader, "a reader beside a writer that became one")
	e.renew(a, key, r, "Renew as a writer of a hold that became a reader's") // sent before, and late
	second, _ := e.enter(b, key, reader, "a reader, after a late Renew of a former writer")
	e.keptOut(b, key, writer, "a writer beside readers")
	e.leave(a, key, r, beside, second)
	e.passes(b, key, writer, "a writer after the readers have left")
}

// renewsShares renews several holds of one key, and one of another, in one batch.
func renewsShares(e *env) {
	l := e.shared()
	e.batches(l)
	e.growing(2*e.ttl, func(e *env, ttl time.Duration) bool {
		key, other := e.key("k"+ttl.String()), e.key("other"+ttl.String())
		return e.renewsBatch(l, []string{key, key, key, other}, permits(2, 10), ttl)
	})
}
