package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
)

// Bugs of waiting.
var queueMutants = []mutant{
	{
		name: "stack for a queue", bug: "who came last is granted first", sound: "queue",
		new: lined(queueBug{lifo: true}), killers: []string{"LOCK-51"},
	}, {
		name: "attempt that overtakes", bug: "TryLock looks at the holder, and not at those in the queue", sound: "queue",
		new: lined(queueBug{overtake: true}), killers: []string{"LOCK-51"},
	}, {
		name: "cancelled waiter stays in the queue", bug: "a wait that is cancelled leaves its place, and Unlock does not withdraw it (Curator#600)", sound: "queue",
		new: lined(queueBug{stay: true, keep: true}), killers: []string{"LOCK-40"},
	}, {
		name: "dead waiter is never skipped", bug: "the place of a waiter that died without a word has no end", sound: "queue",
		new: lined(queueBug{stay: true}), killers: []string{"LOCK-52"},
	}, {
		name: "dead waiter is offered the key", bug: "the time that a waiter has for taking what it is offered begins with the offer, however long it has been silent", sound: "queue",
		new: lined(queueBug{stay: true, offer: true}), killers: []string{"LOCK-52"},
	}, {
		name: "offer that was withdrawn goes to nobody", bug: "who is cancelled when it is its turn takes the turn with it", sound: "queue",
		new: lined(queueBug{lapse: true}), killers: []string{"LOCK-46"},
	}, {
		name: "wake-up lost when the lease lapses", bug: "waiters are told of an Unlock only, and a dead holder sends none", sound: "queue",
		new: lined(queueBug{deaf: true}), killers: []string{"LOCK-59"},
	}, {
		name: "woken and not granted", bug: "a waiter takes its wake-up for a grant", sound: "queue",
		new: lined(queueBug{phantom: true}), killers: []string{"LOCK-50", "LOCK-51"},
	}, {
		name: "wait that ends late", bug: "a cancelled wait returns when its next poll is due", sound: "queue",
		new: lined(queueBug{late: time.Second}), killers: []string{"LOCK-40", "LOCK-41"},
	}, {
		name: "queue that favours a client", bug: "who waits at the client that unlocked is granted before those in the queue", sound: "queue",
		new: lined(queueBug{own: true}), killers: []string{"LOCK-89"},
	}, {
		name: "silent queue", bug: "who waits is not told so",
		new: telling(func(lock lockFunc, _ func()) (driver.Grant, error) { return lock(func() {}) }), killers: []string{"LOCK-58"},
	}, {
		name: "queue that tells too late", bug: "who waits is told so when the wait is over",
		new: telling(func(lock lockFunc, waits func()) (driver.Grant, error) {
			waited := false
			g, err := lock(func() { waited = true })
			if waited {
				waits()
			}
			return g, err
		}), killers: []string{"LOCK-58"},
	}, {
		name: "queue that tells all", bug: "who is granted the key at once is told that it waits",
		new: telling(func(lock lockFunc, waits func()) (driver.Grant, error) {
			waits()
			return lock(func() {})
		}), killers: []string{"LOCK-58"},
	}, {
		name: "queue that tells again", bug: "who waits is told so each time that it asks",
		new: telling(func(lock lockFunc, waits func()) (driver.Grant, error) {
			return lock(func() { waits(); waits() })
		}), killers: []string{"LOCK-58"},
	},
}

// lockFunc is a call of Lock of the memory store.
type lockFunc func(waits func()) (driver.Grant, error)

// telling is a store whose queue tells who waits as tell does.
func telling(tell func(lockFunc, func()) (driver.Grant, error)) func() harness {
	return on(func(s store) driver.Backend { return tellsWaiters{s, tell} })
}

type tellsWaiters struct {
	store
	tell func(lockFunc, func()) (driver.Grant, error)
}

func (b tellsWaiters) Lock(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
	return b.tell(func(waits func()) (driver.Grant, error) { return b.store.Lock(ctx, key, r, waits) }, waits)
}

type queueBug struct {
	lifo     bool
	overtake bool
	stay     bool // of a wait that was cancelled
	offer    bool // a dead waiter is passed when it has had its TTL since an Unlock
	lapse    bool // of the turn of a wait that was cancelled
	keep     bool // Unlock withdraws nobody
	deaf     bool // to leases that lapse
	phantom  bool
	own      bool // the client that unlocked comes first
	late     time.Duration
}

// line is a queue of the suite's own above a store: it polls, and it is fair.
type line struct {
	mu      sync.Mutex
	waiting map[string][]*place
	unlocks map[string]int   // how often a key was unlocked
	last    map[string]store // which client unlocked it last
	freed   map[string]time.Time
	stuck   map[string]bool // keys that are offered to nobody
}

type place struct {
	id   string
	at   store // its client
	seen int   // unlocks when it came
	gone bool  // withdrawn
	died bool  // its wait was cancelled, and it has stayed
	ttl  time.Duration
}

func lined(bug queueBug) func() harness {
	return func() harness {
		shared := &line{waiting: make(map[string][]*place), unlocks: make(map[string]int), last: make(map[string]store), freed: make(map[string]time.Time), stuck: make(map[string]bool)}
		return on(func(s store) driver.Backend { return queued{s, shared, bug} })()
	}
}

type queued struct {
	store
	line *line
	bug  queueBug
}

func (b queued) Lock(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
	p, once := b.join(key, r.ID), sync.Once{}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		g, done, err := b.attempt(ctx, key, r, p)
		if done {
			return g, err
		}
		once.Do(waits)
		select {
		case <-ctx.Done():
			first, woken, _ := b.turn(key, p)
			b.line.mu.Lock()
			p.died, p.ttl = b.bug.offer, r.TTL
			b.line.stuck[key] = b.line.stuck[key] || b.bug.lapse && first && woken
			b.line.mu.Unlock()
			if !b.bug.stay {
				b.leave(key, p)
			}
			time.Sleep(b.bug.late)
			return driver.Grant{}, fmt.Errorf("%w: %w", ctx.Err(), context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// attempt tries if p is first in the queue.
func (b queued) attempt(ctx context.Context, key string, r driver.Request, p *place) (g driver.Grant, done bool, err error) {
	if err := b.Ping(ctx); err != nil && ctx.Err() == nil {
		b.leave(key, p)
		return g, true, err // the client was closed
	}
	first, woken, gone := b.turn(key, p)
	switch {
	case gone:
		return g, true, driver.ErrNotHeld
	case !first, b.bug.deaf && !woken:
		return g, false, nil
	case b.bug.phantom && woken:
		b.leave(key, p)
		return driver.Grant{Token: 1 << 40, TTL: r.TTL, Since: time.Now()}, true, nil
	}
	since := time.Now()
	g, err = b.store.TryLock(ctx, key, r)
	g.Since = since
	if done = !errors.Is(err, driver.ErrLocked) && ctx.Err() == nil; done {
		b.leave(key, p)
	}
	return g, done, err
}

func (b queued) join(key, id string) *place {
	b.line.mu.Lock()
	defer b.line.mu.Unlock()
	p := &place{id: id, at: b.store, seen: b.line.unlocks[key]}
	b.line.waiting[key] = append(b.line.waiting[key], p)
	return p
}

func (b queued) leave(key string, p *place) {
	b.line.mu.Lock()
	defer b.line.mu.Unlock()
	b.line.waiting[key] = slices.DeleteFunc(b.line.waiting[key], func(o *place) bool { return o == p })
}

func (b queued) turn(key string, p *place) (first, woken, gone bool) {
	b.line.mu.Lock()
	defer b.line.mu.Unlock()
	list := b.line.waiting[key]
	if len(list) > 0 && list[0].died && list[0] != p && b.line.unlocks[key] > 0 && time.Since(b.line.freed[key]) > list[0].ttl {
		list = list[1:]
	}
	if p.gone || len(list) == 0 {
		return false, false, true
	}
	if b.line.stuck[key] {
		return false, false, false
	}
	next := list[0]
	if b.bug.lifo {
		next = list[len(list)-1]
	}
	if i := slices.IndexFunc(list, func(p *place) bool { return p.at == b.line.last[key] }); b.bug.own && i >= 0 {
		next = list[i]
	}
	return next == p, b.line.unlocks[key] > p.seen, false
}

func (b queued) waiters(key string) int {
	b.line.mu.Lock()
	defer b.line.mu.Unlock()
	return len(b.line.waiting[key])
}

func (b queued) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if !b.bug.overtake && b.waiters(key) > 0 {
		if h, err := b.store.Inspect(ctx, key); err != nil || h.ID != r.ID {
			return driver.Grant{}, driver.ErrLocked
		}
	}
	return b.store.TryLock(ctx, key, r)
}

func (b queued) Unlock(ctx context.Context, key, id string) error {
	if !b.bug.keep && b.withdraw(key, id) {
		return nil
	}
	err := b.store.Unlock(ctx, key, id)
	if err == nil {
		b.line.mu.Lock()
		b.line.unlocks[key]++
		b.line.last[key] = b.store
		b.line.freed[key] = time.Now()
		b.line.mu.Unlock()
	}
	return err
}

func (b queued) withdraw(key, id string) bool {
	b.line.mu.Lock()
	defer b.line.mu.Unlock()
	list := b.line.waiting[key]
	i := slices.IndexFunc(list, func(p *place) bool { return p.id == id })
	if i < 0 {
		return false
	}
	list[i].gone = true
	b.line.waiting[key] = slices.Delete(list, i, i+1)
	return true
}

func (b queued) Inspect(ctx context.Context, key string) (driver.Holder, error) {
	h, err := b.store.Inspect(ctx, key)
	h.Waiters = b.waiters(key)
	return h, err
}
