package coord_test

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/observe"
)

// faulty is a store of locks and limits that can be switched off.
type faulty struct {
	driver.Backend
	off atomic.Bool
}

func newFaulty() *faulty {
	return &faulty{Backend: memory.New()}
}

// Info claims less than the store can do: in this process nothing would be leased.
func (f *faulty) Info() driver.Info {
	info := f.Backend.Info()
	info.Claims = append(info.Claims.Without(driver.ScopeProcess), driver.ScopeMachine)
	return info
}

var errOff = errors.New("no route to host")

func (f *faulty) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return f.Backend.TryLock(ctx, key, r)
}

func (f *faulty) Unlock(ctx context.Context, key, id string) error {
	return f.Backend.Unlock(ctx, key, id)
}

func (f *faulty) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if f.off.Load() {
		return driver.Grant{}, errOff
	}
	return f.Backend.Renew(ctx, key, r)
}

func (f *faulty) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (driver.TakenOne, error) {
	return driver.One(f.Take(ctx, key, l, []driver.Ask{a}))
}

func (f *faulty) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	if f.off.Load() {
		return driver.Taken{}, errOff
	}
	return f.Backend.Take(ctx, key, l, asks)
}

func (f *faulty) Charge(ctx context.Context, key string, l driver.Limit, n int) (driver.Charged, error) {
	return f.Backend.Charge(ctx, key, l, n)
}

func (f *faulty) Reset(ctx context.Context, key string, l driver.Limit) error {
	return f.Backend.Reset(ctx, key, l)
}

// counted is an observer of everything, or of some fields alone, and how often each of its functions was called.
func counted(only ...string) (o observe.Observer, calls func() map[string]int) {
	var mu sync.Mutex
	seen := make(map[string]int)
	v := reflect.ValueOf(&o).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if len(only) > 0 && !slices.Contains(only, name) {
			continue
		}
		seen[name] = 0
		v.Field(i).Set(reflect.MakeFunc(v.Field(i).Type(), func(args []reflect.Value) []reflect.Value {
			mu.Lock()
			defer mu.Unlock()
			seen[name]++
			return args[:v.Field(i).Type().NumOut()] // the context, if there is a result
		}))
	}
	return o, func() map[string]int { return seen }
}

// No event is forgotten: whatever an Observer can be told of, it is.
func TestEveryEventIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, calls := counted()
		store := newFaulty()
		c, err := coord.New(store, coord.WithLogger(slog.New(slog.DiscardHandler)), coord.WithObserver(o), coord.WithFailurePolicy(coord.FailOpen), coord.WithPermitLease(coord.PermitLease{}, coord.PerMinute(600_000)))
		if err != nil {
			t.Fatal(err)
		}
		ctx := coord.WithOwner(t.Context())
		err = coord.Do(ctx, c, "a", func(ctx context.Context) error { // a call, acquired, renewed, released
			if _, err := c.TryLock(context.Background(), "a"); !errors.Is(err, coord.ErrLocked) { // refused
				t.Errorf("TryLock: %v", err)
			}
			coord.Go(t.Context(), func(ctx context.Context) { // a wait
				if lock, err := c.Lock(ctx, "a"); err != nil || lock.Unlock(ctx) != nil {
					t.Errorf("the one who waits: %v", err)
				}
			})
			time.Sleep(30 * time.Second)
			return coord.Do(ctx, c, "a", func(context.Context) error { return nil }) // re-entered
		}, coord.TTL(10*time.Second))
		if err != nil {
			t.Error(err)
		}
		limit := coord.PerHour(1)
		for range 2 { // allowed, denied
			if _, err := c.Allow(ctx, "l", limit); err != nil {
				t.Error(err)
			}
		}
		for range 2000 { // leased
			if _, err := c.Allow(ctx, "hot", coord.PerMinute(600_000)); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Millisecond)
		}
		lock, err := c.Lock(ctx, "lost", coord.TTL(10*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		store.off.Store(true)
		<-lock.Done()                                              // a renewal failed, lost
		if r, err := c.Allow(ctx, "m", limit); r.Degraded == nil { // degraded
			t.Errorf("%+v, %v", r, err)
		}
		if _, err := c.Charge(ctx, "m", limit, 1); err != nil { // charged
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		for name, n := range calls() {
			if n == 0 {
				t.Errorf("%s was never called", name)
			}
		}
	})
}

// Whatever else is observed, an event is told as often.
func TestEventsAreToldAlone(t *testing.T) {
	scenario := func(o observe.Observer) {
		c := openFor(t, coord.WithObserver(o))
		for range 3 {
			if err := coord.Do(t.Context(), c, "a", func(ctx context.Context) error { lockOnce(t, c, ctx); return nil }); err != nil {
				t.Error(err)
			}
			if _, err := c.Allow(t.Context(), "l", coord.PerHour(2)); err != nil {
				t.Error(err)
			}
			if _, err := c.AllowAll(t.Context(), coord.Demand{Key: "m", Limit: coord.PerHour(2), N: 1}); err != nil {
				t.Error(err)
			}
		}
		if err := c.Wait(t.Context(), "w", coord.PerHour(9)); err != nil {
			t.Error(err)
		}
	}
	all, calls := counted()
	scenario(all)
	told := 0
	for name, want := range calls() {
		alone, calls := counted(name)
		scenario(alone)
		if got := calls()[name]; got != want {
			t.Errorf("%s: %d times alone, %d times among all", name, got, want)
		}
		told += want
	}
	if told < 20 {
		t.Errorf("%d events in all: the scenario is too quiet", told)
	}
}

// What is not observed costs nothing: neither time to speak of (BenchmarkObserver) nor memory.
func TestUnobservedAllocations(t *testing.T) {
	allocations := func(opts ...coord.Option) (lock, allow float64) {
		c := openFor(t, opts...)
		ctx, limit := context.Background(), coord.PerHour(1e9)
		lock = testing.AllocsPerRun(200, func() { lockOnce(t, c, ctx) })
		allow = testing.AllocsPerRun(200, func() {
			if _, err := c.Allow(ctx, "k", limit); err != nil {
				t.Fatal(err)
			}
		})
		return lock, allow
	}
	lock, allow := allocations()
	emptyLock, emptyAllow := allocations(coord.WithObserver(observe.Observer{}))
	if allow != 0 || emptyAllow != 0 || emptyLock > lock {
		t.Errorf("Allow: %v allocations, %v with an empty observer; Lock and Unlock: %v and %v", allow, emptyAllow, lock, emptyLock)
	}
}

func openFor(t testing.TB, opts ...coord.Option) *coord.Client {
	t.Helper()
	c, err := coord.New(memory.New(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func lockOnce(t testing.TB, c *coord.Client, ctx context.Context) {
	lock, err := c.Lock(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Unlock(ctx); err != nil {
		t.Fatal(err)
	}
}

// Without an observer, with one that wants nothing, and with one that wants everything.
func BenchmarkObserver(b *testing.B) {
	everything, _ := counted()
	nothing := func(context.Context, observe.Decision) {}
	for _, bench := range []struct {
		name string
		opts []coord.Option
	}{
		{"none", nil},
		{"empty", []coord.Option{coord.WithObserver(observe.Observer{})}},
		{"limits", []coord.Option{coord.WithObserver(observe.Observer{Allowed: nothing, Denied: nothing})}},
		{"all by reflection", []coord.Option{coord.WithObserver(everything)}},
	} {
		b.Run("allow/"+bench.name, func(b *testing.B) {
			c, ctx, limit := openFor(b, bench.opts...), context.Background(), coord.PerHour(1e9)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Allow(ctx, "k", limit); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("lock/"+bench.name, func(b *testing.B) {
			c, ctx := openFor(b, bench.opts...), context.Background()
			b.ReportAllocs()
			for b.Loop() {
				lockOnce(b, c, ctx)
			}
		})
	}
}
