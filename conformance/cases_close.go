package conformance

import (
	"context"
	"fmt"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/coordgo/coord"
)

func closeCases() []Case {
	return []Case{
		{
			ID: "LOCK-90", Name: "close-gives-back-and-ends-waits", Clause: "L11", run: closeClient,
			Why: "a deployment restarts every process: what each leaves behind, the next one waits for",
		}, {
			ID: "LOCK-91", Name: "shutdown-waits-for-holds", Clause: "L11", run: shutdown,
			Why: "an orderly stop lets the work in progress end under its lock",
		}, {
			ID: "LOCK-92", Name: "close-ends-while-the-store-is-silent", Clause: "L11", run: over(byDriver, closeSilent),
			Why: "a process that cannot stop because its store is gone is killed, with everything else that it had to do",
		}, {
			ID: "LOCK-93", Name: "network-close-ends-while-the-store-is-silent", Clause: "L11", run: over(byNetwork, closeSilent), Hooks: []Hook{HookLink},
			Why: "the same through the store's own client library",
		}, {
			ID: "LOCK-94", Name: "close-leaves-no-goroutine", Clause: "L11", run: closeLeavesNothing,
			Why: "a client that is opened per request, or per test, leaks what its Close forgets",
		},
	}
}

func closeClient(e *env) {
	b, in := e.injected()
	c, held, wanted := e.clientOn(b), e.key("held"), e.key("wanted")
	rival, r := e.locker(), e.req(e.long)
	e.take(rival, wanted, r)
	l := e.lock(c, held, coord.TTL(e.long))
	done := l.Done()
	in.Script(func(call Call) Fault {
		if call.Op == "Unlock" && call.Key == held {
			select {
			case <-done:
			default:
				e.Errorf("Close gave a hold back before its Done was closed: want its holder told first")
			}
		}
		return NoFault
	})
	remote := async(func() error { _, err := c.Lock(e.ctx, wanted); return err })
	local := async(func() error { _, err := c.Lock(e.ctx, held); return err })
	e.until(soon, "a waiter to ask the store", func() bool { return in.lastID("TryLock", wanted) != "" })
	start := time.Now()
	e.noError(c.Close(), "Close")
	e.measure("close", time.Since(start))
	recv(e, done, 0, "Done once Close has returned")
	e.wantError(l.Err(), "Err after Close", coord.ErrNotHeld)
	e.wantError(recv(e, remote, time.Second, "a waiter at the store, after Close"), "Lock during Close", coord.ErrClosed)
	e.wantError(recv(e, local, time.Second, "a local waiter, after Close"), "Lock during Close", coord.ErrClosed)
	e.free(rival, held, time.Second, "after Close of its holder's client")
	e.noError(rival.Unlock(e.within(soon), wanted, r.ID), "Unlock")
	e.free(rival, wanted, time.Second, "after Close of its waiter's client")
	_, err := c.Lock(e.ctx, held)
	e.wantError(err, "Lock after Close", coord.ErrClosed)
	_, err = c.TryLock(e.ctx, held)
	e.wantError(err, "TryLock after Close", coord.ErrClosed)
	e.wantError(c.Ping(e.ctx), "Ping after Close", coord.ErrClosed)
	e.noError(c.Close(), "Close for the second time")
}

// closeLeavesNothing counts the goroutines that descend from this one, which their label tells. The first
// client may start some for good, as libraries do; the later ones must leave no more.
func closeLeavesNothing(e *env) {
	label := e.key("label")
	count := func() (n int, all string) {
		var b strings.Builder
		e.noError(pprof.Lookup("goroutine").WriteTo(&b, 1), "profile of goroutines")
		_, list, _ := strings.Cut(b.String(), "\n") // after the heading
		for _, block := range strings.Split(list, "\n\n") {
			if strings.Contains(block, label) {
				var same int // goroutines with this stack
				_, err := fmt.Sscan(block, &same)
				e.noError(err, "number of goroutines in a profile")
				n += same
				all += block + "\n\n"
			}
		}
		return n, all
	}
	pprof.Do(e.ctx, pprof.Labels("conformance", label), func(context.Context) {
		e.scope(useAndClose)
		const settle = time.Second
		start := time.Now()
		base, _ := count()
		for base > 1 && time.Since(start) < settle { // 1 is this one
			e.pass(10 * time.Millisecond)
			base, _ = count()
		}
		for range 5 {
			e.scope(useAndClose)
		}
		start = time.Now()
		for now, all := count(); now > base; now, all = count() {
			if time.Since(start) > 5*settle {
				e.Fatalf("goroutines after five more clients were closed: saw %d, want the %d that one had left:\n%s", now, base, all)
			}
			e.pass(10 * time.Millisecond)
		}
	})
}

// useAndClose holds a lock, waits for one, and closes.
func useAndClose(e *env) {
	holder, r := e.locker(), e.req(e.long)
	e.take(holder, e.key("wanted"), r)
	b, in := e.injected()
	c := e.clientOn(b)
	l := e.lock(c, e.key("held"), coord.TTL(e.long))
	ctx, stop := l.Context(e.ctx)
	defer stop()
	waiter := async(func() error { _, err := c.Lock(e.ctx, e.key("wanted")); return err })
	e.until(soon, "a waiter to ask the store", func() bool { return in.lastID("TryLock", e.key("wanted")) != "" })
	if e.r.limits {
		_, err := c.Allow(e.ctx, e.key("limit"), coord.PerMinute(1_000_000))
		e.noError(err, "Allow")
	}
	e.noError(c.Close(), "Close")
	e.wantError(recv(e, waiter, time.Second, "a waiter, after Close"), "Lock during Close", coord.ErrClosed)
	e.wantError(context.Cause(ctx), "cause of the hold's context after Close", coord.ErrClosed)
	e.noError(holder.Unlock(e.within(soon), e.key("wanted"), r.ID), "Unlock")
}

func shutdown(e *env) {
	c, key := e.client(), e.key("k")
	l := e.lock(c, key, coord.TTL(e.long))
	result := async(func() error { return c.Shutdown(e.within(soon)) })
	e.until(soon, "Shutdown to refuse new locks", func() bool {
		other, err := c.TryLock(e.ctx, e.key("other"))
		if err == nil {
			e.noError(other.Unlock(e.ctx), "Unlock before Shutdown")
		}
		return err != nil
	})
	_, err := c.TryLock(e.ctx, e.key("other"))
	e.wantError(err, "TryLock during Shutdown", coord.ErrClosed)
	e.noError(l.Err(), "Err of a lock during Shutdown")
	e.refused(e.locker(), key, "during Shutdown")
	e.noError(l.Unlock(e.ctx), "Unlock during Shutdown")
	e.noError(recv(e, result, soon, "Shutdown to end after the last Unlock"), "Shutdown")

	c, key = e.client(), e.key("stuck")
	l = e.lock(c, key, coord.TTL(e.long))
	err = c.Shutdown(e.within(50 * time.Millisecond))
	e.wantError(err, "Shutdown that ran out of time", context.DeadlineExceeded)
	e.wantError(l.Err(), "Err after a Shutdown that ran out of time", coord.ErrNotHeld)
	e.free(e.locker(), key, time.Second, "after a Shutdown that ran out of time")
}

func closeSilent(e *env, path pathTo) {
	b, link := path(e)
	c, key := e.clientOn(b), e.key("k")
	l := e.lock(c, key, coord.TTL(e.long))
	holder, r := e.locker(), e.req(e.long)
	e.take(holder, e.key("wanted"), r)
	waiter := async(func() error { _, err := c.Lock(e.ctx, e.key("wanted")); return err })
	blackHole(link)
	start := time.Now()
	_ = c.Close() // it may say that the store did not answer
	if took := time.Since(start); took > 5*time.Second+e.starved(start) {
		e.Errorf("Close while the store is silent: saw it return after %v, want a few seconds at most", took)
	}
	recv(e, l.Done(), 0, "Done once Close has returned")
	err := recv(e, waiter, time.Second, "a waiter, after Close")
	if err == nil {
		e.Errorf("Lock during Close: saw a lock, want ErrClosed")
	}
	e.noError(holder.Unlock(e.within(soon), e.key("wanted"), r.ID), "Unlock")
}
