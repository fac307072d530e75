package coord

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
)

// Goroutines of one client are served in order, and one of them asks the store.
func TestLocalQueueIsFIFO(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, f)
		first := must[*Lock](t)(c.Lock(t.Context(), "k"))
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i := range 500 {
			wg.Go(func() {
				l, err := c.Lock(t.Context(), "k")
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				if err := l.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		if n := f.count("trylock"); n != 1 {
			t.Errorf("%d attempts at the store while the client holds: want 1", n)
		}
		if err := first.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		for i, got := range order {
			if got != i {
				t.Fatalf("place %d went to %d", i, got)
			}
		}
		if left := c.leftovers(); left != (leftovers{}) {
			t.Errorf("left behind: %+v", left)
		}
	})
}

func TestMutualExclusionUnderContention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		clients := []*Client{newTestClient(t, f), newTestClient(t, f), newTestClient(t, f)}
		var counter int // guarded by the lock alone: the race detector watches
		var last Token
		var wg sync.WaitGroup
		for i := range 30 {
			c := clients[i%len(clients)]
			wg.Go(func() {
				for range 10 {
					err := Do(t.Context(), c, "k", func(ctx context.Context) error {
						l, ok := Held(ctx, "k")
						if !ok || l.Token() <= last {
							t.Errorf("token %v after %v", l.Token(), last)
						}
						last = l.Token()
						n := counter
						time.Sleep(time.Millisecond)
						counter = n + 1
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if counter != 300 {
			t.Errorf("counted %d: want 300", counter)
		}
	})
}

func TestCancelledWaiterLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, f)
		held := must[*Lock](t)(c.Lock(t.Context(), "k"))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				_, err := c.Lock(ctx, "k")
				wantErr(t, err, context.Canceled, ErrLocked)
			})
		}
		synctest.Wait()
		cancel()
		wg.Wait()
		if err := held.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left := c.leftovers(); f.count("trylock") != 1 || left.Keys != 0 {
			t.Errorf("%d attempts, %d slots: want 1, 0", f.count("trylock"), left.Keys)
		}
	})
}

// A local waiter goes to the store when the client's own hold is lost.
func TestLocalWaitersGoOnAfterLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, f)
		lost := must[*Lock](t)(c.Lock(t.Context(), "k", TTL(3*time.Second)))
		f.setIntercept(func(op, key string) outcome {
			if op == "renew" {
				return outcome{hang: true}
			}
			return outcome{}
		})
		start := time.Now()
		next := must[*Lock](t)(c.Lock(t.Context(), "k"))
		if d := time.Since(start); d > 3*time.Second {
			t.Errorf("waited %v: want at most the TTL", d)
		}
		wantErr(t, lost.Err(), ErrLost)
		if next.Token() <= lost.Token() {
			t.Errorf("token %d after %d", next.Token(), lost.Token())
		}
	})
}

func TestTryLockDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c, other := newTestClient(t, f), newTestClient(t, f)
		held := must[*Lock](t)(c.Lock(t.Context(), "k"))
		n := f.count("trylock")
		_, err := c.TryLock(t.Context(), "k")
		wantErr(t, err, ErrLocked)
		if f.count("trylock") != n {
			t.Error("asked the store for a key that the client itself holds")
		}
		if err := held.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		foreign := must[*Lock](t)(other.Lock(t.Context(), "k"))
		go func() {
			if l, err := c.Lock(t.Context(), "k"); err == nil {
				_ = l.Unlock(context.Background())
			}
		}()
		synctest.Wait()
		start := time.Now()
		_, err = c.TryLock(t.Context(), "k")
		wantErr(t, err, ErrLocked)
		if d := time.Since(start); d != 0 {
			t.Errorf("waited %v behind a waiter", d)
		}
		if err := foreign.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// Two tries at once: the second learns the outcome of the first, it does not guess.
func TestTryLockBehindATry(t *testing.T) {
	for name, fail := range map[string]bool{"first granted": false, "first failed": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				c := newTestClient(t, f)
				first := true
				f.setIntercept(func(op, key string) outcome {
					if op != "trylock" || !first {
						return outcome{}
					}
					first = false
					time.Sleep(time.Second)
					if fail {
						return outcome{before: driver.ErrNotSent}
					}
					return outcome{}
				})
				var errs [2]error
				var wg sync.WaitGroup
				for i := range errs {
					wg.Go(func() { _, errs[i] = c.TryLock(t.Context(), "k") })
					synctest.Wait()
				}
				wg.Wait()
				if fail {
					wantErr(t, errs[0], ErrUnavailable)
					if errs[1] != nil {
						t.Errorf("the second try: %v: want a grant", errs[1])
					}
				} else {
					if errs[0] != nil {
						t.Error(errs[0])
					}
					wantErr(t, errs[1], ErrLocked)
				}
			})
		})
	}
}

func TestWarningOfALostOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged logBuffer
		c := newTestClient(t, newFake(), WithLogger(slog.New(slog.NewTextHandler(&logged, nil))))
		ctx := WithOwner(t.Context())
		l := must[*Lock](t)(c.Lock(ctx, "k", TTL(time.Second)))
		for range 3 {
			_, err := c.Lock(t.Context(), "k", TTL(time.Second), WaitAtMost(5*time.Second)) // forgot ctx
			wantErr(t, err, ErrLocked)
		}
		if n := strings.Count(logged.String(), "level=WARN"); n != 1 {
			t.Errorf("%d warnings: want one: %s", n, logged.String())
		}
		if s := logged.String(); !strings.Contains(s, "waiter=none") || !strings.Contains(s, "holder="+ownerOf(ctx).String()) {
			t.Errorf("the warning does not name both owners: %s", s)
		}
		if err := l.Unlock(ctx); err != nil {
			t.Fatal(err)
		}
	})
}

// queuedFake waits at the store.
type queuedFake struct {
	*fakeStore
	waiting chan struct{}
}

func (f queuedFake) Info() driver.Info { return claiming(f.fakeStore, driver.Fair) }

func (f queuedFake) Lock(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
	f.waiting <- struct{}{}
	var once sync.Once
	for {
		g, err := f.TryLock(ctx, key, r)
		if err == nil {
			g.Since = time.Now()
			return g, nil
		}
		if errors.Is(err, driver.ErrLocked) {
			once.Do(waits)
		}
		select {
		case <-ctx.Done():
			return g, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

func TestQueuerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := queuedFake{newFake(), make(chan struct{}, 10)}
		f.info.Claims = append(f.info.Claims, driver.Fair)
		a, b := newTestClient(t, f), newTestClient(t, f)
		l := must[*Lock](t)(a.Lock(t.Context(), "k"))
		if len(f.waiting) != 0 {
			t.Error("a free key was waited for")
		}
		time.AfterFunc(10*time.Second, func() {
			if err := l.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
		})
		// The wait is longer than the TTL: the lease counts from the grant.
		l2 := must[*Lock](t)(b.Lock(t.Context(), "k", TTL(2*time.Second)))
		if d := time.Until(l2.Deadline()); d < 1900*time.Millisecond {
			t.Errorf("deadline in %v after a long wait", d)
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := a.Lock(ctx, "k", Fair())
		wantErr(t, err, ErrLocked, context.DeadlineExceeded)
		n := f.count("unlock")
		synctest.Wait()
		if f.count("unlock") == 0 && n == 0 {
			t.Error("a cancelled waiter was not withdrawn from the store's queue")
		}
		if err := l2.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Closing the client ends a waiter that is inside the store's queue.
func TestCloseEndsQueuedWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := queuedFake{newFake(), make(chan struct{}, 10)}
		a, b := newTestClient(t, f), newTestClient(t, f)
		must[*Lock](t)(a.Lock(t.Context(), "k"))
		done := make(chan error)
		go func() {
			_, err := b.Lock(context.Background(), "k")
			done <- err
		}()
		synctest.Wait()
		start := time.Now()
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		err := <-done
		wantErr(t, err, ErrClosed)
		if errors.Is(err, context.Canceled) || time.Since(start) > time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

// Who waits for a key that the own client holds, or tries it, is told so and what to do.
func TestHeldByThisClientIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFairFake()
		c := newTestClient(t, f)
		l := must[*Lock](t)(c.Lock(WithOwner(t.Context()), "k"))
		_, tried := c.TryLock(t.Context(), "k")
		_, waited := c.Lock(t.Context(), "k", WaitAtMost(time.Second))
		_, fair := c.Lock(t.Context(), "k", Fair(), WaitAtMost(time.Second))
		for what, err := range map[string]error{"TryLock": tried, "Lock": waited, "Lock with Fair": fair} {
			wantErr(t, err, ErrLocked)
			if err == nil || !strings.Contains(err.Error(), "held by this client; to re-enter") || strings.Contains(err.Error(), "another") {
				t.Errorf("%s: %v, want it to say that this client holds the key", what, err)
			}
		}
		wantErr(t, waited, context.DeadlineExceeded)
		_, other := newTestClient(t, f).TryLock(t.Context(), "k")
		if wantErr(t, other, ErrLocked); !strings.Contains(other.Error(), "another client of this process") {
			t.Errorf("another client: %v", other)
		}
		unlock(t, l)
	})
}
