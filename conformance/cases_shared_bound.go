package conformance

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/driver"
)

func readersTogether(e *env) {
	a, b, key := e.shared(), e.shared(), e.key("k")
	first, _ := e.enter(a, key, reader, "a reader of a free key")
	second, _ := e.enter(b, key, reader, "a reader of another client beside a reader")
	third, _ := e.enter(a, key, reader, "a reader of the same client beside readers")
	e.keptOut(a, key, writer, "a writer beside readers")
	e.keptOut(b, key, writer, "a writer of another client beside readers")
	e.leave(a, key, first)
	e.leave(b, key, third) // over another client: the id alone counts
	e.keptOut(a, key, writer, "a writer beside the last reader")
	e.leave(b, key, second)
	alone, _ := e.enter(b, key, writer, "a writer after the readers have left")
	e.keptOut(a, key, writer, "a writer beside a writer")
	e.keptOut(a, key, reader, "a reader beside a writer of another client")
	e.keptOut(b, key, reader, "a reader beside a writer of its client")
	e.wantError(a.Unlock(e.within(soon), key, e.newID()), "Unlock by another id", driver.ErrNotHeld)
	e.keptOut(a, key, reader, "a reader after the Unlock of another id")
	e.leave(b, key, alone)
	e.passes(a, key, reader, "a reader after the writer has left")
}

func weightsAddUp(e *env) {
	a, b, key := e.shared(), e.shared(), e.key("k")
	two, _ := e.enter(a, key, permits(2, 5), "2 of 5")
	also, _ := e.enter(b, key, permits(2, 5), "2 of 5 beside 2")
	e.keptOut(a, key, permits(2, 5), "2 of 5 beside 4")
	e.keptOut(b, key, permits(5, 5), "5 of 5 beside 4")
	one, _ := e.enter(a, key, permits(1, 5), "1 of 5 beside 4")
	e.keptOut(b, key, permits(1, 5), "1 of 5 beside 5")
	e.leave(a, key, two)
	e.keptOut(b, key, permits(3, 5), "3 of 5 beside 3")
	two, _ = e.enter(b, key, permits(2, 5), "2 of 5 beside 3")
	e.leave(a, key, two, also, one)

	huge := e.key("huge")
	most := permits(driver.MaxPermits-1, driver.MaxPermits)
	r, _ := e.enter(a, huge, most, "all but one of 2^52")
	last, _ := e.enter(b, huge, permits(1, driver.MaxPermits), "the last of 2^52")
	e.keptOut(b, huge, permits(1, driver.MaxPermits), "1 of 2^52 beside all of them")
	e.keptOut(a, huge, most, "all but one of 2^52 beside all of them")
	e.leave(a, huge, r)
	e.leave(b, huge, last)
}

// leastBound has clients that were set up with different n ask side by side, as in a rolling deploy.
func leastBound(e *env) {
	a, b, key := e.shared(), e.shared(), e.key("k")
	of := func(g driver.Grant, want int64, what string) {
		if g.Of != want {
			e.Errorf("Of of a grant of %s: saw %d, want %d: the least of the live holds and the request", what, g.Of, want)
		}
	}
	one, g := e.enter(a, key, permits(1, 3), "1 of 3")
	of(g, 3, "1 of 3")
	two, _ := e.enter(a, key, permits(1, 3), "1 of 3 beside 1")
	e.keptOut(b, key, permits(1, 2), "1 of 2 beside 2 of 3")
	e.leave(a, key, one)
	low, g := e.enter(b, key, permits(1, 2), "1 of 2 beside 1 of 3")
	of(g, 2, "1 of 2 beside 1 of 3")
	e.keptOut(a, key, permits(1, 3), "1 of 3 beside 1 of 3 and 1 of 2")
	e.leave(a, key, two)
	two, g = e.enter(a, key, permits(1, 3), "1 of 3 beside 1 of 2")
	of(g, 2, "1 of 3 beside 1 of 2")
	e.leave(b, key, low)
	one, g = e.enter(a, key, permits(2, 3), "2 of 3 beside 1 of 3, when the 1 of 2 has left")
	of(g, 3, "2 of 3")
	e.leave(a, key, one, two)
	all, g := e.enter(b, key, permits(5, 5), "5 of 5 of a key that had been used with 3")
	of(g, 5, "5 of 5")
	e.leave(b, key, all)
	e.passes(a, key, permits(1, 1), "1 of 1 of a key that had been used with 5")
}

// mostHolders takes holds of one key until the store refuses to keep more.
func mostHolders(e *env) {
	const atOnce, least = 16, 64
	lockers, key := []driver.SharedLocker{e.shared(), e.shared()}, e.key("k")
	var wg sync.WaitGroup
	var asked, granted atomic.Int64
	for i := range atOnce {
		l := lockers[i%len(lockers)]
		wg.Go(func() {
			for e.ctx.Err() == nil && asked.Add(1) <= driver.MaxHolders+atOnce {
				_, err := l.TryLock(e.within(soon), key, e.share(reader, e.long))
				if err != nil {
					e.wantError(err, "TryLock of one holder more", driver.ErrUnsupported)
					return
				}
				granted.Add(1)
			}
		})
	}
	wg.Wait()
	if n := granted.Load(); n > driver.MaxHolders || n < least {
		e.Errorf("holders of one key: saw %d, want ErrUnsupported above %d, or a bound of the store's own of at least %d", n, driver.MaxHolders, least)
	}
	live := e.sharersOf(lockers[0], key)
	if len(live) != int(granted.Load()) {
		e.Errorf("Holders: saw %d, want %d, as many as were granted", len(live), granted.Load())
	}
	slots, ids := make(map[int]bool), make(chan string, len(live))
	for id, h := range live {
		slots[h.Slot] = true
		ids <- id
	}
	close(ids)
	for i := range atOnce { // more at once would hold up the cases beside this one
		l := lockers[i%len(lockers)]
		wg.Go(func() {
			for id := range ids {
				if err := l.Unlock(e.within(soon), key, id); err != nil {
					e.Errorf("Unlock of one of many: saw %v, want nil", err)
				}
			}
		})
	}
	wg.Wait()
	if len(slots) != len(live) {
		e.Errorf("slots of %d holders: saw %d different ones, want one for each", len(live), len(slots))
	}
	e.passes(lockers[1], key, writer, "a writer after all readers have left")
}

func senselessShares(e *env) {
	l, key := e.shared(), e.key("k")
	for _, s := range []driver.Share{
		{},
		permits(0, 3), permits(-1, 3), permits(4, 3), permits(1, 0), permits(1, driver.MaxPermits+1),
		{Mode: driver.Read, Weight: 1},
		{Mode: driver.Write, Of: 1},
		{Mode: driver.Permits + 1},
	} {
		what := fmt.Sprintf("TryLock of %+v", s)
		_, err := l.TryLock(e.within(soon), key, e.share(s, e.ttl))
		e.wantError(err, what, driver.ErrInvalid)
	}
	for _, ttl := range []time.Duration{0, -time.Second} {
		_, err := l.TryLock(e.within(soon), key, e.share(reader, ttl))
		e.wantError(err, fmt.Sprintf("TryLock for %v", ttl), driver.ErrInvalid)
	}
	e.passes(l, key, writer, "a writer after requests that were refused")
}
