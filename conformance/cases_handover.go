package conformance

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/observe"
)

func handOverCases() []Case {
	return []Case{
		{
			ID: "LOCK-69", Name: "hand-over-passes-by-who-has-left", Clause: "L6", run: passedBy,
			Why:    "a lock that is handed to a waiter which has just left is held by nobody, and renewed",
			Remedy: "end a call with its context; the rest is the core's",
		}, {
			ID: "LOCK-87", Name: "other-clients-have-their-turn", Clause: "L8", run: turns,
			Why:    "goroutines that hand a lock on among themselves starve every other process, unless their turn is bounded",
			Remedy: "free the key in Unlock at once, and grant whoever waits, or asks next",
		}, {
			ID: "LOCK-89", Name: "no-hand-over-ahead-of-a-fair-waiter", Clause: "L8", run: fairBeforeLocal, Needs: driver.Claims{driver.Fair},
			Why:    "who is to be served in order waits for ever if the holder's own process comes first each time",
			Remedy: "grant in the order of asking, whichever client unlocked; the rest is the core's",
		},
	}
}

// waitingClient is a client that tells when a Lock has begun to wait.
func (e *env) waitingClient(b driver.Backend) (c *coord.Client, waits <-chan struct{}) {
	began := make(chan struct{}, 100)
	return e.clientOn(b, coord.WithObserver(observe.Observer{
		WaitBegan: func(context.Context, observe.WaitBegan) { began <- struct{}{} },
	})), began
}

// lineUp is visitAs of a key that another holds, and returns when it waits.
func (e *env) lineUp(ctx context.Context, granted func(), c *coord.Client, waits <-chan struct{}, key string, opts ...coord.LockOption) <-chan error {
	result := e.visitAs(ctx, granted, c, key, opts...)
	recv(e, waits, soon, "a Lock to wait behind its own client's")
	return result
}

func passedBy(e *env) {
	e.abandons()
	c, waits := e.waitingClient(e.open())
	rival := e.open()
	for i := range 10 {
		key := e.key(fmt.Sprint("k", i%2))
		l := e.lock(c, key, coord.TTL(e.long))
		ctx, cancel := context.WithCancel(e.ctx)
		leaver := e.lineUp(ctx, func() {}, c, waits, key, coord.TTL(e.long))
		stayer := e.lineUp(e.ctx, func() {}, c, waits, key, coord.TTL(e.long))
		meet(cancel, func() { e.gaveBack(l.Unlock(e.ctx), "Unlock") })
		if err := recv(e, leaver, soon, "a Lock that was cancelled at the hand-over"); err != nil {
			e.wantError(err, "Lock that was cancelled at the hand-over", context.Canceled)
		}
		e.noError(recv(e, stayer, e.lapse(e.ttl), "the goroutine behind one that has left"), "Lock behind one that has left")
		e.free(rival, key, 3*time.Second, "after a waiter has left at the hand-over")
	}
}

// turns has the goroutines of two clients contend until each client was granted by the store
// three times.
func turns(e *env) {
	const clients, goroutines, want, enough = 2, 4, 3, watchdog
	key := e.key("k")
	s := &section{e: e}
	var mu sync.Mutex
	grants := [clients]map[int64]bool{{}, {}}
	var over atomic.Bool
	start := time.Now()
	crowd(clients, goroutines, e.plain, func(c *coord.Client, i, _ int) {
		for !over.Load() {
			l, err := c.Lock(e.ctx, key, coord.TTL(e.long))
			if err != nil {
				e.Errorf("Lock: saw %v, want a lock", err)
				return
			}
			s.visit(fmt.Sprintf("client %d", i), l, func() {
				mu.Lock()
				grants[i][int64(l.Token())>>10] = true
				if len(grants[0]) >= want && len(grants[1]) >= want || time.Since(start) > enough {
					over.Store(true)
				}
				mu.Unlock()
				time.Sleep(2 * time.Millisecond)
			})
			e.gaveBack(l.Unlock(e.ctx), "Unlock")
		}
	})
	for i, g := range grants {
		if len(g) < want {
			e.Errorf("client %d beside one whose goroutines hand the lock on: saw it granted %d times in %v, want at least %d", i, len(g), time.Since(start), want)
		}
	}
}

// fairBeforeLocal has a goroutine of the holder's client come after a fair waiter, in every way in
// which a hand-over inside the client must leave the key to that waiter.
func fairBeforeLocal(e *env) {
	const turn = 50 * time.Millisecond
	options := func(fair bool) []coord.LockOption {
		if fair {
			return []coord.LockOption{coord.TTL(e.long), coord.Fair()}
		}
		return []coord.LockOption{coord.TTL(e.long)}
	}
	for i, way := range []struct {
		what          string
		holder, local bool          // use Fair
		own           bool          // the fair waiter is of the holder's client
		held          time.Duration // at least
	}{
		{what: "all use Fair", holder: true, local: true},
		{what: "the holder uses Fair", holder: true},
		{what: "who came later uses Fair", local: true},
		{what: "the fair waiter is of the holder's client", own: true},
		{what: "the hold is older than 50 ms", held: turn + 10*time.Millisecond},
	} {
		key := e.key(fmt.Sprint("k", i))
		c, waits := e.waitingClient(e.open())
		other, otherWaits := c, waits
		if !way.own {
			other, otherWaits = e.waitingClient(e.open())
		}
		l := e.lock(c, key, options(way.holder)...)
		granted := make(chan bool, 2)
		first := e.lineUp(e.ctx, func() { granted <- true }, other, otherWaits, key, options(true)...)
		e.queued(key, 1)
		second := e.lineUp(e.ctx, func() { granted <- false }, c, waits, key, options(way.local)...)
		if way.local { // then it is in the queue at the store
			e.queued(key, 2)
		}
		e.pass(way.held)
		e.gaveBack(l.Unlock(e.ctx), "Unlock with a fair waiter in the queue")
		if !recv(e, granted, e.lapse(e.ttl), "the first in the queue") { // whoever is second waits for the Unlock of the first
			e.Errorf("goroutine that came after a fair waiter, where %s: saw it granted first, want the fair waiter first", way.what)
		}
		for _, result := range []<-chan error{first, second} {
			e.noError(recv(e, result, e.lapse(e.ttl), "those in the queue"), "Lock and Unlock of those in the queue")
		}
	}
}
