package conformance

import (
	"context"
	"time"

	"github.com/coordgo/coord"
)

func closeCases() []Case {
	return []Case{
		{
			ID: "LOCK-90", Name: "close-gives-back-and-ends-waits", Clause: "L11", run: closeClient,
			Why:    "a deployment restarts every process: what each leaves behind, the next one waits for",
			Remedy: "end calls that wait when Close is called, and release nothing by yourself",
		}, {
			ID: "LOCK-91", Name: "shutdown-waits-for-holds", Clause: "L11", run: shutdown,
			Why:    "an orderly stop lets the work in progress end under its lock",
			Remedy: "let Unlock work until Close is called",
		}, {
			ID: "LOCK-94", Name: "close-leaves-no-goroutine", Clause: "L11", run: closeLeavesNothing,
			Why:    "a client that is opened per request, or per test, leaks what its Close forgets",
			Remedy: "end every goroutine and timer of the client in Close, and wait for them",
		},
	}
}

func closeClient(e *env) { e.closes(lockKind) }

// closes closes a client that holds a key, and has one wait for another key and one behind the first.
func (e *env) closes(k *kind) {
	b, in := e.injected()
	c, held, wanted := e.clientOn(b), e.key(k.name+" held"), e.key(k.name+" wanted")
	locker, rival := k.locker(c), k.at(e.open())
	r, _ := e.enter(rival, k.key(wanted), k.barred, "a rival")
	l := e.lock(locker, held, coord.TTL(e.keep)) // which frees the key in time where the store does not confirm the release
	done := l.Done()
	in.Script(func(call Call) Fault {
		if call.Op == k.op("Unlock") && call.Key == k.key(held) {
			select {
			case <-done:
			default:
				e.Errorf("Close gave a hold back before its Done was closed: want its holder told first")
			}
		}
		return NoFault
	})
	remote := async(func() error { _, err := locker.Lock(e.ctx, wanted); return err })
	e.until(soon, "a waiter to ask the store", func() bool { return in.lastID(k.op("TryLock"), k.key(wanted)) != "" })
	local := remote
	if k == lockKind {
		local = async(func() error { _, err := c.Lock(e.ctx, held); return err })
	}
	e.gaveBack(c.Close(), "Close")
	recv(e, done, 0, "Done once Close has returned")
	e.wantError(l.Err(), "Err after Close", coord.ErrNotHeld, coord.ErrClosed)
	e.wantError(recv(e, remote, time.Second, "a waiter at the store, after Close"), "Lock during Close", coord.ErrClosed)
	if local != remote {
		e.wantError(recv(e, local, time.Second, "a local waiter, after Close"), "Lock during Close", coord.ErrClosed)
	}
	e.freeFor(rival, k.key(held), k.whole, time.Second, "after Close of its holder's client")
	if k == writeKind { // who waited kept readers out
		e.freeFor(rival, k.key(wanted), reader, time.Second, "beside a reader, after Close of its waiter's client")
	}
	e.end(rival, k.key(wanted), r.ID, "Unlock")
	e.freeFor(rival, k.key(wanted), k.whole, time.Second, "after Close of its waiter's client")
	e.free(e.open(), k.key(wanted), soon, "which is the queue of a shared key, after Close of its waiter's client")
	_, err := locker.Lock(e.ctx, held)
	e.wantError(err, "Lock after Close", coord.ErrClosed)
	_, err = locker.TryLock(e.ctx, held)
	e.wantError(err, "TryLock after Close", coord.ErrClosed)
	if shared, ok := locker.(*coord.Shared); ok {
		_, err = shared.Holders(e.ctx, held)
		e.wantError(err, "Holders after Close", coord.ErrClosed)
	}
	e.wantError(c.Ping(e.ctx), "Ping after Close", coord.ErrClosed)
	e.gaveBack(c.Close(), "Close for the second time")
}

func closeLeavesNothing(e *env) {
	e.leavesNoGoroutine(useAndClose, func(e *env) {
		for range 5 {
			e.scope(useAndClose)
		}
	})
}

// useAndClose holds a lock, waits for one, and closes. Each use has a key of its own: a store that is late may not have
// freed the one before.
func useAndClose(e *env) {
	holder, r := e.open(), e.req(e.long)
	wanted := e.key("wanted " + r.ID)
	e.take(holder, wanted, r)
	b, in := e.injected()
	c := e.clientOn(b)
	l := e.lock(c, e.key(r.ID), coord.TTL(e.long))
	ctx, stop := l.Context(e.ctx)
	defer stop()
	waiter := async(func() error { _, err := c.Lock(e.ctx, wanted); return err })
	e.until(soon, "a waiter to ask the store", func() bool { return in.lastID("TryLock", wanted) != "" })
	if e.r.limits {
		_, err := c.Allow(e.ctx, e.key("limit"), coord.PerMinute(1_000_000))
		e.noError(err, "Allow")
	}
	e.gaveBack(c.Close(), "Close")
	e.wantError(recv(e, waiter, time.Second, "a waiter, after Close"), "Lock during Close", coord.ErrClosed)
	e.wantError(context.Cause(ctx), "cause of the hold's context after Close", coord.ErrClosed)
	e.end(holder, wanted, r.ID, "Unlock")
}

func shutdown(e *env) {
	c, key := e.client(), e.key("k")
	l := e.lock(c, key, coord.TTL(e.long))
	result := async(func() error { return c.Shutdown(e.within(soon)) })
	e.until(soon, "Shutdown to refuse new locks", func() bool {
		other, err := c.TryLock(e.ctx, e.key("other"))
		if err == nil {
			e.gaveBack(other.Unlock(e.ctx), "Unlock before Shutdown")
		}
		return err != nil
	})
	_, err := c.TryLock(e.ctx, e.key("other"))
	e.wantError(err, "TryLock during Shutdown", coord.ErrClosed)
	e.noError(l.Err(), "Err of a lock during Shutdown")
	e.refused(e.open(), key, "during Shutdown")
	e.gaveBack(l.Unlock(e.ctx), "Unlock during Shutdown")
	e.noError(recv(e, result, soon, "Shutdown to end after the last Unlock"), "Shutdown")

	c, key = e.client(), e.key("stuck")
	l = e.lock(c, key, coord.TTL(e.keep))
	err = c.Shutdown(e.within(50 * time.Millisecond))
	e.wantError(err, "Shutdown that ran out of time", context.DeadlineExceeded)
	e.wantError(l.Err(), "Err after a Shutdown that ran out of time", coord.ErrNotHeld)
	e.free(e.open(), key, time.Second, "after a Shutdown that ran out of time")
}

func closeSilent(e *env, path pathTo) {
	b, link := path(e)
	c, key := e.clientOn(b), e.key("k")
	l := e.lock(c, key, coord.TTL(e.long))
	holder, r := e.open(), e.req(e.long)
	e.take(holder, e.key("wanted"), r)
	waiter := async(func() error { _, err := c.Lock(e.ctx, e.key("wanted")); return err })
	blackHole(link)
	start := time.Now()
	_ = c.Close() // it may say that the store did not answer
	e.inTime(start, 5*time.Second, "Close while the store is silent")
	recv(e, l.Done(), 0, "Done once Close has returned")
	err := recv(e, waiter, time.Second, "a waiter, after Close")
	if err == nil {
		e.Errorf("Lock during Close: saw a lock, want ErrClosed")
	}
	e.end(holder, e.key("wanted"), r.ID, "Unlock")
}
