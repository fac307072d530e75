package conformance

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

// sharedClientCases are about the read/write locks and semaphores of whole clients.
func sharedClientCases() []Case {
	const remedy = "nothing of the adapter's, as a rule: see that LOCK-301 to LOCK-323 pass"
	return []Case{
		{
			ID: "LOCK-331", Name: "semaphore-serves-many-callers", Clause: "SH1", run: semaphoreOfMany, Needs: sharing,
			Why:    "permits that leak, or waiters that are not woken, stop all callers sooner or later (Redisson 3225)",
			Remedy: remedy,
		}, {
			ID: "LOCK-332", Name: "a-guard-keeps-two-marks", Clause: "SH3", run: guardsReaders, Needs: sharing,
			Why:    "one mark for all refuses live readers, none for readers lets a late writer pass after them",
			Remedy: "let tokens rise over readers and writers of a key",
		}, {
			ID: "LOCK-333", Name: "writers-and-heavy-requests-do-not-starve", Clause: "SH4", run: starvesNobody, Needs: sharing,
			Why:    "a stream of readers that overlap keeps a writer out for ever (Redisson 5379), and light requests a heavy one",
			Remedy: "refuse everyone but the head for driver.HeadFor after it was refused",
		}, {
			ID: "LOCK-334", Name: "a-first-that-gives-up-is-passed", Clause: "SH4", run: passesWhoGivesUp, Needs: sharing,
			Why:    "a waiter that was cancelled, and whose mark stays, blocks those behind it (Curator 462)",
			Remedy: "let Unlock of the head's id end its headship, and say no error",
		}, {
			ID: "LOCK-347", Name: "a-first-that-died-is-passed", Clause: "SH4", run: passesWhoDied, Needs: sharing,
			Why:    "a waiter that died, and whose place in the queue has the lease of the hold it waits for, blocks all behind it for that time",
			Remedy: "let an exclusive hold end with its own lease, and with no later one, and wake who is next in the queue then",
		}, {
			ID: "LOCK-335", Name: "grants-that-cross-a-cancellation-leave-nothing", Clause: "SH2", run: crossedShares, Needs: sharing,
			Why:    "a grant that comes when its caller has left is a permit that nobody gives back",
			Remedy: "let Unlock remove the hold of an attempt that was given up",
		}, {
			ID: "LOCK-336", Name: "every-call-on-shares-fails-once-and-leaves-nothing", Clause: "SH2", Slow: true, run: faultLoop(byDriver, shareUsages, failingKinds()), Needs: sharing,
			Why:    "a call that is lost in the middle of a downgrade or a wait leaves a writer, a head or a place in the queue",
			Remedy: "look at the call that the message names: applied and not applied are the only outcomes",
		}, {
			ID: "LOCK-339", Name: "owners-enter-shares-again", Clause: "SH5", run: shareReentry, Needs: sharing,
			Why:    "two readers that both ask to write wait for each other (Redisson 4796); a downgrade by release and take lets a writer in between",
			Remedy: "let Renew with a smaller Share change the hold in place",
		}, {
			ID: "LOCK-340", Name: "more-permits-than-there-are", Clause: "SH6", run: exceedsBound, Needs: sharing,
			Why:    "a request that can never be granted waits for ever",
			Remedy: remedy,
		}, {
			ID: "LOCK-341", Name: "members-are-watched-and-revoked", Clause: "SH7", run: watchesMembers, Needs: sharing,
			Why:    "a group whose changes are not seen leaves the shards of a dead member to nobody",
			Remedy: "list the live holds alone, and mark those that were broken as Released",
		}, {
			ID: "LOCK-342", Name: "close-gives-shares-back", Clause: "SH8", run: closesShares, Needs: sharing,
			Why:    "a rolling deploy that leaves its permits to their leases halves the capacity for that time",
			Remedy: "let Unlock end the hold, or the headship, at once",
		}, {
			ID: "LOCK-343", Name: "one-name-is-four-things", Clause: "SH8", run: oneName, Needs: sharing,
			Why:    "a lock, a limit, a read/write lock and a semaphore of one name are an everyday coincidence",
			Remedy: "give each its own names in the store",
		}, {
			ID: "LOCK-344", Name: "shares-are-renewed", Clause: "SH2", run: renewsOwnShares, Needs: sharing,
			Why:    "a permit that lapses under its holder lets one more in",
			Remedy: "let Renew prolong the lease of its own id, whoever else holds the key",
		}, {
			ID: "LOCK-345", Name: "a-killed-process-gives-its-permits-back", Clause: "SH2", run: killed(permitKind), Needs: sharing, Hooks: []Hook{HookWorker},
			Why:    "permits of a process that was killed leak, one crash after the other, until none is left (Redisson 2045)",
			Remedy: "let each hold end with its own lease",
		},
	}
}

func semaphoreOfMany(e *env) {
	const clients, each, rounds, n = 3, 4, 2, 4
	s, key := &section{e: e, bound: n}, e.key("k")
	crowd(clients, each, e.plain, func(c *coord.Client, i, j int) {
		dice := e.dice()
		for range rounds {
			weight := 1 + dice.IntN(2)
			if i == 0 && j == 0 {
				weight = n
			}
			l, err := c.Semaphore(n).Lock(e.ctx, key, coord.TTL(e.long), coord.Weight(weight))
			if err != nil {
				e.Errorf("Lock of a semaphore: saw %v, want a lock", err)
				return
			}
			s.visitBy("a holder of permits", l, int64(weight), func() { rest(e.ctx, time.Duration(dice.Int64N(int64(time.Millisecond)))) })
			e.gaveBack(l.Unlock(e.ctx), "Unlock of a semaphore")
		}
	})
	e.freeFor(e.shared(), semaphoreKey(key), permits(n, n), soon, "after everyone has left")
}

func guardsReaders(e *env) {
	a, b, key := e.client().ReadWrite(), e.client().ReadWrite(), e.key("k")
	var g coord.Guard
	take := func(l *coord.Shared) *coord.Lock {
		lock, err := l.Lock(e.within(soon), key, coord.TTL(e.long))
		e.noError(err, "Lock of a key that has room")
		return lock
	}
	first := take(a.Read())
	second := take(b.Read())
	rises(e, "a second reader", second.Token(), first.Token())
	e.noError(g.CheckRead(key, second.Token()), "CheckRead of the second reader")
	e.noError(g.CheckRead(key, first.Token()), "CheckRead of the first reader, which is live, after the second")
	e.gaveBack(first.Unlock(e.ctx), "Unlock of a reader")
	e.gaveBack(second.Unlock(e.ctx), "Unlock of a reader")
	write := take(a.Write())
	e.noError(g.CheckWrite(key, write.Token()), "CheckWrite of a writer after the readers")
	e.noError(g.CheckWrite(key, write.Token()), "CheckWrite of a writer for the second time")
	e.wantError(g.CheckRead(key, second.Token()), "CheckRead of a reader that was before the writer", coord.ErrLost)
	e.gaveBack(write.Unlock(e.ctx), "Unlock of a writer")
	later := take(b.Read())
	e.noError(g.CheckRead(key, later.Token()), "CheckRead of a reader after the writer")
	e.wantError(g.CheckWrite(key, write.Token()), "CheckWrite of a writer that was before a reader", coord.ErrLost)
	e.gaveBack(later.Unlock(e.ctx), "Unlock of a reader")
}

// starvesNobody has a writer wait behind a stream of readers, and who takes all permits behind those that take one.
func starvesNobody(e *env) {
	parts(e, []*kind{readKind, permitKind}, func(e *env, light *kind) {
		key := e.key(light.name)
		if light == readKind {
			e.amidStream(key, light, writeKind)
		} else {
			e.amidStream(key, light, permitKind, coord.Weight(2))
		}
	})
}

// amidStream keeps a key taken by many who come and go, and has one wait who wants all of it.
func (e *env) amidStream(key string, light, all *kind, opts ...coord.LockOption) {
	const clients, each = 2, 3
	var wg sync.WaitGroup
	var passed atomic.Int64
	ctx, stop := context.WithCancel(e.ctx)
	defer wg.Wait()
	defer stop()
	for i := range clients {
		l := light.locker(e.client())
		for j := range each {
			// Each has a time of its own: those that fall into step leave together, and the key is free for a moment.
			stay := 4*time.Millisecond + time.Duration(i*each+j)*137*time.Microsecond
			wg.Go(func() {
				for ctx.Err() == nil {
					lock, err := l.Lock(ctx, key, coord.TTL(e.long))
					if ctx.Err() != nil && err != nil {
						return
					}
					if err != nil {
						e.Errorf("Lock in a stream: saw %v, want a lock", err)
						return
					}
					passed.Add(1)
					rest(ctx, stay)
					e.gaveBack(lock.Unlock(e.ctx), "Unlock in a stream")
				}
			})
		}
	}
	e.until(soon, "a stream of grants", func() bool { return passed.Load() >= clients*each })
	lock, err := all.locker(e.client()).Lock(e.within(soon), key, append(opts, coord.TTL(e.long))...)
	e.noError(err, "Lock of all, behind a stream of those who take a part")
	e.gaveBack(lock.Unlock(e.ctx), "Unlock of all")
}

// passesWhoGivesUp has the first in the queue leave while the key is as it was.
func passesWhoGivesUp(e *env) {
	b, in := e.injected()
	first, second, key := e.clientOn(b), e.client(), e.key("k")
	held, _ := e.enter(e.shared(), semaphoreKey(key), permits(1, 2), "1 of 2")
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	heavy := e.visit(ctx, first.Semaphore(2), key, coord.Weight(2))
	e.until(soon, "the first in the queue to be refused", func() bool { return in.returned("Shared.TryLock") >= 2 })
	light := e.visit(e.ctx, second.Semaphore(2), key, coord.TTL(e.long))
	id := in.lastID("Shared.TryLock", semaphoreKey(key))
	cancel()
	e.wantError(recv(e, heavy, soon, "a cancelled Lock"), "Lock that was cancelled", context.Canceled)
	e.noError(recv(e, light, soon, "who asks for what is free, after the first in the queue gave up"), "Lock of what is free")
	e.until(soon, "the first in the queue to be withdrawn", func() bool { return in.lastID("Shared.Unlock", semaphoreKey(key)) == id })
	e.leave(e.shared(), semaphoreKey(key), held)
}

// passesWhoDied has the first in the queue die, and then the holder leave. Who is next waits for the place of the dead one,
// whose lease is short, however long its hold's would have been.
func passesWhoDied(e *env) {
	dies := e.open()
	onFirst, in1 := NewInjector(dies)
	onNext, in2 := e.injected()
	first, next, key := e.clientOn(onFirst), e.clientOn(onNext), e.key("k")
	held, _ := e.enter(e.shared(), semaphoreKey(key), permits(2, 2), "2 of 2")
	dead := e.visit(e.ctx, first.Semaphore(2), key, coord.Weight(2), coord.TTL(e.long))
	e.until(soon, "the first in the queue to be refused", func() bool { return in1.returned("Shared.TryLock") >= 2 })
	light := e.visit(e.ctx, next.Semaphore(2), key, coord.TTL(e.long))
	e.until(soon, "the next one to be refused, which queues then", func() bool { return in2.returned("Shared.TryLock") >= 1 })
	e.gaveBack(dies.Close(), "Close of the client of the first")
	if err := recv(e, dead, soon, "Lock on a client that was closed"); err == nil {
		e.Errorf("Lock on a client that was closed: saw a lock, want an error")
	}
	e.leave(e.shared(), semaphoreKey(key), held)
	most := e.round(driver.HeadFor) + 2*e.info.TTLStep + prompt
	e.noError(recv(e, light, most, "who asks for what is free, after the first in the queue died"), "Lock of what is free")
}

// crossedShares cancels waits at random moments.
func crossedShares(e *env) {
	e.abandons()
	key := e.key("k")
	crowd(2, 4, e.plain, func(c *coord.Client, _, _ int) {
		dice := e.dice()
		for range 8 {
			ctx, cancel := context.WithTimeout(e.ctx, time.Duration(dice.Int64N(int64(8*time.Millisecond))))
			l, err := c.Semaphore(2).Lock(ctx, key, coord.TTL(e.long))
			cancel()
			if err == nil {
				rest(e.ctx, time.Duration(dice.Int64N(int64(2*time.Millisecond))))
				e.gaveBack(l.Unlock(e.ctx), "Unlock")
			} else if !errors.Is(err, context.DeadlineExceeded) {
				e.Errorf("Lock that ran out of time: saw %v, want the context's error", err)
			}
		}
	})
	e.freeFor(e.shared(), semaphoreKey(key), permits(2, 2), soon, "after all waits have ended")
	e.free(e.open(), semaphoreKey(key), soon, "which is the queue, after all waits have ended")
}

func shareReentry(e *env) {
	b, in := e.injected()
	c, rival, key := e.clientOn(b), e.shared(), e.key("k")
	rw, ctx := c.ReadWrite(), coord.WithOwner(e.ctx)
	enter := func(l coord.Locker, key string, what string) *coord.Lock {
		lock, err := l.Lock(ctx, key, coord.TTL(e.long))
		e.noError(err, what)
		return lock
	}
	quiet := func(what string, fn func()) {
		before := in.count("Shared.TryLock") + in.count("TryLock") + in.count("Lock")
		fn()
		if n := in.count("Shared.TryLock") + in.count("TryLock") + in.count("Lock") - before; n != 0 {
			e.Errorf("%s: saw %d attempts at the store, want none", what, n)
		}
	}
	first := enter(rw.Read(), key, "a reader")
	quiet("a reader that enters again, and asks to write", func() {
		again := enter(rw.Read(), key, "a reader that enters again")
		if again.Token() != first.Token() {
			e.Errorf("token of a reader that enters again: saw %d, want %d", again.Token(), first.Token())
		}
		_, err := rw.Write().Lock(ctx, key, coord.TTL(e.long))
		e.wantError(err, "a reader that asks to write", coord.ErrInvalid)
		e.gaveBack(again.Unlock(e.ctx), "Unlock of the second entry")
	})
	e.keptOut(rival, readWriteKey(key), writer, "a writer beside a reader that entered twice and left once")
	e.gaveBack(first.Unlock(e.ctx), "Unlock of a reader")

	write := enter(rw.Write(), key, "a writer after the reader has left")
	var read *coord.Lock
	quiet("a writer that enters as a reader", func() { read = enter(rw.Read(), key, "a writer that enters as a reader") })
	e.keptOut(rival, readWriteKey(key), reader, "a reader beside a writer that is a reader, too")
	err := write.Unlock(e.ctx)
	e.noError(err, "Unlock of the writer that is a reader, too")
	e.keptOut(rival, readWriteKey(key), writer, "a writer beside a writer that became a reader")
	beside, _ := e.enter(rival, readWriteKey(key), reader, "a reader beside a writer that became one")
	e.noError(read.Err(), "Err of a writer that became a reader")
	e.gaveBack(read.Unlock(e.ctx), "Unlock of a writer that became a reader")
	e.leave(rival, readWriteKey(key), beside)
	e.passes(rival, readWriteKey(key), writer, "a writer after the readers have left")

	err = coord.Do(e.ctx, c.Semaphore(3), key, func(ctx context.Context) error {
		if _, ok := coord.Held(ctx, key); ok {
			e.Errorf("Held of an exclusive lock while a semaphore of that name is held: saw a lock, want none")
		}
		if _, ok := rw.Read().Held(ctx, key); ok {
			e.Errorf("Held of a reader while a semaphore of that name is held: saw a lock, want none")
		}
		if _, ok := c.Semaphore(3).Held(ctx, key); !ok {
			e.Errorf("Held of a semaphore within its Do: saw none, want its lock")
		}
		quiet("a semaphore that is entered again", func() {
			err := coord.Do(ctx, c.Semaphore(3), key, func(context.Context) error { return nil }, coord.TTL(e.long))
			e.noError(err, "Do within Do of a semaphore")
		})
		rest, _ := e.enter(rival, semaphoreKey(key), permits(2, 3), "2 of 3 beside 1 that was entered twice")
		e.leave(rival, semaphoreKey(key), rest)
		return nil
	}, coord.TTL(e.long))
	e.noError(err, "Do of a semaphore")
	e.passes(rival, semaphoreKey(key), permits(3, 3), "3 of 3 after Do")
}

func exceedsBound(e *env) {
	c, key := e.client(), e.key("k")
	refused := func(l coord.Locker, want error, what string, opts ...coord.LockOption) {
		for name, lock := range bothWays(l) {
			_, err := lock(e.within(soon), key, opts...)
			e.wantError(err, name+" of "+what, want)
			if errors.Is(err, coord.ErrExceedsBurst) {
				e.Errorf("%s of %s: saw %v, which is ErrExceedsBurst, want none of a limit's errors", name, what, err)
			}
		}
	}
	refused(c.Semaphore(3), coord.ErrExceedsBound, "4 of 3", coord.Weight(4))
	refused(c.Semaphore(1), coord.ErrExceedsBound, "2 of 1", coord.Weight(2))
	refused(c.Semaphore(0), coord.ErrInvalid, "a semaphore of 0")
	refused(c.Semaphore(-1), coord.ErrInvalid, "a semaphore of -1")
	refused(c.Semaphore(3), coord.ErrInvalid, "0 of 3", coord.Weight(0))
	refused(c.Semaphore(3), coord.ErrInvalid, "-1 of 3", coord.Weight(-1))
	refused(c.ReadWrite().Read(), coord.ErrInvalid, "a reader with a weight", coord.Weight(2))
	refused(c, coord.ErrInvalid, "an exclusive lock with a weight", coord.Weight(2))
	if strconv.IntSize == 64 {
		most := int64(driver.MaxPermits)
		refused(c.Semaphore(int(most+1)), coord.ErrInvalid, "a semaphore of 2^52+1")
		l, err := c.Semaphore(int(most)).TryLock(e.within(soon), key, coord.Weight(int(most)), coord.TTL(e.long))
		e.noError(err, "TryLock of 2^52 of 2^52")
		refused(c.Semaphore(int(most)), coord.ErrInvalid, "2^52+1 of 2^52", coord.Weight(int(most+1)))
		e.gaveBack(l.Unlock(e.ctx), "Unlock of 2^52")
	}
	e.passes(e.shared(), semaphoreKey(key), permits(3, 3), "3 of 3 after requests that were refused")
}

// watchesMembers has two join a group, one of whom is revoked.
func watchesMembers(e *env) {
	c := e.client(coord.WithLockDefaults(coord.TTL(e.ttl))) // which looks often
	group, key := c.ReadWrite().Read(), e.key("group")
	w := watching(e, func(ctx context.Context) iter.Seq2[[]coord.Holder, error] { return group.Watch(ctx, key) })
	sees := func(what string, names ...string) (members []coord.Holder) {
		e.until(behind, "a watch to see "+what, func() bool {
			for len(w.seen) > 0 {
				members = (<-w.seen).what
			}
			if len(members) != len(names) {
				return false
			}
			for i, name := range names {
				if members[i].Name != name {
					return false
				}
			}
			return true
		})
		return members
	}
	join := func(name string, ttl time.Duration) *coord.Lock {
		return e.lock(e.client().ReadWrite().Read(), key, coord.HolderName(name), coord.TTL(ttl))
	}
	recv(e, w.seen, behind, "a watch of an empty group")
	a := join("a.example:1", e.keep)
	sees("one member", "a.example:1")
	b := join("b.example:2", e.long)
	both := sees("two members", "a.example:1", "b.example:2")
	if both[0].Token>>10 != a.Token()>>10 || both[1].Token>>10 != b.Token()>>10 || both[0].Slot != a.Slot() || both[1].Slot != b.Slot() || both[0].Mode != driver.Read {
		e.Errorf("members: saw %+v, want the tokens and slots of their locks", both)
	}
	e.wantError(group.Break(e.ctx, key, e.newID()), "Break of an id that does not hold", coord.ErrNotHeld)
	switch err := group.Break(e.ctx, key, both[0].ID); {
	case errors.Is(err, coord.ErrUnsupported):
		e.gaveBack(a.Unlock(e.ctx), "Unlock by a member")
	default:
		e.noError(err, "Break of a member")
		recv(e, a.Done(), e.lapse(a.TTL()), "Done of a member that was revoked")
		e.wantError(a.Err(), "Err of a member that was revoked", coord.ErrLost)
	}
	sees("the other member alone", "b.example:2")
	e.gaveBack(b.Unlock(e.ctx), "Unlock by a member")
	sees("nobody")
	w.end(e)
}

func closesShares(e *env) { parts(e, []*kind{readKind, writeKind, permitKind}, (*env).closes) }

func oneName(e *env) {
	c, other, key := e.client(), e.client(), e.key("one name")
	lockers := func(c *coord.Client) map[string]coord.Locker {
		return map[string]coord.Locker{"lock": c, "write lock": c.ReadWrite().Write(), "semaphore": c.Semaphore(1)}
	}
	held := make(map[string]*coord.Lock)
	for name, l := range lockers(c) {
		lock, err := l.TryLock(e.within(soon), key, coord.TTL(e.long))
		e.noError(err, "TryLock of a "+name+" beside others of that name")
		held[name] = lock
	}
	if e.r.limits {
		e.allows(c, key, coord.PerHour(1), 1, "Allow beside locks of that name")
	}
	for name := range lockers(c) {
		e.gaveBack(held[name].Unlock(e.ctx), "Unlock of a "+name)
		delete(held, name)
		for rest, l := range lockers(other) {
			if held[rest] != nil {
				_, err := l.TryLock(e.within(soon), key, coord.TTL(e.ttl))
				e.wantError(err, "TryLock of a "+rest+" that is held, after the Unlock of a "+name+" of that name", coord.ErrLocked)
			}
		}
		lock, err := lockers(other)[name].TryLock(e.within(soon), key, coord.TTL(e.long))
		e.noError(err, "TryLock of a "+name+" after its Unlock")
		e.gaveBack(lock.Unlock(e.ctx), "Unlock of a "+name+" by another client")
	}
}

func renewsOwnShares(e *env) { parts(e, []*kind{readKind, writeKind, permitKind}, (*env).outlives) }
