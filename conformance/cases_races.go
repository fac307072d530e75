package conformance

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"

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
			ID: "LIMIT-17", Name: "first-uses-at-once-share-one-limit", Clause: "R1", run: takenTogether(3, 8, 8),
			Why:    "clients that all find no state make one each, and the last one to write it forgets the others (redisson#3804)",
			Remedy: "create a limit's state on the condition that there is none yet, in the step that debits",
		}, {
			ID: "LIMIT-39", Name: "many-writers-are-no-denial", Clause: "R1", run: takenTogether(64, 64, 1),
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
		renewal := func(l driver.Locker) func() {
			return func() {
				if _, err := l.Renew(e.ctx, key, r); err != nil {
					e.wantError(err, "Renew that meets Unlock", driver.ErrNotHeld)
				}
			}
		}
		meet(renewal(holder), renewal(other), func() {
			if err := holder.Unlock(e.ctx, key, r.ID); err != nil {
				e.Errorf("Unlock that meets Renew: saw %v, want nil", err)
			}
		})
		e.free(other, key, 0, "after an Unlock that met a Renew")
	}
}

// takenTogether has asks for one permit each come at the same time, of limits of so many under fresh keys. It wants
// exactly what there is to be granted.
func takenTogether(permits, asks, keys int) func(*env) {
	return func(e *env) {
		clients := []driver.Limiter{e.open(), e.open(), e.open(), e.open()}
		for name, limit := range still(permits) {
			for i := range keys {
				want := min(asks, permits)
				if total := e.takeTogether(clients, e.key(name+strconv.Itoa(i)), limit, asks); total != want && !e.Failed() {
					e.Errorf("%d asks at once of a %s of %d: saw %d granted, want exactly %d", asks, name, permits, total, want)
				}
			}
		}
	}
}

// takeTogether counts the grants of n asks.
func (e *env) takeTogether(clients []driver.Limiter, key string, limit driver.Limit, n int) int {
	var wg sync.WaitGroup
	var total atomic.Int64
	gate := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-gate
			t, err := clients[i%len(clients)].Take(e.within(2*soon), key, limit, []driver.Ask{{Min: 1, N: 1}})
			if err != nil || len(t.Asks) != 1 {
				e.Errorf("Take among many: saw %d answers, error %v, want one answer", len(t.Asks), err)
				return
			}
			total.Add(int64(t.Asks[0].N))
		})
	}
	close(gate)
	wg.Wait()
	return int(total.Load())
}
