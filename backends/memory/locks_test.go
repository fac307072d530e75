package memory

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/coordgo/coord/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client is one backend with every capability, and short calls for tests.
type client struct {
	t *testing.T
	*backend
}

func open(t *testing.T, s *Store) client {
	b := s.Open().(*backend)
	t.Cleanup(func() { _ = b.Close() })
	return client{t, b}
}

func (c client) try(key, id string, ttl time.Duration) (driver.Grant, error) {
	return c.TryLock(c.t.Context(), key, driver.Request{ID: id, TTL: ttl})
}

func (c client) mustTry(key, id string, ttl time.Duration) int64 {
	c.t.Helper()
	g, err := c.try(key, id, ttl)
	if err != nil {
		c.t.Fatalf("TryLock(%q, %q): %v", key, id, err)
	}
	if g.TTL < ttl {
		c.t.Fatalf("TryLock(%q, %q): TTL %v, want at least %v", key, id, g.TTL, ttl)
	}
	return g.Token
}

func (c client) renew(key, id string, ttl time.Duration) error {
	_, err := c.Renew(c.t.Context(), key, driver.Request{ID: id, TTL: ttl})
	return err
}

func (c client) unlock(key, id string) error { return c.Unlock(c.t.Context(), key, id) }

// wait calls Lock in a goroutine and gives its answer.
func (c client) wait(ctx context.Context, key, id string, ttl time.Duration) <-chan answer {
	ch := make(chan answer, 1)
	go func() {
		g, err := c.Lock(ctx, key, driver.Request{ID: id, TTL: ttl}, func() {})
		ch <- answer{g, err}
	}()
	return ch
}

type answer struct {
	grant driver.Grant
	err   error
}

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
}

func pending(t *testing.T, what string, ch <-chan answer) {
	t.Helper()
	synctest.Wait()
	select {
	case a := <-ch:
		t.Fatalf("%s: got %+v, want it to wait", what, a)
	default:
	}
}

func granted(t *testing.T, what string, ch <-chan answer) driver.Grant {
	t.Helper()
	synctest.Wait()
	select {
	case a := <-ch:
		if a.err != nil {
			t.Fatalf("%s: %v", what, a.err)
		}
		return a.grant
	default:
		t.Fatalf("%s: still waits, want a grant", what)
		panic("unreachable")
	}
}

const sec = time.Second

// A hold that has lapsed, and that nobody has looked at since, is neither renewed nor given back.
func TestLapsedHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore()
		a, b := open(t, s), open(t, s)
		a.mustTry("k", "a", 10*sec)
		_, err := b.try("k", "b", 10*sec)
		var locked *driver.LockedError
		if !errors.As(err, &locked) || locked.Remaining != 10*sec {
			t.Errorf("LockedError: got %+v, want 10s remaining", locked)
		}
		time.Sleep(10 * sec)
		wantErr(t, "Renew", a.renew("k", "a", sec), driver.ErrNotHeld)
		wantErr(t, "Unlock", a.unlock("k", "a"), driver.ErrNotHeld)
		wantErr(t, "Inspect", second(a.Inspect(t.Context(), "k")), driver.ErrNotHeld)
	})
}

func second[A any](_ A, err error) error { return err }

func TestRefusals(t *testing.T) {
	c := open(t, NewStore())
	ctx := t.Context()
	long := fmt.Sprintf("%0129d", 1)
	for name, r := range map[string]driver.Request{
		"no id":        {TTL: sec},
		"long id":      {ID: long, TTL: sec},
		"zero TTL":     {ID: "a"},
		"negative TTL": {ID: "a", TTL: -1},
		"huge TTL":     {ID: "a", TTL: maxTTL + 1},
	} {
		wantErr(t, "TryLock: "+name, second(c.TryLock(ctx, "k", r)), driver.ErrInvalid)
		wantErr(t, "Lock: "+name, second(c.Lock(ctx, "k", r, func() {})), driver.ErrInvalid)
		wantErr(t, "Renew: "+name, second(c.Renew(ctx, "k", r)), driver.ErrInvalid)
	}
	wantErr(t, "empty key", second(c.try("", "a", sec)), driver.ErrInvalid)
	wantErr(t, "Unlock: empty key", c.unlock("", "a"), driver.ErrInvalid)
	wantErr(t, "Inspect: empty key", second(c.Inspect(ctx, "")), driver.ErrInvalid)
	wantErr(t, "Break: empty id", c.Break(ctx, "k", ""), driver.ErrInvalid)
	wantErr(t, "UnlockAfter: huge", c.UnlockAfter(ctx, "k", "a", maxTTL+1), driver.ErrInvalid)
	if n := c.store.locks.size(); n != 0 {
		t.Errorf("refused calls left %d slots", n)
	}
}

func TestEndedContextChangesNothing(t *testing.T) {
	c := open(t, NewStore())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.TryLock(ctx, "k", driver.Request{ID: "a", TTL: sec})
	for _, want := range []error{driver.ErrNotSent, context.Canceled} {
		wantErr(t, "TryLock", err, want)
	}
	wantErr(t, "Inspect", second(c.Inspect(t.Context(), "k")), driver.ErrNotHeld)
}

// What the queue shows of itself, and that it leaves nothing.
func TestQueueIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore()
		a, b := open(t, s), open(t, s)
		a.mustTry("k", "a", time.Hour)
		var waits []<-chan answer
		for i := range 20 {
			waits = append(waits, []client{a, b}[i%2].wait(t.Context(), "k", "w"+strconv.Itoa(i), time.Hour))
			synctest.Wait()
		}
		holder := "a"
		for i, w := range waits {
			if h, err := b.Inspect(t.Context(), "k"); err != nil || h.Waiters != 20-i || h.ID != holder {
				t.Errorf("Inspect: %+v, %v, want holder %s and %d waiters", h, err, holder, 20-i)
			}
			time.Sleep(sec)
			wantErr(t, "Unlock", a.unlock("k", holder), nil)
			if g := granted(t, fmt.Sprint("waiter ", i), w); !g.Since.Equal(time.Now()) {
				t.Errorf("waiter %d: since %v, want now", i, g.Since)
			}
			holder = "w" + strconv.Itoa(i)
		}
		wantErr(t, "last Unlock", a.unlock("k", holder), nil)
		if n := s.locks.size(); n != 0 {
			t.Errorf("%d slots left, want none", n)
		}
	})
}

func TestLockOfAFreeKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, NewStore())
		g, err := c.Lock(t.Context(), "k", driver.Request{ID: "a", TTL: sec}, func() {})
		if err != nil || g.Since.IsZero() || g.Token < 1 {
			t.Fatalf("Lock: %+v, %v", g, err)
		}
		again, err := c.Lock(t.Context(), "k", driver.Request{ID: "a", TTL: sec}, func() {})
		if err != nil || again.Token != g.Token {
			t.Fatalf("Lock again: %+v, %v, want token %d", again, err, g.Token)
		}
	})
}

func TestLapseGrantsTheHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, NewStore())
		c.mustTry("k", "a", 10*sec)
		first := c.wait(t.Context(), "k", "b", 5*sec)
		synctest.Wait()
		next := c.wait(t.Context(), "k", "c", 5*sec)
		time.Sleep(9 * sec)
		wantErr(t, "Renew", c.renew("k", "a", 10*sec), nil)
		time.Sleep(10*sec - 1)
		pending(t, "head before the lapse", first)
		time.Sleep(time.Nanosecond)
		granted(t, "head at the lapse", first)
		time.Sleep(5*sec - 1)
		pending(t, "next before the second lapse", next)
		time.Sleep(time.Nanosecond)
		granted(t, "next at the second lapse", next)
	})
}

func TestCancelledWaiterLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, NewStore())
		c.mustTry("k", "a", time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		gone := c.wait(ctx, "k", "b", time.Hour)
		synctest.Wait()
		stays := c.wait(t.Context(), "k", "c", time.Hour)
		synctest.Wait()
		cancel()
		a := <-gone
		wantErr(t, "cancelled wait", a.err, context.Canceled)
		if h, _ := c.Inspect(t.Context(), "k"); h.Waiters != 1 {
			t.Errorf("%d waiters, want 1", h.Waiters)
		}
		wantErr(t, "Unlock of the waiter that left", c.unlock("k", "b"), driver.ErrNotHeld)
		wantErr(t, "Unlock", c.unlock("k", "a"), nil)
		granted(t, "the other waiter", stays)
	})
}

// A grant and the end of the wait meet: whichever wins, the key goes on.
func TestCancelRacesGrant(t *testing.T) {
	s := NewStore()
	c := open(t, s)
	for i := range 2000 {
		key := "k" + strconv.Itoa(i%7)
		c.mustTry(key, "a", time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		w := c.wait(ctx, key, "b", time.Hour)
		var wg sync.WaitGroup
		wg.Go(cancel)
		wg.Go(func() {
			if err := c.unlock(key, "a"); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
		switch a := <-w; {
		case a.err == nil:
			wantErr(t, "Unlock by the waiter", c.unlock(key, "b"), nil)
		case errors.Is(a.err, context.Canceled):
			wantErr(t, "Unlock by the waiter that left", c.unlock(key, "b"), driver.ErrNotHeld)
		default:
			t.Fatal(a.err)
		}
	}
	if n := s.locks.size(); n != 0 {
		t.Errorf("%d slots left, want none", n)
	}
}

func TestUnlockWithdrawsAWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, NewStore())
		c.mustTry("k", "a", time.Hour)
		w := c.wait(t.Context(), "k", "b", time.Hour)
		synctest.Wait()
		wantErr(t, "second wait of one id", second(c.Lock(t.Context(), "k", driver.Request{ID: "b", TTL: sec}, func() {})), driver.ErrInvalid)
		wantErr(t, "Unlock of the waiter", c.unlock("k", "b"), nil)
		wantErr(t, "withdrawn wait", (<-w).err, driver.ErrNotHeld)
		wantErr(t, "Unlock", c.unlock("k", "a"), nil)
	})
}

func TestCloseEndsOwnWaitersOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore()
		a, b := open(t, s), open(t, s)
		a.mustTry("k", "a", time.Hour)
		own := a.wait(t.Context(), "k", "w1", time.Hour)
		synctest.Wait()
		other := b.wait(t.Context(), "k", "w2", time.Hour)
		synctest.Wait()
		for range 2 {
			if err := a.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		wantErr(t, "own wait", (<-own).err, driver.ErrClosed)
		pending(t, "wait of the other client", other)
		wantErr(t, "TryLock", second(a.try("k", "x", sec)), driver.ErrClosed)
		wantErr(t, "Lock", second(a.Lock(t.Context(), "k", driver.Request{ID: "x", TTL: sec}, func() {})), driver.ErrClosed)
		wantErr(t, "Renew", a.renew("k", "a", sec), driver.ErrClosed)
		wantErr(t, "Unlock", a.unlock("k", "a"), driver.ErrClosed)
		wantErr(t, "Inspect", second(a.Inspect(t.Context(), "k")), driver.ErrClosed)
		wantErr(t, "Break", a.Break(t.Context(), "k", "a"), driver.ErrClosed)
		wantErr(t, "Ping", a.Ping(t.Context()), driver.ErrClosed)
		wantErr(t, "Ping of the other client", b.Ping(t.Context()), nil)
		wantErr(t, "the hold outlives its client", b.unlock("k", "a"), nil)
		granted(t, "wait of the other client", other)
	})
}

func TestKeptTaken(t *testing.T) {
	for name, tc := range map[string]struct {
		end  func(client) error
		left time.Duration
	}{
		"UnlockAfter, shorter than the lease": {func(c client) error { return c.UnlockAfter(c.t.Context(), "k", "a", 3*sec) }, 3 * sec},
		"UnlockAfter, longer than the lease":  {func(c client) error { return c.UnlockAfter(c.t.Context(), "k", "a", 30*sec) }, 30 * sec},
		"Break":                               {func(c client) error { return c.Break(c.t.Context(), "k", "a") }, 9 * sec},
	} {
		for _, waiting := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, waiting %v", name, waiting), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := open(t, NewStore())
					c.mustTry("k", "a", 10*sec)
					var w <-chan answer
					if waiting {
						w = c.wait(t.Context(), "k", "b", 10*sec)
					}
					time.Sleep(sec)
					wantErr(t, "of another id", c.Break(t.Context(), "k", "x"), driver.ErrNotHeld)
					wantErr(t, "the call", tc.end(c), nil)
					wantErr(t, "the call again", tc.end(c), driver.ErrNotHeld)
					wantErr(t, "Renew", c.renew("k", "a", 10*sec), driver.ErrNotHeld)
					wantErr(t, "Unlock", c.unlock("k", "a"), driver.ErrNotHeld)
					wantErr(t, "TryLock by the same id", second(c.try("k", "a", sec)), driver.ErrLocked)
					h, err := c.Inspect(t.Context(), "k")
					if err != nil || !h.Released || h.TTL != tc.left || h.ID != "a" {
						t.Errorf("Inspect: %+v, %v, want released, %v left", h, err, tc.left)
					}
					time.Sleep(tc.left - 1)
					wantErr(t, "TryLock before the end", second(c.try("k", "c", sec)), driver.ErrLocked)
					time.Sleep(time.Nanosecond)
					if waiting {
						granted(t, "the waiter", w)
						return
					}
					wantErr(t, "Inspect of the free key", second(c.Inspect(t.Context(), "k")), driver.ErrNotHeld)
					c.mustTry("k", "c", sec)
				})
			})
		}
	}
}

func TestLapsedKeysAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore()
		c := open(t, s)
		var last int64
		for i := range 100_000 {
			if token := c.mustTry("k"+strconv.Itoa(i), "a", 10*time.Millisecond); token > last {
				last = token
			} else {
				t.Fatalf("token %d after %d", token, last)
			}
			if i%100 == 0 {
				time.Sleep(10 * time.Millisecond)
			}
		}
		if n := s.locks.size(); n > 2*shards*sweepFloor {
			t.Errorf("%d slots left of 100000 keys", n)
		}
		// The use of one key empties the shards of all others, in time.
		for range 3 * shards {
			time.Sleep(sweepEvery)
			c.mustTry("hot", "a", sec)
		}
		if n := s.locks.size(); n > 1 {
			t.Errorf("%d slots left, want the hot key's", n)
		}
		if token := c.mustTry("k0", "a", sec); token <= last {
			t.Errorf("forgotten key: token %d after %d", token, last)
		}
	})
}

// A key that is locked and unlocked again and again costs no memory, and its cell, which is
// used for the next one, tells nothing of the last.
func TestCellsAreUsedAgain(t *testing.T) {
	c := open(t, NewStore())
	ctx, r := t.Context(), driver.Request{ID: "a", TTL: time.Minute}
	once := func() {
		if _, err := c.TryLock(ctx, "k", r); err != nil {
			t.Error(err)
		}
		if err := c.Unlock(ctx, "k", "a"); err != nil {
			t.Error(err)
		}
	}
	once()
	if allocs := testing.AllocsPerRun(1000, once); allocs != 0 {
		t.Errorf("%v allocations, want none", allocs)
	}
	last := c.mustTry("k", "b", time.Minute)
	wantErr(t, "Unlock by the one before", c.unlock("k", "a"), driver.ErrNotHeld)
	wantErr(t, "Unlock", c.unlock("k", "b"), nil)
	if token := c.mustTry("k", "b", time.Minute); token <= last {
		t.Errorf("token %d after %d", token, last)
	}
}
