package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coordgo/coord"
)

func memberCases() []Case {
	locks, limits := "locks-live-while-a-member-", "limits-answer-while-a-member-"
	return []Case{
		{
			ID: "LOCK-251", Name: locks + "hangs", Clause: "L4", Slow: true, run: locksAmid(HookHang), Hooks: []Hook{HookHang},
			Why:    "a server that stops answers nothing and refuses nothing; renewals of all locks in one batch, or on one connection, wait for it until all are lost (571 of 600)",
			Remedy: "renew on each member apart (Partition of driver.Backend); where any majority serves, bound each request well below the lease, and repeat it at another member",
		}, {
			ID: "LOCK-252", Name: locks + "is-cut-off", Clause: "L4", Slow: true, run: locksAmid(HookCutOff), Hooks: []Hook{HookCutOff},
			Why:    "a server behind a broken network makes every attempt to connect wait, or fail",
			Remedy: "let an error, or a connection that takes long, speak for its own member only",
		}, {
			ID: "LOCK-253", Name: locks + "is-slow", Clause: "L4", Slow: true, run: locksAmid(HookSlow), Hooks: []Hook{HookSlow},
			Why:    "a slow server is not replaced by anything, and lasts for hours",
			Remedy: "let no call on one member wait for a call on another",
		}, {
			ID: "LOCK-254", Name: locks + "comes-back-empty", Clause: "L4", run: locksAmid(HookEmpty), Hooks: []Hook{HookEmpty},
			Why:    "a server that has lost its data is the end of the locks on it, and of no other",
			Remedy: "believe a member that a hold is gone only for holds that it kept",
		}, {
			ID: "LIMIT-251", Name: limits + "hangs", Clause: "R9", Slow: true, run: limitsAmid(HookHang), Hooks: []Hook{HookHang},
			Why:    "a limit is asked at every request of a service: one server that hangs must not stop all of them",
			Remedy: "let no call on one member wait for a call on another",
		}, {
			ID: "LIMIT-252", Name: limits + "is-cut-off", Clause: "R9", Slow: true, run: limitsAmid(HookCutOff), Hooks: []Hook{HookCutOff},
			Why:    "a server behind a broken network makes every attempt to connect wait, or fail",
			Remedy: "let an error, or a connection that takes long, speak for its own member only",
		},
	}
}

const (
	memberClients = 3
	// holdsOfEach are those of each client on each member: more than the calls that a client
	// makes at a time.
	holdsOfEach = 40
	waitsOfEach = 2
)

// memberRun is a run of clients of a store of several members, one of which fails.
type memberRun struct {
	*env
	m       *Members
	victim  int
	ttl     time.Duration
	clients []*coord.Client
	held    [memberClients][]*coord.Lock
	waits   []*inLine
	broke   time.Time
}

// inLine is a waiter.
type inLine struct {
	holder *coord.Lock
	result <-chan error
}

// memberRun opens clients of the store of several members.
func (e *env) memberRun() *memberRun {
	m := e.r.suite.Harness.Members
	c := &memberRun{env: e, m: m, ttl: e.keep, victim: e.rand.IntN(m.Count)}
	if e.timely() {
		c.ttl = e.round(3 * m.Bound)
	}
	for range memberClients {
		b := e.opened(m.Open)
		e.Cleanup(func() { e.close(b) })
		c.clients = append(c.clients, e.clientOn(b))
	}
	return c
}

// breaks makes one member fail, until the function that it gives is called or the case is over.
func (c *memberRun) breaks(hk Hook) (end func()) {
	c.broke = time.Now()
	end = c.m.fault(hk)(c, c.victim)
	if end == nil {
		return func() {}
	}
	end = sync.OnceFunc(end)
	c.Cleanup(end)
	return end
}

// keys are n on each member, or n where any majority serves every key.
func (c *memberRun) keys(at func(string) int, name string, n int) (keys []string) {
	const most = 100_000 // tries to find a key of each member
	if at == nil {
		for i := range n {
			keys = append(keys, c.key(fmt.Sprint(name, " ", i)))
		}
		return keys
	}
	found := make([]int, c.m.Count)
	for i := 0; len(keys) < n*c.m.Count && i < most; i++ {
		key := c.key(fmt.Sprint(name, " ", i))
		if k := at(key); found[k] < n {
			found[k]++
			keys = append(keys, key)
		}
	}
	if len(keys) < n*c.m.Count {
		c.Fatalf("keys by member: saw %v of %d tries, want %d of each", found, most, n)
	}
	return keys
}

// healthy are keys that can be served while the failing member cannot.
func (c *memberRun) healthy(at func(string) int, name string, n int) (keys []string) {
	for _, key := range c.keys(at, name, n) {
		if serves(at, key, c.victim) {
			keys = append(keys, key)
		}
	}
	return keys
}

// each runs fn for each client, all at once.
func (c *memberRun) each(fn func(e *env, i int, client *coord.Client)) {
	var wg sync.WaitGroup
	for i, client := range c.clients {
		wg.Go(func() {
			c.scopeOf(fmt.Sprint("client ", i), func(e *env) { fn(e, i, client) })
		})
	}
	wg.Wait()
}

// hold has each client take locks on all members, and wait for some of the next client.
func (c *memberRun) hold() {
	c.each(func(e *env, i int, client *coord.Client) {
		for _, key := range c.keys(c.m.LockAt, fmt.Sprint("held by ", i), holdsOfEach) {
			c.held[i] = append(c.held[i], e.lock(client, key, coord.TTL(c.ttl)))
		}
	})
	if c.Failed() {
		c.Fatalf("not all locks were taken while all members served")
	}
	ctx, cancel := context.WithCancel(c.ctx)
	c.Cleanup(cancel)
	for i, client := range c.clients {
		left := map[int]int{}
		for _, l := range c.held[(i+1)%memberClients] {
			k := 0
			if c.m.LockAt != nil {
				k = c.m.LockAt(l.Key())
			}
			if left[k]++; left[k] > waitsOfEach {
				continue
			}
			c.waits = append(c.waits, &inLine{l, async(func() error {
				w, err := client.Lock(ctx, l.Key(), coord.TTL(c.ttl))
				if err != nil {
					return err
				}
				return c.tolerate(w.Unlock(ctx))
			})})
		}
	}
	c.pass(200 * time.Millisecond) // most of them are in the queue by then; the others come to it while a member fails
}

// ours reports whether the hold can be served while the failing member cannot.
func (c *memberRun) ours(l *coord.Lock) bool { return serves(c.m.LockAt, l.Key(), c.victim) }

func locksAmid(hk Hook) func(*env) {
	return func(e *env) {
		c := e.memberRun()
		c.hold()
		end := c.breaks(hk)
		c.useLocks()
		c.stillHeld()
		c.servedInLine()
		c.givenBack()
		end()
		c.allAgain()
	}
}

// useLocks takes other locks until each hold was renewed, or was not and is lost, while each client has calls that wait
// for the failing member.
func (c *memberRun) useLocks() {
	first := c.deadlines()
	enough := func() bool { return time.Now().After(c.broke.Add(c.ttl * 7 / 6)) }
	if !c.timely() {
		enough = func() bool {
			return !slices.ContainsFunc(first, func(h deadline) bool { return h.l.Err() == nil && !h.l.Deadline().After(h.at) })
		}
	}
	c.each(func(e *env, i int, client *coord.Client) {
		c.bother(e, c.m.LockAt, fmt.Sprint("in vain by ", i), func(ctx context.Context, key string) {
			if l, err := client.TryLock(ctx, key, coord.TTL(c.ttl)); err == nil {
				_ = l.Unlock(ctx)
			}
		})
		keys, calls := c.healthy(c.m.LockAt, fmt.Sprint("new of ", i), 2), c.calls(e, c.m.LockAt)
		for n := 0; !enough(); n++ {
			calls.make("TryLock and Unlock of a free key", func(ctx context.Context) error {
				key := keys[n%len(keys)]
				if !calls.alone {
					key += e.newID() // a call that failed may have left the one before taken
				}
				l, err := client.TryLock(ctx, key, coord.TTL(c.ttl))
				if err == nil {
					err = l.Unlock(ctx)
				}
				return err
			})
			e.pass(c.m.Bound / 10)
		}
	})
}

// deadline is when a hold ended, or would have, at some time.
type deadline struct {
	l  *coord.Lock
	at time.Time
}

// deadlines are those of the holds that the failing member has no part in.
func (c *memberRun) deadlines() (all []deadline) {
	for _, held := range c.held {
		for _, l := range held {
			if c.ours(l) {
				all = append(all, deadline{l, l.Deadline()})
			}
		}
	}
	return all
}

// calls are those of one client that need no answer of the failing member.
type calls struct {
	*env
	c *memberRun
	// alone: each call is of one member, which serves. Else a call may have gone to the failing member. It fails then, and
	// when it is made again it goes to another member.
	alone bool
}

func (c *memberRun) calls(e *env, at func(string) int) *calls { return &calls{e, c, at != nil} }

// make makes one call, which is to be served within the bound.
func (s *calls) make(op string, call func(ctx context.Context) error) {
	for start := time.Now(); ; {
		began := time.Now()
		err := s.once(call)
		took := time.Since(began)
		switch {
		case err == nil:
			return
		case s.alone:
			s.Errorf("%s that a healthy member serves, %v after the fault: saw %v after %v, want it served", op, began.Sub(s.c.broke), err, took)
		case !s.alone && time.Since(start) > s.bound(soon):
			s.Fatalf("%s, made again and again for %v: saw %v, want it served by a healthy member", op, soon, err)
		case !s.alone:
			s.wantError(err, op+", which may have gone to the victim", coord.ErrUnavailable)
			rest(s.ctx, time.Millisecond)
			continue
		}
		return
	}
}

func (s *calls) once(call func(ctx context.Context) error) error {
	bound := s.bound(s.c.m.Bound)
	if !s.alone {
		bound = min(s.c.m.Bound/2, time.Second) // so that it is made again and again
	}
	ctx, cancel := context.WithTimeout(s.ctx, bound)
	defer cancel()
	return call(ctx)
}

// bother makes calls that wait for the failing member, where there is something that it alone serves.
func (c *memberRun) bother(e *env, at func(string) int, name string, call func(ctx context.Context, key string)) {
	if at == nil {
		return
	}
	ctx, cancel := context.WithCancel(e.ctx)
	var wg sync.WaitGroup
	for _, key := range c.keys(at, name, 2) {
		if serves(at, key, c.victim) {
			continue
		}
		wg.Go(func() {
			for ctx.Err() == nil {
				bound, cancel := context.WithTimeout(ctx, 2*c.m.Bound) // whoever waits for it is late beyond doubt
				call(bound, key)                                       // how it ends says nothing of the other members
				cancel()
				rest(ctx, c.m.Bound/20)
			}
		})
	}
	e.Cleanup(func() { cancel(); wg.Wait() })
}

// stillHeld fails the case if a hold or a position in the queue was lost that the failing member has no part in.
func (c *memberRun) stillHeld() {
	lost, all := 0, 0
	var sample error
	for _, held := range c.held {
		for _, l := range held {
			err := l.Err()
			switch {
			case !c.ours(l):
				continue
			case err != nil:
				lost, sample = lost+1, fmt.Errorf("%s: %w", l.Key(), err)
			}
			all++
		}
	}
	if lost > 0 {
		c.Errorf("locks on healthy members after %v of leases of %v: saw %d of %d lost, such as %v", time.Since(c.broke), c.ttl, lost, all, sample)
	}
	for _, w := range c.waits {
		select {
		case err := <-w.result:
			if c.ours(w.holder) && w.holder.Err() == nil {
				c.Errorf("a waiter for %s, which is held: saw it return with %v, want it in the queue", w.holder.Key(), err)
			}
			w.result = nil
		default:
		}
	}
}

// servedInLine unlocks what is waited for, and expects the waiters to get it.
func (c *memberRun) servedInLine() {
	var wg sync.WaitGroup
	for _, w := range c.waits {
		if c.ours(w.holder) && w.result != nil {
			wg.Go(func() { c.scopeOf("a waiter for "+w.holder.Key(), func(e *env) { c.passOn(e, w) }) })
		}
	}
	wg.Wait()
}

// tolerate is the error of an Unlock. Where any member may be asked, it can be the failing member: then the key is
// freed in the background.
func (c *memberRun) tolerate(err error) error {
	if c.m.LockAt == nil && errors.Is(err, coord.ErrUnavailable) {
		return nil
	}
	return err
}

func (c *memberRun) passOn(e *env, w *inLine) {
	if err := c.tolerate(w.holder.Unlock(e.ctx)); err != nil {
		e.Errorf("the holder's Unlock: saw %v, want nil", err)
		return
	}
	// One that came while the member failed may have its place asked for there, and given up, more than once.
	if err := recv(e, w.result, soon, "the lock, which was unlocked"); err != nil {
		e.Errorf("Lock: saw %v, want the lock, which was unlocked", err)
	}
}

// givenBack closes one client, and expects its locks to be free. The failing member's lapse.
func (c *memberRun) givenBack() {
	if err := c.clients[0].Close(); err != nil && !errors.Is(err, coord.ErrUnavailable) {
		c.Errorf("Close: saw %v, want nil or ErrUnavailable", err)
	}
	var wg sync.WaitGroup
	for i := 0; i < len(c.held[0]); i += len(c.held[0]) / 10 {
		if l := c.held[0][i]; c.ours(l) {
			wg.Go(func() { c.scopeOf("given back", func(e *env) { c.takes(e, l.Key()) }) })
		}
	}
	wg.Wait()
}

// allAgain takes a key of each member, now that all serve.
func (c *memberRun) allAgain() {
	for _, key := range c.keys(c.m.LockAt, "again", 1) {
		c.takes(c.env, key)
	}
}

// takes takes a lock that is to be free, and gives it back. It may take a while until that is known.
func (c *memberRun) takes(e *env, key string) {
	calls := calls{e, c, false}
	calls.make("TryLock of "+key+", which is free", func(ctx context.Context) error {
		l, err := c.clients[1].TryLock(ctx, key, coord.TTL(c.ttl))
		if errors.Is(err, coord.ErrLocked) {
			err = errors.Join(err, coord.ErrUnavailable)
		}
		if err == nil {
			err = l.Unlock(e.ctx)
		}
		return err
	})
}

// limitsAmid has all clients use up limits that the failing member has no part in.
func limitsAmid(hk Hook) func(*env) {
	return func(e *env) {
		const rate, requests = 100, 50 // of each client: more than there are permits
		c := e.memberRun()
		limit := coord.Per(rate, year)
		keys := c.healthy(c.m.LimitAt, "limit", 2)
		c.each(func(e *env, _ int, client *coord.Client) { // connections to all members
			for _, key := range c.keys(c.m.LimitAt, "limit", 2) {
				_, err := client.Peek(e.within(soon), key, limit)
				e.noError(err, "Peek while all members serve")
			}
		})
		end := c.breaks(hk)
		var mu sync.Mutex
		granted, failed := make(map[string]int), false
		c.each(func(e *env, i int, client *coord.Client) {
			c.bother(e, c.m.LimitAt, fmt.Sprint("in vain by ", i), func(ctx context.Context, key string) {
				_, _ = client.Allow(ctx, key, limit)
			})
			calls := c.calls(e, c.m.LimitAt)
			for range requests {
				for _, key := range keys {
					calls.make("Allow", func(ctx context.Context) error {
						r, err := client.Allow(ctx, key, limit)
						mu.Lock()
						defer mu.Unlock()
						granted[key] += r.Granted
						failed = failed || err != nil
						return err
					})
				}
				e.pass(c.m.Bound / requests)
			}
		})
		for key, n := range granted {
			if n > rate || n < rate && !failed {
				c.Errorf("permits of %v on a healthy member granted for %s: saw %d, want %d", limit, key, n, rate)
			}
		}
		end()
	}
}
