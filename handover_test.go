package coord

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/observe"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/hold"
)

// waitFor starts a Lock that has to wait, and gives what comes of it.
func waitFor(ctx context.Context, c *Client, opts ...LockOption) <-chan lockResult {
	got := make(chan lockResult, 1)
	go func() {
		l, err := c.Lock(ctx, "k", opts...)
		got <- lockResult{l, err}
	}()
	synctest.Wait()
	return got
}

type lockResult struct {
	l   *Lock
	err error
}

func (r lockResult) lock(t *testing.T) *Lock {
	t.Helper()
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.l
}

func unlock(t testing.TB, l *Lock) {
	t.Helper()
	if err := l.Unlock(context.Background()); err != nil {
		t.Error(err)
	}
}

// handedFrom reports whether b is a later tenure of a's hold.
func handedFrom(a, b *Lock) bool { return a.h.t.ID() == b.h.t.ID() && b.Token() > a.Token() }

// newFairFake makes a store with a queue that claims to be fair.
func newFairFake() queuedFake {
	f := queuedFake{newFake(), make(chan struct{}, 100)}
	f.info.Claims = append(f.info.Claims, driver.Fair)
	return f
}

// The hold goes from one goroutine to the next, with rising tokens and no call, and back
// to the store in the end.
func TestHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, f)
		l := must[*Lock](t)(c.Lock(t.Context(), "k"))
		const n = 20
		var waiters [n]<-chan lockResult
		for i := range waiters {
			waiters[i] = waitFor(t.Context(), c)
		}
		for i := range waiters {
			ctx, cancel := l.Context(t.Context())
			defer cancel()
			done := l.Done()
			unlock(t, l)
			next := (<-waiters[i]).lock(t)
			if !isClosed(done) || ctx.Err() == nil || !errors.Is(context.Cause(ctx), ErrNotHeld) {
				t.Errorf("granted while Done of the last holder is open, or its context goes on: %v", context.Cause(ctx))
			}
			if next.Token() != l.Token()+1 || storeValue(next.Token()) != 1 {
				t.Errorf("token %d after %d", next.Token(), l.Token())
			}
			wantErr(t, l.Err(), ErrNotHeld)
			wantErr(t, l.Unlock(t.Context()), ErrNotHeld)
			if err := next.Err(); err != nil || isClosed(next.Done()) {
				t.Errorf("tenure %d: %v", i, err)
			}
			l = next
		}
		if len(f.calls) != 1 {
			t.Errorf("calls %q: want one", f.calls)
		}
		unlock(t, l)
		if f.held("k") || c.leftovers() != (leftovers{}) {
			t.Errorf("held %v, left behind %+v", f.held("k"), c.leftovers())
		}
	})
}

// storeValue is the store's part of the token.
func storeValue(t Token) int64 { return int64(t) >> hold.SeqBits }

// When a hold is handed over, and when it goes back to the store.
func TestHandOverConditions(t *testing.T) {
	leads := LockOption{field: fieldOfLead, value: 1}
	hang := func(op, _ string) outcome { return outcome{hang: op == "renew"} }
	for name, test := range map[string]struct {
		client         []Option
		holder, waiter []LockOption
		held           time.Duration // before Unlock
		intercept      func(op, key string) outcome
		want           bool
	}{
		"plain":                      {want: true},
		"within the window":          {held: handOverWindow - 1, want: true},
		"after the window":           {held: handOverWindow},
		"same TTL, said again":       {waiter: []LockOption{TTL(DefaultTTL)}, want: true},
		"shorter TTL":                {waiter: []LockOption{TTL(10 * time.Second)}},
		"longer TTL":                 {waiter: []LockOption{TTL(time.Minute)}},
		"waiter does not renew":      {waiter: []LockOption{NoRenew()}},
		"holder does not renew":      {holder: []LockOption{NoRenew()}},
		"waiter with MinHold":        {waiter: []LockOption{MinHold(time.Millisecond)}},
		"holder with MinHold":        {holder: []LockOption{MinHold(time.Millisecond)}, held: 2 * time.Millisecond},
		"waiter with MaxHold":        {waiter: []LockOption{MaxHold(time.Second)}, want: true},
		"holder with MaxHold":        {holder: []LockOption{MaxHold(time.Second)}, want: true},
		"waiter with WaitAtMost":     {waiter: []LockOption{WaitAtMost(time.Second)}, want: true},
		"two thirds left":            {client: []Option{WithLockDefaults(TTL(90 * time.Millisecond))}, held: 25 * time.Millisecond, want: true},
		"less left":                  {client: []Option{WithLockDefaults(TTL(90 * time.Millisecond))}, held: 40 * time.Millisecond, intercept: hang},
		"renewed":                    {client: []Option{WithLockDefaults(TTL(90 * time.Millisecond))}, held: 40 * time.Millisecond, want: true},
		"waiter leads":               {waiter: []LockOption{leads}},
		"both lead":                  {holder: []LockOption{leads}, waiter: []LockOption{leads}, want: true},
		"with a floor for tokens":    {client: []Option{WithTokenFloor(5000)}, want: true},
		"with a prefix":              {client: []Option{WithPrefix("p/")}, want: true},
		"with an observer":           {client: []Option{WithObserver(new(eventLog).locks())}, want: true},
		"after the window, observed": {client: []Option{WithObserver(new(eventLog).locks())}, held: handOverWindow},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				f.setIntercept(test.intercept)
				c := newTestClient(t, f, test.client...)
				l := must[*Lock](t)(c.Lock(t.Context(), "k", test.holder...))
				waiter := waitFor(t.Context(), c, test.waiter...)
				time.Sleep(test.held)
				unlock(t, l)
				next := (<-waiter).lock(t)
				if handedFrom(l, next) != test.want {
					t.Errorf("handed over: %v, want %v", handedFrom(l, next), test.want)
				}
				if next.Token() <= l.Token() {
					t.Errorf("token %d after %d", next.Token(), l.Token())
				}
				unlock(t, next)
				f.setIntercept(nil)
				time.Sleep(2 * cleanUpGrace)
				if left := c.leftovers(); left != (leftovers{}) {
					t.Errorf("left behind: %+v", left)
				}
			})
		})
	}
}

// The hand-over window counts from the store's grant, not from the last hand-over.
func TestHandOverWindowIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, f)
		var wg sync.WaitGroup
		granted := make(map[int64]time.Time)
		for range 4 {
			wg.Go(func() {
				for range 50 {
					l := must[*Lock](t)(c.Lock(t.Context(), "k"))
					v := storeValue(l.Token())
					if granted[v].IsZero() {
						granted[v] = time.Now()
					}
					if d := time.Since(granted[v]); d > handOverWindow {
						t.Errorf("handed over %v after the grant", d)
					}
					time.Sleep(3 * time.Millisecond)
					unlock(t, l)
				}
			})
		}
		wg.Wait()
		if n := f.count("trylock"); n != len(granted) || n < 10 || n > 15 {
			t.Errorf("%d attempts, %d grants for 200 holds of 3ms: want one per %v", n, len(granted), handOverWindow)
		}
	})
}

// A token has room for 1023 hand-overs.
func TestHandOversAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestClient(t, newFake())
		var last Token
		l := must[*Lock](t)(c.Lock(t.Context(), "k"))
		for i := range maxHandOvers + 1 {
			waiter := waitFor(t.Context(), c)
			unlock(t, l)
			next := (<-waiter).lock(t)
			if want := i < maxHandOvers; handedFrom(l, next) != want {
				t.Fatalf("hand-over %d: %v", i+1, !want)
			}
			if next.Token() <= l.Token() {
				t.Fatalf("token %d after %d", next.Token(), l.Token())
			}
			last, l = next.Token(), next
		}
		if storeValue(last) != 2 {
			t.Errorf("the last token is %d, of store value %d", last, storeValue(last))
		}
		unlock(t, l)
	})
}

// MaxHold is the tenure's own: it begins and ends with it.
func TestMaxHoldOfATenure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, f)
		first := must[*Lock](t)(c.Lock(t.Context(), "k", MaxHold(time.Second)))
		short, long := waitFor(t.Context(), c, MaxHold(300*time.Millisecond)), waitFor(t.Context(), c)
		time.Sleep(20 * time.Millisecond)
		start := time.Now()
		unlock(t, first)
		second := (<-short).lock(t)
		if !handedFrom(first, second) {
			t.Fatal("not handed over")
		}
		<-second.Done()
		if d := time.Since(start); d != 300*time.Millisecond {
			t.Errorf("ended after %v: want 300ms after it began", d)
		}
		wantErr(t, second.Err(), ErrMaxHold)
		third := (<-long).lock(t)
		if third.h.t.ID() == first.h.t.ID() {
			t.Error("a hold that was lost was handed over")
		}
		again := waitFor(t.Context(), c)
		unlock(t, third)
		fourth := (<-again).lock(t)
		time.Sleep(2 * DefaultTTL)
		if err := fourth.Err(); err != nil {
			t.Error(err)
		}
		unlock(t, fourth)
	})
}

// After a hand-over the old handle tells of its own tenure, not of the next.
func TestStaleHandle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, f)
		l := must[*Lock](t)(c.Lock(t.Context(), "k", TTL(time.Second)))
		token, ttl, deadline := l.Token(), l.TTL(), l.Deadline()
		waiter := waitFor(t.Context(), c, TTL(time.Second))
		unlock(t, l)
		next := (<-waiter).lock(t)
		time.Sleep(10 * time.Second)
		if l.Token() != token || l.TTL() != ttl || !l.Deadline().Equal(deadline) {
			t.Errorf("%d %v %v became %d %v %v", token, ttl, deadline, l.Token(), l.TTL(), l.Deadline())
		}
		if !next.Deadline().After(time.Now()) {
			t.Errorf("deadline %v of the tenure is past", next.Deadline())
		}
		wantErr(t, l.Err(), ErrNotHeld)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { wantErr(t, l.Unlock(t.Context()), ErrNotHeld) })
		}
		wg.Wait()
		ctx, cancel := l.Context(t.Context())
		defer cancel()
		if ctx.Err() == nil || !isClosed(l.Done()) {
			t.Error("the context of an old handle goes on")
		}
		if err := next.Err(); err != nil || !f.held("k") {
			t.Errorf("the next tenure: %v, held %v", err, f.held("k"))
		}
		unlock(t, next)
	})
}

// Waiters leave while they are handed the hold, with nothing to keep them apart. What they are handed is theirs, or goes on.
func TestHandOverCrossesCancellation(t *testing.T) {
	c := newTestClient(t, newFake())
	inside := 0 // guarded by the lock alone
	for range 200 {
		l := must[*Lock](t)(c.Lock(t.Context(), "k"))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 4 {
			ctx := ctx
			if i%2 == 0 {
				ctx = t.Context()
			}
			wg.Go(func() {
				l, err := c.Lock(ctx, "k")
				if err != nil {
					wantErr(t, err, context.Canceled)
					return
				}
				inside++
				unlock(t, l)
			})
		}
		wg.Go(cancel)
		unlock(t, l)
		wg.Wait()
	}
	if inside < 400 {
		t.Errorf("%d holds: want at least those of the 400 who stayed", inside)
	}
	if left := c.leftovers(); left != (leftovers{}) {
		t.Errorf("left behind: %+v", left)
	}
}

// A loss is that of whoever has the hold now, whether the store tells it or the lease ends. The others ask the store under
// another id.
func TestLossOfAHandedTenure(t *testing.T) {
	for name, lose := range map[string]func(f *fakeStore, c *Client, id string){
		"told by the store": func(f *fakeStore, c *Client, id string) {
			f.remove("k")
			c.locks.LossPushed("k", id, errWire)
		},
		"at the deadline": func(f *fakeStore, _ *Client, _ string) {
			f.setIntercept(func(op, _ string) outcome {
				if op == "renew" {
					return outcome{before: errWire}
				}
				return outcome{}
			})
			time.Sleep(DefaultTTL)
			f.setIntercept(nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				c := newTestClient(t, f)
				l := must[*Lock](t)(c.Lock(t.Context(), "k"))
				waiters := []<-chan lockResult{waitFor(t.Context(), c), waitFor(t.Context(), c)}
				unlock(t, l)
				second := (<-waiters[0]).lock(t)
				if !handedFrom(l, second) {
					t.Fatal("not handed over")
				}
				done := second.Done()
				lose(f, c, second.h.t.ID())
				if !isClosed(done) {
					t.Error("Done is open after the loss")
				}
				wantErr(t, second.Err(), ErrLost)
				wantErr(t, l.Err(), ErrNotHeld)
				if errors.Is(l.Err(), ErrLost) {
					t.Errorf("an old handle lost what it did not have: %v", l.Err())
				}
				third := (<-waiters[1]).lock(t)
				if third.h.t.ID() == second.h.t.ID() || storeValue(third.Token()) <= storeValue(second.Token()) {
					t.Errorf("token %d of %s after %d of %s", third.Token(), third.h.t.ID(), second.Token(), second.h.t.ID())
				}
				wantErr(t, second.Unlock(t.Context()), ErrLost)
				if err := third.Err(); err != nil {
					t.Error(err)
				}
				unlock(t, third)
			})
		})
	}
}

// An owner gets what it is handed once, and hands over after its last handle.
func TestHandOverOfOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, f)
		ctx := WithOwner(t.Context())
		outer := must[*Lock](t)(c.Lock(ctx, "k"))
		inner := must[*Lock](t)(c.Lock(ctx, "k"))
		next := WithOwner(t.Context())
		waiter := waitFor(next, c)
		synctest.Wait()
		last := waitFor(t.Context(), c)
		unlock(t, outer)
		synctest.Wait()
		if len(waiter)+len(last) != 0 {
			t.Fatal("handed over while its owner has a handle")
		}
		unlock(t, inner)
		handed := (<-waiter).lock(t)
		again := must[*Lock](t)(c.TryLock(next, "k"))
		for _, l := range []*Lock{handed, again} {
			if l.Token() != outer.Token()+1 || len(last) != 0 {
				t.Errorf("token %d after %d", l.Token(), outer.Token())
			}
			unlock(t, l)
		}
		l := (<-last).lock(t)
		if l.Token() != outer.Token()+2 {
			t.Errorf("token %d", l.Token())
		}
		// The first owner has forgotten its tenure.
		_, err := c.TryLock(ctx, "k")
		wantErr(t, err, ErrLocked)
		unlock(t, l)
		if len(f.calls) != 2 {
			t.Errorf("calls %q: want two", f.calls)
		}
	})
}

// A hold is not handed over while a fair waiter of its own client is in the queue. Fair waiters of
// other clients are not known here.
func TestHandOverAndFairness(t *testing.T) {
	fairWait := func(t *testing.T, c *Client, d time.Duration) <-chan lockResult {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		t.Cleanup(cancel)
		return waitFor(ctx, c, Fair())
	}
	for name, test := range map[string]struct {
		after func(t *testing.T, f queuedFake, c *Client) // after the grant
		want  bool
	}{
		"nobody is fair": {after: func(*testing.T, queuedFake, *Client) {}, want: true},
		"of the own client": {after: func(t *testing.T, _ queuedFake, c *Client) {
			fairWait(t, c, time.Minute)
		}},
		"of the own client, and gone": {after: func(t *testing.T, _ queuedFake, c *Client) {
			wantErr(t, (<-fairWait(t, c, time.Millisecond)).err, ErrLocked)
		}, want: true},
		"of another client": {after: func(t *testing.T, f queuedFake, _ *Client) {
			fairWait(t, newTestClient(t, f), time.Minute)
		}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFairFake()
				c := newTestClient(t, f)
				l := must[*Lock](t)(c.Lock(t.Context(), "k"))
				waiter := waitFor(t.Context(), c)
				test.after(t, f, c)
				unlock(t, l)
				next := (<-waiter).lock(t)
				if got := handedFrom(l, next); got != test.want {
					t.Errorf("handed over: %v, want %v", got, test.want)
				}
				unlock(t, next)
			})
		})
	}
}

// Shutdown and Close end waiters, and hand nothing over any more.
func TestHandOverAtTheEnd(t *testing.T) {
	for name, stop := range map[string]func(c *Client) error{
		"Shutdown": func(c *Client) error { return c.Shutdown(context.Background()) },
		"Close":    func(c *Client) error { return c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				c := newTestClient(t, f)
				l := must[*Lock](t)(c.Lock(t.Context(), "k"))
				waiter := waitFor(context.Background(), c)
				stopped := make(chan error)
				go func() { stopped <- stop(c) }()
				synctest.Wait()
				if err := l.Unlock(t.Context()); err != nil && name == "Shutdown" {
					t.Error(err)
				}
				wantErr(t, (<-waiter).err, ErrClosed)
				if err := <-stopped; err != nil {
					t.Error(err)
				}
				if f.held("k") {
					t.Error("held after the end")
				}
			})
		})
	}
}

func TestObserverOfHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(eventLog)
		f := newFake()
		observer := log.locks()
		observer.Released = func(_ context.Context, e observe.Released) {
			log.add("released token %d held %v took %v handed %v", e.Token, e.Held, e.Took, e.HandedOver)
		}
		c := newTestClient(t, f, WithObserver(observer), WithLockDefaults(TTL(120*time.Millisecond)))
		l := must[*Lock](t)(c.Lock(t.Context(), "k"))
		waiter := waitFor(t.Context(), c)
		time.Sleep(10 * time.Millisecond)
		unlock(t, l)
		next := (<-waiter).lock(t)
		time.Sleep(50 * time.Millisecond)
		unlock(t, next)
		log.want(t,
			"acquired k token 1024 0s free ttl 120ms", "wait k behind own true",
			"released token 1024 held 10ms took 0s handed true", "waited k 10ms ok", "acquired k token 1025 10ms handed ttl 120ms",
			"renewed k ttl 120ms", "released token 1025 held 50ms took 0s handed false")
	})
}

// A waiter whose ctx ends leaves at once, however long an observer takes over the release of the lock that it is being
// handed: the hold goes on to the next who waits, or back to the store.
func TestSlowObserverOfHandOver(t *testing.T) {
	for name, waits := range map[string]bool{"another waits": true, "nobody else waits": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var once sync.Once
				slow, log := make(chan struct{}), new(eventLog)
				observer := log.locks()
				observer.Released = func(context.Context, observe.Released) { once.Do(func() { <-slow }) }
				f := newFake()
				c := newTestClient(t, f, WithObserver(observer))
				l := must[*Lock](t)(c.Lock(t.Context(), "k"))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				left := waitFor(ctx, c)
				var next <-chan lockResult
				if waits {
					next = waitFor(t.Context(), c)
				}
				log.take()
				unlocked := make(chan error, 1)
				go func() { unlocked <- l.Unlock(t.Context()) }()
				synctest.Wait()
				cancel()
				synctest.Wait()
				if len(left) == 0 {
					close(slow)
					t.Fatal("the waiter waits for the observer")
				}
				wantErr(t, (<-left).err, ErrLocked, context.Canceled)
				close(slow)
				if err := <-unlocked; err != nil {
					t.Error(err)
				}
				synctest.Wait()
				if waits {
					log.want(t, "waited k 0s cancelled", "refused k 0s cancelled", "waited k 0s ok", "acquired k token 1025 0s handed ttl 30s")
					unlock(t, (<-next).lock(t))
				} else {
					log.want(t, "waited k 0s cancelled", "refused k 0s cancelled")
				}
				if f.held("k") {
					t.Error("the key is still taken")
				}
				if left := c.leftovers(); left != (leftovers{}) {
					t.Errorf("left behind: %+v", left)
				}
			})
		})
	}
}
