package coordtest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/coordtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := coordtest.New(t)
		err := coord.Do(t.Context(), client, "k", func(ctx context.Context) error {
			client.Lose("k")
			if ctx.Err() == nil {
				t.Error("the loss does not show at once")
			}
			return context.Cause(ctx)
		})
		if !errors.Is(err, coord.ErrLost) {
			t.Errorf("Do: %v: want ErrLost", err)
		}
		next, err := client.TryLock(t.Context(), "k")
		if err != nil {
			t.Fatalf("the key is not free: %v", err)
		}
		if err := next.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// All that share a key lose it, whatever they have of it.
func TestLoseOfSharers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := coordtest.New(t)
		rw := client.ReadWrite()
		for name, views := range map[string][]coord.Locker{
			"readers": {rw.Read(), rw.Read()}, "writer": {rw.Write()}, "permits": {client.Semaphore(3), client.Semaphore(3)},
			"all": {client, rw.Read(), client.Semaphore(1)},
		} {
			var locks []*coord.Lock
			for _, view := range views {
				l, err := view.TryLock(t.Context(), name)
				if err != nil {
					t.Fatal(err)
				}
				locks = append(locks, l)
			}
			client.Lose(name)
			for _, l := range locks {
				select {
				case <-l.Done():
				default:
					t.Errorf("%s: a loss is not told", name)
				}
				if err := l.Unlock(t.Context()); !errors.Is(err, coord.ErrLost) {
					t.Errorf("%s: Unlock: %v, want ErrLost", name, err)
				}
			}
			if ran, err := coord.TryDo(t.Context(), rw.Write(), name, func(context.Context) error { return nil }); !ran || err != nil {
				t.Errorf("%s: not free afterwards: %v", name, err)
			}
		}
	})
}

// A loss is told to the holder, whichever client of the store makes it.
func TestLoseOfAnotherClient(t *testing.T) {
	store := memory.NewStore()
	a, b := coordtest.NewOn(t, store), coordtest.NewOn(t, store)
	l, err := a.Lock(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	b.Lose("k")
	if err := l.Err(); !errors.Is(err, coord.ErrLost) {
		t.Errorf("the holder sees %v: want ErrLost", err)
	}
	if err := l.Unlock(t.Context()); !errors.Is(err, coord.ErrLost) {
		t.Errorf("Unlock: %v: want ErrLost", err)
	}
}

func TestSharedStore(t *testing.T) {
	store := memory.NewStore()
	a, b := coordtest.NewOn(t, store), coordtest.NewOn(t, store)
	l, err := a.Lock(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.TryLock(t.Context(), "k"); !errors.Is(err, coord.ErrLocked) {
		t.Errorf("TryLock on the other client: %v: want ErrLocked", err)
	}
	if err := l.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
	if r, err := a.Allow(t.Context(), "k", coord.PerHour(1)); err != nil || !r.Allowed {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := b.Allow(t.Context(), "k", coord.PerHour(1)); err != nil || r.Allowed {
		t.Errorf("the other client's limit: %+v, %v", r, err)
	}
}

// recorder is a testing.TB that notes failures instead of failing.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	failures []string
	cleanups []func()
}

func (r *recorder) Helper()           {}
func (r *recorder) Cleanup(fn func()) { r.cleanups = append(r.cleanups, fn) }
func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func TestLeakIsReported(t *testing.T) {
	r := &recorder{TB: t}
	client := coordtest.New(r)
	if _, err := client.Lock(t.Context(), "forgotten"); err != nil {
		t.Fatal(err)
	}
	for _, fn := range r.cleanups {
		fn()
	}
	if len(r.failures) != 1 || !strings.Contains(r.failures[0], `"forgotten" is still held`) {
		t.Errorf("failures %q: want one that names the lock", r.failures)
	}
}

// A hold that MaxHold has ended is no leak, although its release may still be on the way
// to the store when the test ends.
func TestEndedHoldIsNoLeak(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			client := coordtest.New(t)
			err := coord.Do(t.Context(), client, "k", func(ctx context.Context) error {
				<-ctx.Done()
				return nil
			}, coord.MaxHold(20*time.Millisecond))
			if !errors.Is(err, coord.ErrMaxHold) {
				t.Errorf("Do: %v: want ErrMaxHold", err)
			}
		})
	}
}

// A lock that was handed to another goroutine of the client leaks like any other.
func TestHandedLeakIsReported(t *testing.T) {
	r := &recorder{TB: t}
	client := coordtest.New(r)
	first, err := client.Lock(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error)
	go func() {
		_, err := client.Lock(t.Context(), "k")
		got <- err
	}()
	if err := first.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
	for _, fn := range r.cleanups {
		fn()
	}
	if len(r.failures) != 1 {
		t.Errorf("failures %q: want one", r.failures)
	}
}
