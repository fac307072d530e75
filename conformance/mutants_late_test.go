package conformance_test

import (
	"context"
	"sync"
	"time"

	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
)

// Bugs of calls of two requests, the second of which may be late.
var lateMutants = []mutant{
	{
		name: "release that is late", bug: "the id is compared in one request and the entry deleted in another, whoever has it by then", sound: "late",
		new: late(lateBug{unlock: true}), killers: []string{"LOCK-233"},
	}, {
		name: "renewal that is late", bug: "the id is compared in one request and the entry written in another, whoever has it by then", sound: "late",
		new: late(lateBug{renew: true}), killers: []string{"LOCK-233"},
	}, {
		name: "version that comes again", bug: "an account that was reset begins anew at the same version, so that a late write to the old one succeeds", sound: "late",
		new: late(lateBug{reset: true}), killers: []string{"LIMIT-233"},
	}, {
		name: "version of a node that was collected", bug: "a reset counts as a write, but an account that was collected begins anew at the same version (ZooKeeper)", sound: "late",
		new: late(lateBug{collect: true}), killers: []string{"LIMIT-233"},
	},
}

type lateBug struct{ unlock, renew, reset, collect bool }

func late(bug lateBug) func() harness {
	return func() harness {
		shared, v := memory.NewStore(), &versions{of: make(map[string]int)}
		open := func() *twoStep {
			return &twoStep{store: shared.Open(), bug: bug, link: newGate(), versions: v}
		}
		claims := without(memory.Claims, driver.ScopeProcess, driver.ScopeHosts)
		return harness{
			Open:   func(conformance.TB) driver.Backend { return &claimer{open(), claims} },
			Claims: claims,
			Faults: &conformance.Faults{
				Link: func(conformance.TB) (driver.Backend, conformance.Link) {
					b := open()
					return &claimer{b, claims}, b.link
				},
				Collect: func(tb conformance.TB, key string, l driver.Limit) {
					if err := v.end(tb.Context(), shared.Open(), key, l, bug.collect); err != nil {
						tb.Fatalf("Reset: %v", err)
					}
				},
			},
		}
	}
}

// without is claims with one of them replaced.
func without(claims driver.Claims, old, replacement driver.Claim) driver.Claims {
	out := driver.Claims{replacement}
	for _, c := range claims {
		if c != old {
			out = append(out, c)
		}
	}
	return out
}

// gate is the way to a store in this process: each request passes it.
type gate struct {
	mu      sync.Mutex
	passing int           // requests that pass before they stall; -1: all
	opened  chan struct{} // closed by Heal
}

func newGate() *gate { return &gate{passing: -1, opened: make(chan struct{})} }

// pass waits until the request may arrive.
func (g *gate) pass() {
	g.mu.Lock()
	stalled, opened := g.passing == 0, g.opened
	if g.passing > 0 {
		g.passing--
	}
	g.mu.Unlock()
	if stalled {
		<-opened
	}
}

func (g *gate) StallAfter(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.passing = n
}

func (g *gate) Heal() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.passing = -1
	close(g.opened)
	g.opened = make(chan struct{})
}

func (g *gate) StallRequests()      { g.StallAfter(0) }
func (g *gate) StallReplies()       {}
func (g *gate) DropReply()          {}
func (g *gate) Reset()              {}
func (g *gate) Cut()                {}
func (g *gate) Delay(time.Duration) {}

// versions count the writes of each account.
type versions struct {
	mu sync.Mutex
	of map[string]int
}

// end removes an account. The next one begins at the next version, or at the first.
func (v *versions) end(ctx context.Context, s store, key string, l driver.Limit, anew bool) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.of[key]++
	if anew {
		v.of[key] = 0
	}
	return s.Reset(ctx, key, l)
}

// twoStep makes each change in two requests.
type twoStep struct {
	store
	bug      lateBug
	link     *gate
	versions *versions
}

// sending makes a call that goes on when ctx has ended and its caller has gone.
func (b *twoStep) sending(ctx context.Context, call func() error) error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// held makes the first request, and reports whether id holds key.
func (b *twoStep) held(key, id string) bool {
	b.link.pass()
	h, err := b.Inspect(context.Background(), key)
	return err == nil && h.ID == id && !h.Released
}

func (b *twoStep) Unlock(ctx context.Context, key, id string) error {
	return b.sending(ctx, func() error {
		held := b.held(key, id)
		b.link.pass()
		ctx := context.Background()
		if !held || !b.bug.unlock {
			return b.store.Unlock(ctx, key, id)
		}
		h, err := b.Inspect(ctx, key)
		if err != nil {
			return err
		}
		return b.store.Unlock(ctx, key, h.ID)
	})
}

func (b *twoStep) Renew(ctx context.Context, key string, r driver.Request) (g driver.Grant, err error) {
	var answer driver.Grant
	err = b.sending(ctx, func() (err error) {
		held := b.held(key, r.ID)
		b.link.pass()
		ctx := context.Background()
		if !held || !b.bug.renew {
			answer, err = b.store.Renew(ctx, key, r)
			return err
		}
		if h, err := b.Inspect(ctx, key); err == nil && h.ID != r.ID {
			if err := b.store.Unlock(ctx, key, h.ID); err != nil {
				return err
			}
		}
		answer, err = b.TryLock(ctx, key, r)
		return err
	})
	if err == nil {
		g = answer
	}
	return g, err
}

func (b *twoStep) Reset(ctx context.Context, key string, l driver.Limit) error {
	return b.versions.end(ctx, b.store, key, l, b.bug.reset)
}

func (b *twoStep) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (t driver.Taken, err error) {
	if len(asks) != 1 || asks[0].N == 0 {
		return b.store.Take(ctx, key, l, asks)
	}
	var answer driver.Taken
	err = b.sending(ctx, func() (err error) {
		for swapped := false; !swapped && err == nil; {
			answer, swapped, err = b.swap(key, l, asks[0])
		}
		return err
	})
	if err == nil {
		t = answer
	}
	return t, err
}

// swap reads how many permits are left, and in a second request writes what is left after a, if the
// version of the account is the same.
func (b *twoStep) swap(key string, l driver.Limit, a driver.Ask) (t driver.Taken, swapped bool, err error) {
	ctx, v := context.Background(), b.versions
	b.link.pass()
	v.mu.Lock()
	seen := v.of[key]
	old, err := b.store.Take(ctx, key, l, []driver.Ask{{}})
	v.mu.Unlock()
	if err != nil {
		return t, false, err
	}
	b.link.pass()
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.of[key] != seen:
		return t, false, nil
	case old.Remaining < a.N:
		t, err = b.store.Take(ctx, key, l, []driver.Ask{a})
		v.of[key]++
		return t, true, err
	}
	if err := b.store.Reset(ctx, key, l); err != nil {
		return t, false, err
	}
	sum := l.Max() - old.Remaining + a.N
	t, err = b.store.Take(ctx, key, l, []driver.Ask{{Min: sum, N: sum}})
	if err == nil {
		t.Asks[0].N = a.N
		v.of[key]++
	}
	return t, true, err
}
