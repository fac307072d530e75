package conformance

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

func exclusionCases() []Case {
	return []Case{
		{
			ID: "LOCK-01", Name: "contention-loses-no-update", Clause: "L1", run: contention,
			Why:    "the first promise of a lock: many workers on two unguarded counters lose no update, though locks of both share a connection, a queue or a script (ShedLock's fuzzer)",
			Remedy: "take the lock in one atomic step that fails if another id holds, and keep nothing per client that is not per key",
		}, {
			ID: "LOCK-02", Name: "held-key-is-refused", Clause: "L1", run: heldRefused,
			Why:    "two sessions, or two handles of one, that both hold are no lock (etcd's Mutex on one session)",
			Remedy: "compare the holder's id, not the connection or session: a second id is refused",
		}, {
			ID: "LOCK-03", Name: "one-of-many-tries-wins", Clause: "L1", run: oneWins,
			Why:    "check-then-set in two steps lets several win at once",
			Remedy: "use the store's own compare-and-set; a check followed by a write lets two through",
		}, {
			ID: "LOCK-04", Name: "dead-holder-frees-the-key", Clause: "L1", run: killed(lockKind), Hooks: []Hook{HookWorker},
			Why:    "kill -9 runs no deferred Unlock: the lease alone gives the key back",
			Remedy: "give every entry a lease that the store itself ends",
		},
	}
}

// contention has many add to two counters, each under its own name.
func contention(e *env) {
	const clients, goroutines, rounds = 4, 3, 5
	sections := map[string]*section{e.key("a"): {e: e}, e.key("b"): {e: e}}
	crowd(clients, goroutines, e.plain, func(c *coord.Client, i, j int) {
		who := fmt.Sprintf("client %d, goroutine %d", i, j)
		for range rounds {
			for key, s := range sections {
				l, err := c.Lock(e.ctx, key, coord.TTL(e.long))
				if err != nil {
					e.Errorf("%s: Lock: saw %v, want a lock", who, err)
					return
				}
				s.visit(who, l, nil)
				e.gaveBack(l.Unlock(e.ctx), who+": Unlock")
			}
		}
	})
	for _, s := range sections {
		s.visited(clients * goroutines * rounds)
	}
}

func heldRefused(e *env) {
	a, b, key, r := e.open(), e.open(), e.key("k"), e.req(e.long)
	e.take(a, key, r)
	e.refused(a, key, "of the same client while the key is held")
	e.refused(b, key, "of another client while the key is held")
	e.notRenewed(b, key, e.req(e.long), "Renew by another id while the key is held")
	e.wantError(b.Unlock(e.within(soon), key, e.newID()), "Unlock by another id while the key is held", driver.ErrNotHeld)
	e.refused(b, key, "after Renew and Unlock by another id")
	e.end(a, key, r.ID, "Unlock by the holder")
	r = e.req(e.long)
	e.take(b, key, r)
	e.end(b, key, r.ID, "Unlock by the next holder")
}

func oneWins(e *env) {
	const contenders, rounds = 12, 15
	lockers := []driver.Locker{e.open(), e.open(), e.open()}
	for round := range rounds {
		key := e.key(fmt.Sprint("k", round%3))
		gate := make(chan struct{})
		var wg sync.WaitGroup
		var winners atomic.Int32
		var winner atomic.Pointer[string]
		for i := range contenders {
			l, r := lockers[i%len(lockers)], e.req(e.long)
			wg.Go(func() {
				<-gate
				switch _, err := l.TryLock(e.ctx, key, r); {
				case err == nil:
					winners.Add(1)
					winner.Store(&r.ID)
				case !errors.Is(err, driver.ErrLocked):
					e.Errorf("TryLock among many: saw %v, want a grant or ErrLocked", err)
				}
			})
		}
		close(gate)
		wg.Wait()
		if n := winners.Load(); n != 1 {
			e.Fatalf("%d tries at once on a free key: saw %d winners, want 1", contenders, n)
		}
		e.end(lockers[0], key, *winner.Load(), "Unlock by the winner's id over another client")
	}
}

// killed kills a process that holds, a permit beside another one's, and takes what it had.
func killed(k *kind) func(*env) {
	return func(e *env) {
		w, key := e.startWorker(), e.key("k")
		a := w.do(order{Do: "lock", Kind: k.name, Key: key, TTL: e.ttl})
		other, beside := k.at(e.open()), driver.Request{}
		if k == permitKind {
			beside, _ = e.enter(other, k.key(key), k.share, "1 of 2 beside another process'")
		}
		w.kill()
		l := e.inherits(k, key, "that was killed")
		rises(e, "the next holder", l.Token(), a.Token)
		e.gaveBack(l.Unlock(e.ctx), "Unlock after its holder was killed")
		if k == permitKind {
			e.renew(other, k.key(key), beside, "Renew of the permit beside the dead one's")
			e.leave(other, k.key(key), beside)
		}
	}
}

// inherits takes what a process had that is gone, or frozen, when its lease is over.
func (e *env) inherits(k *kind, key, whose string) *coord.Lock {
	l, err := k.locker(e.client()).Lock(e.within(e.bound(e.lapse(e.ttl))), key, coord.TTL(e.long))
	e.noError(err, "Lock of what a process had "+whose)
	return l
}
