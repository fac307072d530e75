package conformance

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/driver"
)

// headKeepsOut has who needs more than is free be the head of the queue.
func headKeepsOut(e *env) {
	a, b, key := e.shared(), e.shared(), e.key("k")
	held, _ := e.enter(a, key, permits(2, 3), "2 of 3")
	head := e.share(atHead(permits(2, 3)), e.long)
	for _, l := range []driver.SharedLocker{a, b} {
		for _, s := range []driver.Share{permits(1, 3), atHead(permits(1, 3))} {
			e.marked(b, key, head, e.asking(l, key, s))
		}
	}
	e.marked(b, key, head, func() (driver.Request, error) { // holders are in nobody's way
		e.renew(a, key, held, "Renew by a holder while a head waits")
		e.entered(a, key, held, "a repeated attempt of a holder while a head waits")
		return driver.Request{}, driver.ErrLocked
	})
	e.leave(a, key, held)
	e.entered(b, key, head, "the head, when there is room")
	e.passes(a, key, permits(1, 3), "1 of 3 after the grant of the head")

	gives := e.share(atHead(permits(3, 3)), e.long)
	e.marked(a, key, gives, e.asking(b, key, permits(1, 3)))
	_, err := a.TryLock(e.within(soon), key, gives)
	e.wantError(err, "TryLock of a head for which there is no room", driver.ErrLocked)
	e.end(a, key, gives.ID, "Unlock of a head that gives up")
	one, _ := e.enter(b, key, permits(1, 3), "1 of 3 after the head gave up")
	e.leave(b, key, one, head)
	e.passes(a, key, permits(3, 3), "3 of 3 after all have left")
}

// deadHead is refused at the head, and then its client is gone.
func deadHead(e *env) {
	b, gone, key := e.shared(), e.open(), e.key("k")
	held, _ := e.enter(b, key, permits(1, 2), "1 of 2")
	_, err := gone.Shared().TryLock(e.within(soon), key, e.share(atHead(permits(2, 2)), e.ttl))
	e.wantError(err, "TryLock of a head for which there is no room", driver.ErrLocked)
	e.gaveBack(gone.Close(), "Close of the client of the head")
	r, _, _ := e.lapsed(b, key, permits(1, 2), max(e.ttl, driver.HeadFor), "whose head of the queue is dead")
	e.leave(b, key, r, held)
}

// pushesChanges counts what is told of a key.
func pushesChanges(e *env) {
	a, b, key := e.shared(), e.shared(), e.key("k")
	held, _ := e.enter(b, key, permits(2, 2), "2 of 2")
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	var told atomic.Int64
	done := async(func() error { return a.NotifyChanges(ctx, key, func() { told.Add(1) }) })
	next := func(what string, change func()) {
		before := told.Load()
		change()
		e.until(soon, "changed to be called after "+what, func() bool { return told.Load() > before })
	}
	e.until(soon, "changed to be called in the beginning", func() bool { return told.Load() > 0 || len(done) > 0 })
	if told.Load() == 0 {
		e.wantError(<-done, "NotifyChanges of a store that pushes no changes", driver.ErrUnsupported)
		e.Unsupported("the store pushes no changes: the head of a queue polls")
	}
	next("a hold that became smaller", func() {
		held.Share.Weight = 1
		e.renew(b, key, held, "Renew with a smaller weight")
	})
	next("an Unlock", func() { e.leave(b, key, held) })
	all, _ := e.enter(b, key, permits(1, 2), "1 of 2")
	head := e.share(atHead(permits(2, 2)), e.long)
	_, err := b.TryLock(e.within(soon), key, head)
	e.wantError(err, "TryLock of a head for which there is no room", driver.ErrLocked)
	next("the Unlock of a head", func() { e.end(b, key, head.ID, "Unlock of a head") })
	e.leave(b, key, all)
	cancel()
	start := time.Now()
	if err := recv(e, done, soon, "NotifyChanges to end with its context"); err != nil && !errors.Is(err, context.Canceled) {
		e.Errorf("NotifyChanges, whose context was cancelled: saw %v, want nil or what matches context.Canceled", err)
	}
	e.inTime(start, prompt, "NotifyChanges, whose context was cancelled")
}
