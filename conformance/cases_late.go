package conformance

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
)

func lateCases() []Case {
	return []Case{
		{
			ID: "LOCK-233", Name: "late-write-leaves-the-successor", Clause: "L5", run: lateLockWrites, Hooks: []Hook{HookLink},
			Why:    "a write that was stalled on its way arrives when the key has been freed and granted anew; what it compares may be the same again (GET, then DEL; versions that begin again with each node)",
			Remedy: "make the comparison and the change one step, and compare something that never comes again: the id, or a version that outlives the entry",
		}, {
			ID: "LIMIT-233", Name: "late-write-brings-no-permits-back", Clause: "R1", run: lateLimitWrites, Hooks: []Hook{HookLink},
			Why:    "a debit that was stalled on its way arrives when the account has been reset, or collected, and made anew under the same version, and puts its old count in place of the new one (20 permits of 10)",
			Remedy: "compare something that never comes again, such as an incarnation of the account that its maker draws at random",
		},
	}
}

const (
	// mostSteps is how many requests of one call are let through before the rest is stalled. An adapter's
	// call has one or two; those of the client library, such as a login or a ping, add some.
	mostSteps = 4
	// lateFor is how long the caller of a stalled call waits for it.
	lateFor = 300 * time.Millisecond
)

// stallAfter stalls what a client sends after n requests more, as far as the link can count them.
func stallAfter(l Link, n int) bool {
	late, ok := l.(LateLink)
	if ok {
		late.StallAfter(n)
	} else if n == 0 {
		l.StallRequests()
	}
	return ok || n == 0
}

// eachLate runs a scenario for each kind of call, and each number of requests of the call that arrive in time.
func (e *env) eachLate(kinds []string, scenario func(e *env, kind string, n int)) {
	var wg sync.WaitGroup
	for _, kind := range kinds {
		for n := range mostSteps {
			wg.Go(func() {
				e.scopeOf(fmt.Sprintf("%s stalled after %d requests", kind, n), func(e *env) { scenario(e, kind, n) })
			})
		}
	}
	wg.Wait()
}

// stalled makes a call that is stalled after n requests, waits for its caller to give up, changes the
// store meanwhile, and lets the rest arrive.
func (e *env) stalled(link Link, n int, call func(context.Context) error, meanwhile func()) (there bool) {
	if !stallAfter(link, n) {
		return false
	}
	_ = call(e.within(lateFor)) // its time ends before the reply comes
	meanwhile()
	link.Heal()
	// The bytes are on their way. There is no reply to wait for: their caller has gone.
	e.pass(100 * time.Millisecond)
	return true
}

func lateLockWrites(e *env) {
	kinds := []string{"Unlock", "Renew"}
	if e.info.Claims.Has(driver.MinHoldAfterExit) {
		kinds = append(kinds, "UnlockAfter")
	}
	e.eachLate(kinds, lateLockWrite)
}

func lateLockWrite(e *env, kind string, n int) {
	b, link := byNetwork(e)
	l, rival := b, e.open()
	key, old, next := e.key(fmt.Sprint(kind, n)), e.req(e.long), e.req(e.long)
	e.take(l, key, old)
	var g driver.Grant
	there := e.stalled(link, n, func(ctx context.Context) error {
		switch kind {
		case "Unlock":
			return l.Unlock(ctx, key, old.ID)
		case "UnlockAfter":
			return b.UnlockAfter(ctx, key, old.ID, time.Millisecond)
		}
		_, err := l.Renew(ctx, key, old)
		return err
	}, func() {
		// The first hold is over, by another's hand if need be, and the next one begins.
		if err := rival.Unlock(e.within(soon), key, old.ID); err != nil {
			e.wantError(err, "removal of the first hold by its id", driver.ErrNotHeld)
		}
		g, _ = e.seize(rival, key, next, e.lapse(time.Second), "after its hold was removed")
	})
	if !there {
		return
	}
	e.keeps(rival, key, next, g, "the successor's Renew")
	e.refused(rival, key, "while the successor holds it")
	if _, err := l.Renew(e.within(soon), key, old); err == nil {
		e.Errorf("Renew of the first hold: saw it renewed while its successor holds, want ErrNotHeld")
	}
	e.end(rival, key, next.ID, "the successor's Unlock")
}

func lateLimitWrites(e *env) {
	var kinds []string
	for name := range still(20) {
		kinds = append(kinds, name)
	}
	ends := map[string]accountEnd{"reset": func(e *env, rival driver.Limiter, key string, l driver.Limit) {
		e.noError(rival.Reset(e.within(soon), key, l), "Reset")
	}}
	if collect := e.r.suite.Harness.Faults.Collect; collect != nil {
		ends["collected"] = func(e *env, _ driver.Limiter, key string, l driver.Limit) { collect(e, key, l) }
	}
	for what, end := range ends {
		e.scopeOf("an account that was "+what, func(e *env) {
			e.eachLate(kinds, func(e *env, kind string, n int) { lateLimitWrite(e, kind, n, what, end) })
		})
	}
}

// accountEnd removes the account of a limit.
type accountEnd func(e *env, rival driver.Limiter, key string, l driver.Limit)

func lateLimitWrite(e *env, kind string, n int, what string, end accountEnd) {
	const rate, fresh = 20, 15
	b, link := byNetwork(e)
	l, meter, limit := b, e.open(), still(rate)[kind]
	key := e.key(fmt.Sprint(what, kind, n))
	e.grantedN(e.ask(l, key, limit, 1, 1), 1, "the first permit")
	spent := 0
	there := e.stalled(link, n, func(ctx context.Context) error {
		_, err := l.Take(ctx, key, limit, []driver.Ask{{ID: e.newID(), Min: 1, N: 1}})
		return err
	}, func() {
		end(e, meter, key, limit)
		spent += e.ask(meter, key, limit, 1, fresh).N
	})
	if !there {
		return
	}
	spent += e.ask(meter, key, limit, 1, rate).N
	if spent > rate {
		e.Errorf("permits granted since the account was made anew, around a late debit, under %v: saw %d, want at most %d", limit, spent, rate)
	}
}
