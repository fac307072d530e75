package conformance

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord"
)

// conditionCases are about Cond. Who waits has a hold of a shared key, which who signals ends.
func conditionCases() []Case {
	const remedy = "nothing of the adapter's, as a rule: see that LOCK-301 to LOCK-323 pass"
	return []Case{
		{
			ID: "LOCK-351", Name: "no-signal-is-slept-through", Clause: "D2", run: sleepsThroughNothing, Needs: sharing,
			Why:    "a waiter that is not seen by the signal that follows its test waits until its lease ends, or for ever",
			Remedy: "show in Holders each hold that was granted before, and let Unlock end it, whoever's client calls it",
		}, {
			ID: "LOCK-352", Name: "a-wait-gives-the-lock-up-and-takes-it-again", Clause: "D1", run: waitTakesAgain, Needs: sharing,
			Why:    "who goes on after a wait with the token of before is taken for a late writer, and refuses nobody",
			Remedy: "let tokens rise with every grant of a key",
		}, {
			ID: "LOCK-353", Name: "waits-and-signals-need-the-lock", Clause: "D3", run: conditionNeedsLock, Needs: sharing,
			Why:    "a signal without the lock comes between the test and the wait; a lock that was entered twice would be given up by half",
			Remedy: remedy,
		}, {
			ID: "LOCK-354", Name: "a-dead-waiter-is-passed", Clause: "D4", run: passesDeadWaiter, Needs: sharing,
			Why:    "a signal that a dead waiter took is missing to a living one, which waits for ever",
			Remedy: "let each hold end with its own lease",
		}, {
			ID: "LOCK-355", Name: "a-signal-wakes-one-and-a-broadcast-all", Clause: "D2", run: broadcasts, Needs: sharing,
			Why:    "where several wait for different things, a signal for one may wake another",
			Remedy: "show in Holders the holds of all clients",
		}, {
			ID: "LOCK-356", Name: "a-wait-that-fails-holds-nothing", Clause: "D1", run: failedWaits, Needs: sharing,
			Why:    "who was cancelled while it waited must not go on as if it had the lock, nor keep the signal of another",
			Remedy: "let Unlock end a hold at once",
		}, {
			ID: "LOCK-357", Name: "every-call-of-a-condition-fails-once-and-leaves-nothing", Clause: "D1", Slow: true, run: faultLoop(byDriver, conditionUsages, failingKinds()), Needs: sharing,
			Why:    "a call that is lost in the middle of a wait leaves a lock, or a waiter that takes signals and is not there",
			Remedy: "look at the call that the message names: applied and not applied are the only outcomes",
		},
	}
}

// condition is a coord.Cond. The suite's own tests put broken ones in its place.
type condition interface {
	Wait(ctx context.Context) error
	Signal(ctx context.Context) error
	Broadcast(ctx context.Context) error
}

func (e *env) condition(c *coord.Client, key string) condition {
	if f := e.r.suite.Harness.condition; f != nil {
		return f(c, key)
	}
	return c.Cond(key)
}

// conditionKey is the key under which package coord has the store keep those who wait.
func conditionKey(key string) string { return key + "\x00c" }

// shelf is what a lock guards: items that are put and taken. It counts who is at it.
type shelf struct {
	e      *env
	key    string
	inside atomic.Int32

	mu    sync.Mutex
	items int
	last  coord.Token
}

// visit looks at the shelf, under the lock that ctx has, and adds n items; it reports false if there are too few.
func (s *shelf) visit(ctx context.Context, n int) bool {
	if now := s.inside.Add(1); now != 1 {
		s.e.Errorf("under the lock: saw %d at once, want one", now)
	}
	defer s.inside.Add(-1)
	rest(ctx, time.Millisecond)
	l, held := coord.Held(ctx, s.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !held:
		s.e.Errorf("Held under the lock: saw nothing, want the lock")
	case l.Token() <= s.last && l.Err() == nil:
		s.e.Errorf("token: saw %d after %d, want a greater one for each hold", l.Token(), s.last)
	default:
		s.last = l.Token()
	}
	if s.items+n < 0 {
		return false
	}
	s.items += n
	return true
}

// left is how many items there are.
func (s *shelf) left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.items
}

// sleepsThroughNothing has some wait for items, and puts as many as there are of them, with a signal for each: in every
// second round when all wait, each for one of them, else while they take what there was before. Nobody wakes by itself
// in that time.
func sleepsThroughNothing(e *env) {
	const clients, each, rounds = 2, 2, 6
	s := &shelf{e: e, key: e.key("k")}
	ctx := e.within(3 * soon)
	var cs []*coord.Client
	var takers []<-chan error
	var apart, ready atomic.Bool // each takes one; there will be nothing more
	for range clients {
		c := e.client()
		cs = append(cs, c)
		for range each {
			takers = append(takers, async(func() error {
				for !ready.Load() {
					if err := s.take(ctx, c, &ready); err != nil {
						return err
					}
					for apart.Load() && s.left() > 0 && ctx.Err() == nil {
						rest(ctx, time.Millisecond)
					}
				}
				return nil
			}))
		}
	}
	l := e.shared()
	for round := range rounds {
		apart.Store(round%2 == 0)
		if apart.Load() {
			e.until(soon, "all to wait", func() bool { return len(e.sharersOf(l, conditionKey(s.key))) == clients*each })
		}
		for i := range clients * each {
			s.put(ctx, cs[i%clients])
		}
		e.until(soon, "all items to be taken, after a signal for each", func() bool { return s.left() == 0 })
	}
	ready.Store(true)
	e.signal(cs[0], s.key, true)
	for _, done := range takers {
		e.noError(recv(e, done, soon, "who waited to end"), "Do whose function waited")
	}
}

// take waits for an item, or for the end.
func (s *shelf) take(ctx context.Context, c *coord.Client, ready *atomic.Bool) error {
	return coord.Do(ctx, c, s.key, func(ctx context.Context) error {
		for !s.visit(ctx, -1) && !ready.Load() {
			if err := s.e.condition(c, s.key).Wait(ctx); err != nil {
				return err
			}
		}
		return nil
	}, coord.TTL(s.e.long))
}

// put puts an item, and signals.
func (s *shelf) put(ctx context.Context, c *coord.Client) {
	s.e.noError(coord.Do(ctx, c, s.key, func(ctx context.Context) error {
		s.visit(ctx, 1)
		return s.e.condition(c, s.key).Signal(ctx)
	}, coord.TTL(s.e.long)), "Do whose function signals")
}

// conditionWait starts a Do that waits until ready is true, and returns when there are so many places; 0: at once. A wait
// may end by itself, early where leases are those of short sessions.
func (e *env) conditionWait(ctx context.Context, c *coord.Client, key string, ttl time.Duration, ready *atomic.Bool, places int) <-chan error {
	done := async(func() error {
		return coord.Do(ctx, c, key, func(ctx context.Context) error {
			for !ready.Load() {
				if err := e.condition(c, key).Wait(ctx); err != nil {
					return err
				}
			}
			return nil
		}, coord.TTL(ttl))
	})
	if places > 0 {
		l := e.shared()
		e.until(soon, "a waiter to have its place", func() bool { return len(e.sharersOf(l, conditionKey(key))) == places })
	}
	return done
}

// signal signals under the lock.
func (e *env) signal(c *coord.Client, key string, all bool) {
	e.noError(coord.Do(e.within(soon), c, key, func(ctx context.Context) error {
		if all {
			return e.condition(c, key).Broadcast(ctx)
		}
		return e.condition(c, key).Signal(ctx)
	}, coord.TTL(e.long)), "Signal or Broadcast under the lock")
}

func waitTakesAgain(e *env) {
	a, b, l, key := e.client(), e.client(), e.shared(), e.key("k")
	var before, after coord.Token
	var ready atomic.Bool
	ctx := e.within(3 * soon)
	done := async(func() error {
		return coord.Do(ctx, a, key, func(ctx context.Context) error {
			old, _ := coord.Held(ctx, key)
			before = old.Token()
			for !ready.Load() {
				if err := e.condition(a, key).Wait(ctx); err != nil {
					return err
				}
			}
			e.wantError(old.Err(), "Err of the lock of before the Wait", coord.ErrNotHeld)
			now, held := coord.Held(ctx, key)
			if !held || now.Err() != nil || ctx.Err() != nil {
				e.Errorf("after the Wait: saw held %v, lock %v, context %v, want a lock and its context", held, now.Err(), ctx.Err())
				return nil
			}
			after = now.Token()
			e.refused(e.open(), key, "after a Wait")
			return coord.Do(ctx, a, key, func(inner context.Context) error {
				if again, held := coord.Held(inner, key); !held || again.Token() != after {
					e.Errorf("Do within the function that waited: saw held %v, want it to enter the new hold", held)
				}
				return nil
			})
		}, coord.TTL(e.long))
	})
	e.until(soon, "a waiter to have its place", func() bool { return len(e.sharersOf(l, conditionKey(key))) == 1 })
	between := e.lock(b, key, coord.TTL(e.long))
	ready.Store(true)
	e.gaveBack(between.Unlock(e.ctx), "Unlock")
	e.signal(b, key, false)
	e.noError(recv(e, done, soon, "Do whose function waited, after a signal"), "Do whose function waited")
	if before >= between.Token() || between.Token() >= after {
		e.Errorf("tokens before, during and after a Wait: saw %d, %d, %d, want them to rise", before, between.Token(), after)
	}
	e.free(e.open(), key, soon, "after Do whose function waited")
}

func conditionNeedsLock(e *env) {
	c, other, key := e.client(), e.client(), e.key("k")
	cond := e.condition(c, key)
	refused := func(ctx context.Context, cond condition, what string, want error) {
		e.wantError(cond.Wait(ctx), "Wait "+what, want)
		e.wantError(cond.Signal(ctx), "Signal "+what, want)
		e.wantError(cond.Broadcast(ctx), "Broadcast "+what, want)
	}
	refused(e.within(soon), cond, "without the lock", coord.ErrNotHeld)
	ctx := e.within(3 * soon)
	e.noError(coord.Do(ctx, c, e.key("other"), func(ctx context.Context) error {
		refused(ctx, cond, "under the lock of another key", coord.ErrNotHeld)
		return nil
	}, coord.TTL(e.long)), "Do of a free key")
	e.noError(coord.Do(ctx, c, key, func(ctx context.Context) error {
		first, _ := coord.Held(ctx, key)
		refused(ctx, e.condition(other, key), "of another client", coord.ErrInvalid)
		e.wantError(cond.Wait(coord.WithOwner(ctx)), "Wait in a context that is detached from the lock", coord.ErrInvalid)
		own, end := first.Context(ctx)
		e.wantError(cond.Wait(own), "Wait in a context of the lock's own", coord.ErrInvalid)
		end()
		e.noError(coord.Do(ctx, c, key, func(ctx context.Context) error {
			e.wantError(cond.Wait(ctx), "Wait of a lock that was entered twice", coord.ErrInvalid)
			return cond.Signal(ctx)
		}), "Signal of a lock that was entered twice")
		now, held := coord.Held(ctx, key)
		if !held || now.Token() != first.Token() || now.Err() != nil || ctx.Err() != nil {
			e.Errorf("after waits that were refused: saw held %v, context %v, want the lock of before", held, ctx.Err())
		}
		return nil
	}, coord.TTL(e.long)), "Do of a free key")
	refuses := func(ctx context.Context) error {
		e.wantError(cond.Wait(ctx), "Wait of the lock of DoAll, or of Lead", coord.ErrInvalid)
		return nil
	}
	e.noError(coord.DoAll(ctx, c, []string{e.key("j"), key}, refuses, coord.TTL(e.long)), "DoAll")
	e.noError(coord.Lead(ctx, c, key, refuses, coord.TTL(e.long)), "Lead")
	if n := len(e.sharersOf(e.shared(), conditionKey(key))); n != 0 {
		e.Errorf("those who wait, after waits that were refused: saw %d, want none", n)
	}
}

// passesDeadWaiter has a waiter that is dead from the beginning wait before a living one.
func passesDeadWaiter(e *env) {
	a, b, l := e.client(), e.client(), e.shared()
	e.scopeOf("after the dead one's lease", func(e *env) {
		key, ready := e.key("k"), new(atomic.Bool)
		dead := e.share(reader, e.ttl)
		g := e.entered(l, conditionKey(key), dead, "a waiter that dies at once")
		done := e.conditionWait(e.within(4*soon), a, key, e.long, ready, 0)
		e.until(e.lapse(g.TTL)+soon, "the living waiter to wait alone", func() bool {
			places := e.sharersOf(l, conditionKey(key))
			_, there := places[dead.ID]
			return !there && len(places) == 1
		})
		ready.Store(true)
		e.signal(b, key, false)
		e.noError(recv(e, done, soon, "the living waiter to be woken by the first signal"), "Do whose function waited")
	})
	if !e.timely() {
		return // what follows takes most of a lease
	}
	e.scopeOf("before that", func(e *env) {
		key, ready, ttl := e.key("lost"), new(atomic.Bool), e.keep
		e.enter(l, conditionKey(key), reader, "a waiter that dies at once")
		done := e.conditionWait(e.within(4*soon), a, key, ttl, ready, 2)
		ready.Store(true)
		e.signal(b, key, false)
		err := recv(e, done, e.lapse(ttl)+soon, "the living waiter to wake by itself, after the dead one took the signal")
		e.noError(err, "Do whose function waited")
	})
}

func broadcasts(e *env) {
	const clients, each = 2, 3
	key, ctx, ready := e.key("k"), e.within(3*soon), new(atomic.Bool)
	var waits []<-chan error
	var c *coord.Client
	for range clients {
		c = e.client()
		for range each {
			waits = append(waits, e.conditionWait(ctx, c, key, e.long, ready, len(waits)+1))
		}
	}
	ready.Store(true)
	e.signal(c, key, false)
	e.noError(recv(e, waits[0], soon, "who has waited longest to be woken by a signal"), "Do whose function waited")
	if n := len(e.sharersOf(e.shared(), conditionKey(key))); e.timely() && n != len(waits)-1 {
		e.Errorf("those who wait, after a signal for one of %d: saw %d, want the others", len(waits), n)
	}
	e.signal(c, key, true)
	for _, done := range waits[1:] {
		e.noError(recv(e, done, soon, "all that wait to be woken"), "Do whose function waited")
	}
	e.signal(c, key, true) // to nobody
}

func failedWaits(e *env) {
	a, b, l, key := e.client(), e.client(), e.shared(), e.key("k")
	empty := func(e *env, key string) {
		e.until(soon, "nobody to be left of those who waited", func() bool { return len(e.sharersOf(l, conditionKey(key))) == 0 })
	}
	e.scopeOf("cancelled before a signal", func(e *env) {
		ctx, cancel := context.WithCancel(e.ctx)
		defer cancel()
		done := async(func() error {
			return coord.Do(e.ctx, a, key, func(fn context.Context) error {
				own, stop := context.WithCancel(fn)
				defer stop()
				defer context.AfterFunc(ctx, stop)()
				var err error
				for err == nil && own.Err() == nil {
					err = e.condition(a, key).Wait(own)
				}
				e.wantError(err, "Wait that was cancelled", context.Canceled)
				if now, held := coord.Held(fn, key); held && now.Err() == nil || fn.Err() == nil {
					e.Errorf("after a Wait that failed: saw the lock, or its context alive, want both ended")
				}
				if e.condition(a, key).Signal(fn) == nil {
					e.Errorf("Signal after a Wait that failed: saw no error, want one")
				}
				return nil
			}, coord.TTL(e.long))
		})
		e.until(soon, "a waiter to have its place", func() bool { return len(e.sharersOf(l, conditionKey(key))) == 1 })
		e.free(e.open(), key, soon, "once the waiter has given it up")
		start := time.Now()
		cancel()
		e.wantError(recv(e, done, soon, "Do whose function's Wait was cancelled"), "Do whose function's Wait was cancelled", coord.ErrNotHeld)
		e.inTime(start, prompt, "Wait that was cancelled")
		e.free(e.open(), key, soon, "after a Wait that failed")
		empty(e, key)
	})
	e.scopeOf("cancelled after a signal", func(e *env) {
		key, ready := e.key("passed on"), new(atomic.Bool)
		ctx, cancel := context.WithCancel(e.ctx)
		defer cancel()
		first := e.conditionWait(ctx, a, key, e.long, ready, 1)
		next := e.conditionWait(e.within(3*soon), b, key, e.long, ready, 2)
		e.noError(coord.Do(e.within(3*soon), b, key, func(ctx context.Context) error {
			ready.Store(true)
			if err := e.condition(b, key).Signal(ctx); err != nil {
				return err
			}
			e.until(soon, "the signal to take a place", func() bool { return len(e.sharersOf(l, conditionKey(key))) < 2 })
			cancel()
			e.wantError(recv(e, first, soon, "a waiter that was cancelled after its signal"), "Do whose function's Wait was cancelled", context.Canceled)
			return nil
		}, coord.TTL(e.long)), "Signal under the lock")
		e.noError(recv(e, next, soon, "the next to be given the signal of the one that was cancelled"), "Do whose function waited")
		empty(e, key)
	})
}
