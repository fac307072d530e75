package conformance

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/coordgo/coord/driver"
)

// raceCases are about calls that meet.
func raceCases() []Case {
	return []Case{
		{
			ID: "LOCK-39", Name: "processes-lose-no-update", Clause: "L1", run: processesAdd, Hooks: []Hook{HookWorker},
			Why:    "what locks are for: processes that read, add and write back one number in a file lose no addition",
			Remedy: "make taking the lock one atomic step at the store, and waiting one that ends only by a grant",
		}, {
			ID: "LOCK-28", Name: "renewal-that-meets-unlock-revives-nothing", Clause: "L4", run: renewMeetsUnlock,
			Why:    "a renewal that was under way when the lock was given back brought it back for a whole lease (redisson#7272)",
			Remedy: "make Renew compare the owner and extend in one atomic step",
		}, {
			ID: "LIMIT-17", Name: "first-uses-at-once-share-one-limit", Clause: "R1", run: firstUses,
			Why:    "clients that all find no state make one each, and the last one to write it forgets the others (redisson#3804)",
			Remedy: "create a limit's state on the condition that there is none yet, in the step that debits",
		}, {
			ID: "LIMIT-39", Name: "many-writers-are-no-denial", Clause: "R1", run: manyWritersAdmitted,
			Why:    "a compare-and-swap that gives up after some defeats tells callers that they are over a limit which is far from spent",
			Remedy: "repeat a defeated swap, with jitter, until the context ends; never answer a conflict with a denial",
		},
	}
}

func processesAdd(e *env) {
	const processes, times = 4, 10
	file := filepath.Join(e.TempDir(), "number")
	e.noError(os.WriteFile(file, []byte("0"), 0o600), "a number in a file")
	var workers []*worker
	for range processes {
		workers = append(workers, e.startWorker())
	}
	for _, w := range workers {
		w.send(order{Do: "add", Key: e.key("k"), TTL: e.long, File: file, Times: times})
	}
	for _, w := range workers {
		w.answer("add")
	}
	text, err := os.ReadFile(file)
	e.noError(err, "the number in the file")
	if n, err := strconv.Atoi(string(text)); err != nil || n != processes*times {
		e.Errorf("%d processes that added 1 to a number %d times: saw %q, want %d: updates were lost", processes, times, text, processes*times)
	}
}

// renewMeetsUnlock sends a renewal and the release at the same time. Whichever is first, nothing is
// held afterwards.
func renewMeetsUnlock(e *env) {
	holder, other, key := e.open(), e.open(), e.key("k")
	for range 20 {
		r := e.req(e.long)
		e.take(holder, key, r)
		renewals := []driver.Locker{holder, other}
		var wg sync.WaitGroup
		for _, l := range renewals {
			wg.Go(func() {
				if _, err := l.Renew(e.ctx, key, r); err != nil {
					e.wantError(err, "Renew that meets Unlock", driver.ErrNotHeld)
				}
			})
		}
		if err := holder.Unlock(e.ctx, key, r.ID); err != nil {
			e.Errorf("Unlock that meets Renew: saw %v, want nil", err)
		}
		wg.Wait()
		e.free(other, key, 0, "after an Unlock that met a Renew")
	}
}

// takeTogether makes n asks for one permit each at the same time, and counts the grants.
func (e *env) takeTogether(clients []driver.Limiter, key string, limit driver.Limit, n int) int {
	var wg sync.WaitGroup
	var mu sync.Mutex
	gate, total := make(chan struct{}), 0
	for i := range n {
		wg.Go(func() {
			<-gate
			t, err := clients[i%len(clients)].Take(e.within(2*soon), key, limit, []driver.Ask{{Min: 1, N: 1}})
			if err != nil || len(t.Asks) != 1 {
				e.Errorf("Take among many: saw %d answers, error %v, want one answer", len(t.Asks), err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			total += t.Asks[0].N
		})
	}
	close(gate)
	wg.Wait()
	return total
}

func (e *env) limiters(n int) (list []driver.Limiter) {
	for range n {
		list = append(list, e.open())
	}
	return list
}

func firstUses(e *env) {
	clients := e.limiters(4)
	for name, limit := range still(3) {
		for i := range 8 {
			key := e.key(name + strconv.Itoa(i))
			if total := e.takeTogether(clients, key, limit, 8); total != 3 && !e.Failed() {
				e.Errorf("8 asks at once, the first of a %s of 3: saw %d granted, want exactly 3", name, total)
			}
		}
	}
}

func manyWritersAdmitted(e *env) {
	const writers = 64
	clients := e.limiters(4)
	for name, limit := range still(writers) {
		if total := e.takeTogether(clients, e.key(name), limit, writers); total != writers && !e.Failed() {
			e.Errorf("%d asks at once of a %s of as many: saw %d granted, want all", writers, name, total)
		}
	}
}
