package wrap_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/coordtest"
	"github.com/coordgo/coord/wrap"
)

// order is an argument from which keys are made.
type order struct {
	id     string
	amount int
}

func keyOf(o order) string { return coord.Key("order", o.id) }

// shop is a receiver, for method values.
type shop struct {
	t  *testing.T
	mu sync.Mutex

	running map[string]int
	tokens  []coord.Token
	most    int
}

// charge takes a second, and sees to it that no order is charged twice at once.
func (s *shop) charge(ctx context.Context, o order) (int, error) {
	lock, ok := coord.Held(ctx, keyOf(o))
	if !ok || lock.Token() == 0 || lock.Err() != nil {
		s.t.Errorf("%v: Held = %v, %v", o, lock, ok)
		return 0, errors.New("not held")
	}
	s.mu.Lock()
	s.running[o.id]++
	s.tokens = append(s.tokens, lock.Token())
	all := 0
	for id, n := range s.running {
		all += n
		if n > 1 {
			s.t.Errorf("%s is charged %d times at once", id, n)
		}
	}
	s.most = max(s.most, all)
	s.mu.Unlock()
	time.Sleep(time.Second)
	s.mu.Lock()
	s.running[o.id]--
	s.mu.Unlock()
	return 2 * o.amount, ctx.Err()
}

// deliver gives no result.
func (s *shop) deliver(context.Context, order) error { return errLost }

var errLost = errors.New("lost in the post")

func newShop(t *testing.T) *shop { return &shop{t: t, running: make(map[string]int)} }

// The key comes from the argument: one call of each order at a time, other orders meanwhile.
func TestLockedByArgument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := coordtest.New(t), newShop(t)
		charge := wrap.Locked(c, keyOf, s.charge, coord.TTL(10*time.Second))
		var calls sync.WaitGroup
		for i := range 6 {
			calls.Go(func() {
				if got, err := charge(t.Context(), order{string(rune('a' + i%2)), i}); got != 2*i || err != nil {
					t.Errorf("%d: %d, %v", i, got, err)
				}
			})
		}
		calls.Wait()
		if s.most != 2 || len(s.tokens) != 6 {
			t.Errorf("at most %d at once, %d calls: want 2 and 6", s.most, len(s.tokens))
		}
	})
}

// A wait has a bound, and one attempt has none; what did not run has no result.
func TestLockedWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := coordtest.New(t), newShop(t)
		other, err := c.Lock(t.Context(), "order/a")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		got, err := wrap.Locked(c, keyOf, s.charge, coord.WaitAtMost(3*time.Second))(t.Context(), order{"a", 1})
		if got != 0 || !errors.Is(err, coord.ErrLocked) || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 3*time.Second {
			t.Errorf("%d, %v after %v", got, err, time.Since(began))
		}
		try := wrap.TryLocked(c, keyOf, s.charge)
		var e *coord.Error
		began = time.Now()
		if got, err := try(t.Context(), order{"a", 1}); got != 0 || !errors.Is(err, coord.ErrLocked) || !errors.As(err, &e) || e.Key != "order/a" || time.Since(began) != 0 {
			t.Errorf("one attempt: %d, %v after %v", got, err, time.Since(began))
		}
		if err := other.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, err := try(t.Context(), order{"a", 1}); got != 2 || err != nil {
			t.Errorf("one attempt at a free key: %d, %v", got, err)
		}
		if _, err := wrap.TryLocked(c, keyOf, s.charge, coord.WaitAtMost(time.Second))(t.Context(), order{"a", 1}); !errors.Is(err, coord.ErrInvalid) {
			t.Errorf("one attempt that waits: %v", err)
		}
		if _, err := wrap.Locked(c, func(order) string { return "" }, s.charge)(t.Context(), order{}); !errors.Is(err, coord.ErrInvalid) {
			t.Errorf("no key: %v", err)
		}
	})
}

// A hold is renewed while its function runs, and MaxHold ends that: the context ends with why.
func TestLockedMaxHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := coordtest.New(t)
		hang := func(ctx context.Context, _ order) (string, error) {
			<-ctx.Done()
			return "begun", context.Cause(ctx)
		}
		began := time.Now()
		got, err := wrap.Locked(c, keyOf, hang, coord.TTL(3*time.Second), coord.MaxHold(20*time.Second))(t.Context(), order{id: "a"})
		if got != "begun" || !errors.Is(err, coord.ErrMaxHold) || !errors.Is(err, coord.ErrLost) {
			t.Errorf("%q, %v", got, err)
		}
		if d := time.Since(began); d < 19*time.Second || d > 20*time.Second {
			t.Errorf("held for %v under MaxHold(20s) and TTL(3s)", d)
		}
	})
}

// A lock that is lost ends the context with ErrLost, and so does the call.
func TestLockedLoss(t *testing.T) {
	for name, wrap := range map[string]func(coord.Locker, func(order) string, func(context.Context, order) (string, error), ...coord.LockOption) func(context.Context, order) (string, error){
		"Locked": wrap.Locked[order, string], "TryLocked": wrap.TryLocked[order, string],
	} {
		synctest.Test(t, func(t *testing.T) {
			c := coordtest.New(t)
			f := wrap(c, keyOf, func(ctx context.Context, o order) (string, error) {
				c.Lose(keyOf(o))
				<-ctx.Done()
				if cause := context.Cause(ctx); !errors.Is(cause, coord.ErrLost) {
					t.Errorf("%s: the context ends with %v", name, cause)
				}
				return "done all the same", nil
			})
			if got, err := f(t.Context(), order{id: "a"}); got != "done all the same" || !errors.Is(err, coord.ErrLost) {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		})
	}
}

// A wrapped function that calls another, or itself, under its context re-enters; without it, it would wait.
func TestLockedReenters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := coordtest.New(t)
		var tokens []coord.Token
		var down func(context.Context, order) (int, error)
		down = wrap.Locked(c, keyOf, func(ctx context.Context, o order) (int, error) {
			lock, _ := coord.Held(ctx, keyOf(o))
			tokens = append(tokens, lock.Token())
			if o.amount == 0 {
				return 0, nil
			}
			n, err := down(ctx, order{o.id, o.amount - 1})
			return n + 1, err
		})
		if n, err := down(t.Context(), order{"a", 3}); n != 3 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		for _, token := range tokens {
			if token != tokens[0] {
				t.Errorf("tokens %v: want one hold", tokens)
			}
		}
		if _, err := c.Inspect(t.Context(), "order/a"); !errors.Is(err, coord.ErrNotHeld) {
			t.Errorf("after the last of four: %v", err)
		}
		deaf := wrap.Locked(c, keyOf, func(context.Context, order) (int, error) {
			return wrap.TryLocked(c, keyOf, newShop(t).charge)(t.Context(), order{id: "b"}) // not the context it was given
		})
		if _, err := deaf(t.Context(), order{id: "b"}); !errors.Is(err, coord.ErrLocked) {
			t.Errorf("without its context: %v", err)
		}
	})
}

// The lock is given back when the function panics.
func TestLockedPanics(t *testing.T) {
	c := coordtest.New(t)
	func() {
		defer func() {
			if recover() != "boom" {
				t.Error("the panic is gone")
			}
		}()
		_, _ = wrap.Locked(c, keyOf, func(context.Context, order) (int, error) { panic("boom") })(t.Context(), order{id: "a"})
	}()
	lock, err := c.TryLock(t.Context(), "order/a")
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
}

// A permit is taken for each call, by key; without one nothing runs.
func TestLimited(t *testing.T) {
	c, ran := coordtest.New(t), 0
	call := wrap.Limited(c, keyOf, coord.PerHour(2), func(_ context.Context, o order) (int, error) {
		ran++
		return o.amount, errLost
	})
	for range 2 {
		if got, err := call(t.Context(), order{"a", 7}); got != 7 || !errors.Is(err, errLost) {
			t.Errorf("%d, %v", got, err)
		}
	}
	var e *coord.Error
	if got, err := call(t.Context(), order{"a", 7}); got != 0 || !errors.Is(err, coord.ErrLimited) || !errors.As(err, &e) || e.RetryAfter <= 0 || e.Key != "order/a" {
		t.Errorf("%d, %v", got, err)
	}
	if got, _ := call(t.Context(), order{"b", 8}); got != 8 || ran != 3 {
		t.Errorf("another key: %d; %d runs", got, ran)
	}
	if _, err := wrap.Limited(c, keyOf, coord.Limit{}, call)(t.Context(), order{}); !errors.Is(err, coord.ErrInvalid) || ran != 3 {
		t.Errorf("no limit: %v", err)
	}
}

func TestLimitedWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := coordtest.New(t)
		deadline := false
		limit := coord.Limit{Rate: 1, Per: 10 * time.Second, Algorithm: coord.TokenBucket}
		wait := func(d time.Duration) func(context.Context, order) (int, error) {
			return wrap.LimitedWait(c, keyOf, limit, d, func(ctx context.Context, o order) (int, error) {
				_, deadline = ctx.Deadline()
				return o.amount, nil
			})
		}
		began := time.Now()
		for range 3 {
			if got, err := wait(0)(t.Context(), order{"a", 7}); got != 7 || err != nil {
				t.Errorf("%d, %v", got, err)
			}
		}
		if d := time.Since(began); d < 20*time.Second || d > 21*time.Second {
			t.Errorf("three calls in %v, of one in 10s", d)
		}
		began = time.Now()
		if got, err := wait(5*time.Second)(t.Context(), order{"a", 7}); got != 0 || !errors.Is(err, coord.ErrLimited) || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 0 {
			t.Errorf("a wait in vain: %d, %v after %v", got, err, time.Since(began))
		}
		if got, err := wait(15*time.Second)(t.Context(), order{"a", 7}); got != 7 || err != nil || deadline {
			t.Errorf("a wait that is long enough: %d, %v, and the bound is the function's too: %v", got, err, deadline)
		}
		if _, err := wait(-1)(t.Context(), order{"a", 7}); !errors.Is(err, coord.ErrInvalid) {
			t.Errorf("a negative wait: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := wait(0)(ctx, order{"a", 7}); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that leaves: %v", err)
		}
	})
}

// The wrappers nest either way, and what is refused inside frees what was taken outside.
func TestWrappersNest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := coordtest.New(t), newShop(t)
		locked := wrap.Locked(c, keyOf, wrap.Limited(c, keyOf, coord.PerHour(1), s.charge))
		if got, err := locked(t.Context(), order{"a", 1}); got != 2 || err != nil {
			t.Errorf("%d, %v", got, err)
		}
		if _, err := locked(t.Context(), order{"a", 1}); !errors.Is(err, coord.ErrLimited) {
			t.Errorf("over the limit: %v", err)
		}
		other, err := c.TryLock(t.Context(), "order/a")
		if err != nil {
			t.Fatalf("the lock of a call that was denied: %v", err)
		}
		byHand := func(o order) string { return coord.Key("by hand", o.id) }
		limited := wrap.Limited(c, byHand, coord.PerHour(1), wrap.TryLocked(c, keyOf, s.charge))
		if _, err := limited(t.Context(), order{"a", 1}); !errors.Is(err, coord.ErrLocked) {
			t.Errorf("under a lock that is held: %v", err)
		}
		if r, err := c.Peek(t.Context(), "by hand/a", coord.PerHour(1)); err != nil || r.Remaining != 0 {
			t.Errorf("the permit is taken first: %+v, %v", r, err)
		}
		if err := other.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := wrap.Locked(c, keyOf, wrap.NoResult(s.deliver))(t.Context(), order{id: "a"}); !errors.Is(err, errLost) {
			t.Errorf("a method without a result: %v", err)
		}
	})
}

// A bad call is an error of coord or a panic, and leaves nothing behind.
func TestBadCallers(t *testing.T) {
	c := coordtest.New(t)
	key := func(key string) string { return key }
	fn := func(_ context.Context, arg string) (string, error) { return arg, nil }
	second := coord.PerSecond(10)
	for name, call := range map[string]func(context.Context, string) (string, error){
		"Locked": wrap.Locked(c, key, fn), "TryLocked": wrap.TryLocked(c, key, fn),
		"Limited": wrap.Limited(c, key, second, fn), "LimitedWait": wrap.LimitedWait(c, key, second, time.Second, fn),
		"Limited, no limit": wrap.Limited(c, key, coord.Limit{}, fn), "LimitedWait, below 0": wrap.LimitedWait(c, key, second, -1, fn),
	} {
		for _, arg := range []string{"", "\xff", "k"} {
			var told *coord.Error
			_, err := call(t.Context(), arg)
			isBad := arg != "k" || strings.Contains(name, ", ")
			if isBad && (!errors.Is(err, coord.ErrInvalid) || !errors.As(err, &told)) || !isBad && err != nil {
				t.Errorf("%s of %q: %v", name, arg, err)
			}
		}
	}
	for name, call := range map[string]func(context.Context, string) (string, error){
		"Locked": wrap.Locked[string, string](c, key, nil), "TryLocked": wrap.TryLocked[string, string](c, key, nil),
		"Limited": wrap.Limited[string, string](c, key, second, nil), "LimitedWait": wrap.LimitedWait[string, string](c, key, second, 0, nil),
		"Locked, no key": wrap.Locked(c, nil, fn),
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s of a nil function: no panic", name)
				}
			}()
			_, _ = call(t.Context(), "panics")
		}()
	}
	if _, err := wrap.TryLocked(c, key, fn)(t.Context(), "panics"); err != nil {
		t.Errorf("after the panics: %v", err)
	}
}
