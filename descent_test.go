package coord_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/wrap"
)

type body = func(context.Context) error

// way is a way to run fn under the key "account".
type way struct {
	name string
	run  func(ctx context.Context, c *coord.Client, fn body) error
}

// byHand is a way with Lock or TryLock; bound says whether it passes Lock.Context on.
func byHand(lock func(context.Context, *coord.Client) (*coord.Lock, error), bound bool) func(context.Context, *coord.Client, body) error {
	return func(ctx context.Context, c *coord.Client, fn body) error {
		l, err := lock(ctx, c)
		if err != nil {
			return err
		}
		defer func() { _ = l.Unlock(ctx) }()
		if bound {
			inner, cancel := l.Context(ctx)
			defer cancel()
			ctx = inner
		}
		return fn(ctx)
	}
}

func lockAccount(ctx context.Context, c *coord.Client) (*coord.Lock, error) {
	return c.Lock(ctx, "account")
}

func tryAccount(ctx context.Context, c *coord.Client) (*coord.Lock, error) {
	return c.TryLock(ctx, "account")
}

// entryWays are all of them that let one in at a time.
var entryWays = []way{
	{"Do", func(ctx context.Context, c *coord.Client, fn body) error { return coord.Do(ctx, c, "account", fn) }},
	{"TryDo", func(ctx context.Context, c *coord.Client, fn body) error {
		if ran, err := coord.TryDo(ctx, c, "account", fn); err != nil || ran {
			return err
		}
		return coord.ErrLocked
	}},
	{"Lock", byHand(lockAccount, false)},
	{"TryLock", byHand(tryAccount, false)},
	{"Lock.Context", byHand(lockAccount, true)},
	{"Do in Lock.Context", func(ctx context.Context, c *coord.Client, fn body) error {
		return byHand(lockAccount, true)(ctx, c, func(ctx context.Context) error { return coord.Do(ctx, c, "account", fn) })
	}},
	{"Do in Do", func(ctx context.Context, c *coord.Client, fn body) error {
		return coord.Do(ctx, c, "account", func(ctx context.Context) error { return coord.Do(ctx, c, "account", fn) })
	}},
	{"DoAll", func(ctx context.Context, c *coord.Client, fn body) error {
		return coord.DoAll(ctx, c, []string{"another", "account"}, fn)
	}},
	{"TryDoAll", func(ctx context.Context, c *coord.Client, fn body) error {
		if ran, err := coord.TryDoAll(ctx, c, []string{"another", "account"}, fn); err != nil || ran {
			return err
		}
		return coord.ErrLocked
	}},
	{"Locked", func(ctx context.Context, c *coord.Client, fn body) error {
		locked := wrap.Locked(c, func(string) string { return "account" }, wrap.NoResult(func(ctx context.Context, _ string) error { return fn(ctx) }))
		_, err := locked(ctx, "")
		return err
	}},
	{"Lead", func(ctx context.Context, c *coord.Client, fn body) error { return coord.Lead(ctx, c, "account", fn) }},
	{"Do of Write", func(ctx context.Context, c *coord.Client, fn body) error {
		return coord.Do(ctx, c.ReadWrite().Write(), "account", fn)
	}},
	{"Do of Semaphore(1)", func(ctx context.Context, c *coord.Client, fn body) error {
		return coord.Do(ctx, c.Semaphore(1), "account", fn)
	}},
}

// outerWays make the context that the goroutines share.
var outerWays = []struct {
	name string
	run  func(ctx context.Context, c *coord.Client, same way, fn body) error
	not  func(way string) bool // ways that do something else under it
}{
	{name: "nothing", run: func(ctx context.Context, _ *coord.Client, _ way, fn body) error { return fn(ctx) }},
	{name: "Do of another key", run: func(ctx context.Context, c *coord.Client, _ way, fn body) error { return coord.Do(ctx, c, "batch", fn) }},
	{name: "Lead of another key", run: func(ctx context.Context, c *coord.Client, _ way, fn body) error {
		return coord.Lead(ctx, c, "batch", fn)
	}},
	{
		name: "WithOwner", run: func(ctx context.Context, _ *coord.Client, _ way, fn body) error { return fn(coord.WithOwner(ctx)) },
		not: func(way string) bool { return strings.Contains(way, "Lock") && way != "Locked" }, // they enter each other's locks
	},
	{name: "Do of another key, without its end", run: func(ctx context.Context, c *coord.Client, _ way, fn body) error {
		return coord.Do(ctx, c, "batch", func(ctx context.Context) error { return fn(context.WithoutCancel(ctx)) })
	}},
	{
		name: "the same", run: func(ctx context.Context, c *coord.Client, same way, fn body) error { return same.run(ctx, c, fn) },
		not: func(way string) bool { return way == "Lock" || way == "TryLock" || way == "Lead" }, // they wait for the outer one
	},
}

// Goroutines that share a context exclude each other, whatever lock it was made under and whatever they take.
func TestGoroutinesOfOneContextExcludeEachOther(t *testing.T) {
	for _, outer := range outerWays {
		for _, w := range entryWays {
			if outer.not != nil && outer.not(w.name) {
				continue
			}
			t.Run(w.name+" under "+outer.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					fanOut(t, newClient(t), w, func(ctx context.Context, c *coord.Client, fn body) error { return outer.run(ctx, c, w, fn) })
				})
			})
		}
	}
}

// fanOut has four goroutines add to a count under w. Tries are made again while the key is taken.
func fanOut(t *testing.T, c *coord.Client, w way, outer func(context.Context, *coord.Client, body) error) {
	const goroutines, rounds = 4, 5
	var mu sync.Mutex
	inside, count := 0, 0
	visit := func(context.Context) error {
		mu.Lock()
		inside++
		now, was := inside, count
		mu.Unlock()
		if now != 1 {
			t.Errorf("%d inside at once, want one", now)
		}
		time.Sleep(time.Millisecond)
		mu.Lock()
		inside, count = inside-1, was+1
		mu.Unlock()
		return nil
	}
	bounded, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := outer(bounded, c, func(ctx context.Context) error {
		var wg sync.WaitGroup
		for range goroutines {
			wg.Go(func() {
				for range rounds {
					err := w.run(ctx, c, visit)
					for errors.Is(err, coord.ErrLocked) && ctx.Err() == nil {
						time.Sleep(time.Millisecond)
						err = w.run(ctx, c, visit)
					}
					if err != nil {
						t.Errorf("%s: %v", w.name, err)
					}
				}
			})
		}
		wg.Wait()
		return nil
	})
	if err != nil || count != goroutines*rounds {
		t.Errorf("%d of %d were counted, error %v", count, goroutines*rounds, err)
	}
}

// Readers share what nobody writes, also under one context, and permits go to as many as there are.
func TestGoroutinesOfOneContextShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t)
		read := func(ctx context.Context, fn body) error { return coord.Do(ctx, c.ReadWrite().Read(), "k", fn) }
		write := func(ctx context.Context, fn body) error { return coord.Do(ctx, c.ReadWrite().Write(), "k", fn) }
		permit := func(ctx context.Context, fn body) error { return coord.Do(ctx, c.Semaphore(2), "k", fn) }
		plain := func(ctx context.Context, fn body) error { return fn(ctx) }
		for _, tt := range []struct {
			name         string
			outer, inner func(context.Context, body) error
			most         int
		}{
			{"readers", plain, read, 4},
			{"readers under a reader", read, read, 4},
			{"readers under a writer", write, read, 1},
			{"writers under a writer", write, write, 1},
			{"permits", plain, permit, 2},
			{"permits under a permit", permit, permit, 1},
		} {
			var mu sync.Mutex
			inside, most := 0, 0
			err := tt.outer(t.Context(), func(ctx context.Context) error {
				var wg sync.WaitGroup
				for range 4 {
					wg.Go(func() {
						err := tt.inner(ctx, func(context.Context) error {
							mu.Lock()
							inside++
							most = max(most, inside)
							mu.Unlock()
							time.Sleep(time.Second)
							mu.Lock()
							inside--
							mu.Unlock()
							return nil
						})
						if err != nil {
							t.Errorf("%s: %v", tt.name, err)
						}
					})
				}
				wg.Wait()
				return nil
			})
			if err != nil || most != tt.most {
				t.Errorf("%s: %d at once, error %v, want %d", tt.name, most, err, tt.most)
			}
		}
	})
}

// Whatever a tree of goroutines does, of two entries inside one descends from the other, and nothing is left.
func TestEntriesInsideAreOneChain(t *testing.T) {
	for round := range 20 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tree := &tree{t: t, c: newClient(t), r: rand.New(rand.NewPCG(seed, 0)), inside: make(map[string]bool)}
				for i := range 4 {
					tree.wg.Go(func() { tree.work(t.Context(), string(rune('A'+i))+"/", 0) })
				}
				tree.wg.Wait()
				l, err := tree.c.TryLock(t.Context(), "k")
				if err != nil {
					t.Fatalf("when all had left: %v", err)
				}
				_ = l.Unlock(t.Context())
				if t.Failed() {
					t.Logf("seed %d", seed)
				}
			})
		})
	}
}

// tree is goroutines that lock one key in each other's contexts, in all ways.
type tree struct {
	t      *testing.T
	c      *coord.Client
	wg     sync.WaitGroup
	mu     sync.Mutex // guards what follows
	r      *rand.Rand
	inside map[string]bool // by descent
}

func (r *tree) intN(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.r.IntN(n)
}

// work enters, perhaps, and starts others.
func (r *tree) work(ctx context.Context, path string, depth int) {
	defer func() { _ = recover() }()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(1+r.intN(30))*time.Millisecond)
	defer cancel()
	in := func(ctx context.Context) error { return r.visit(ctx, path, depth) }
	switch r.intN(4) {
	case 0:
		_ = byHand(func(ctx context.Context, c *coord.Client) (*coord.Lock, error) { return c.Lock(ctx, "k") }, true)(ctx, r.c, in)
	case 1:
		_, _ = coord.TryDo(ctx, r.c, "k", in)
	default:
		_ = coord.Do(ctx, r.c, "k", in)
	}
}

func (r *tree) visit(ctx context.Context, path string, depth int) error {
	r.mu.Lock()
	for other := range r.inside {
		if !strings.HasPrefix(path, other) && !strings.HasPrefix(other, path) {
			r.t.Errorf("%s is inside beside %s", path, other)
		}
	}
	r.inside[path] = true
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.inside, path)
		r.mu.Unlock()
	}()
	for i := range r.intN(4) {
		if depth == 4 {
			break
		}
		next, sub := ctx, path+string(rune('a'+i))+"/"
		if r.intN(3) == 0 {
			next = context.WithoutCancel(ctx)
		}
		if r.intN(3) == 0 {
			r.work(next, sub, depth+1)
		} else {
			r.wg.Go(func() { r.work(next, sub, depth+1) })
		}
	}
	time.Sleep(time.Duration(r.intN(300)) * time.Microsecond)
	if r.intN(20) == 0 {
		panic("a function's own")
	}
	return nil
}

func newClient(t *testing.T) *coord.Client {
	c, err := coord.New(memory.New())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
