package chaos

import (
	"context"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silent{})
	if text := os.Getenv(victimEnv); text != "" {
		beVictim(text)
	}
	goleak.VerifyTestMain(m)
}

// silent keeps go-redis from telling of each connection that a scenario breaks.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func onMemory(store *memory.Store, wrap func(driver.Backend) driver.Backend) func() (*coord.Client, error) {
	return func() (*coord.Client, error) {
		return coord.New(wrap(store.Open()))
	}
}

// A sound store comes through, each break is made once, and the work is real.
func TestSoundStore(t *testing.T) {
	t.Parallel()
	store := memory.NewStore()
	r, err := Scenario{
		Name: "memory", TTL: 200 * time.Millisecond,
		Open:   onMemory(store, func(b driver.Backend) driver.Backend { return b }),
		Breaks: []Break{{Name: "nothing"}},
	}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	if r.Grants[exclusive] < 100 || r.Peak == 0 || len(r.Breaks) != 1 { // Err sees that each mode was granted
		t.Errorf("hardly anything happened:\n%v", r)
	}
}

// faulty is a store that keeps nothing of what it promises.
type faulty struct {
	driver.Backend
	driver.Locker
}

func (f faulty) Info() driver.Info { return f.Backend.Info() }

func (f faulty) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	if _, err := f.Locker.TryLock(ctx, key, r); err != nil {
		return driver.Grant{Token: 1, TTL: r.TTL}, nil
	}
	return driver.Grant{Token: 2, TTL: r.TTL}, nil
}

func (faulty) Take(_ context.Context, _ string, _ driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	return driver.Taken{Asks: []driver.Granted{{N: asks[0].N, ValidFor: time.Second}}}, nil
}

func (faulty) Reset(context.Context, string, driver.Limit) error { return nil }

// Each kind of breach is seen.
func TestBreachesAreSeen(t *testing.T) {
	t.Parallel()
	store := memory.NewStore()
	r, err := Scenario{
		Name: "faulty", For: 2500 * time.Millisecond, TTL: 100 * time.Millisecond, Limit: coord.PerSecond(20),
		Open: onMemory(store, func(b driver.Backend) driver.Backend { return faulty{b, b.(driver.Locker)} }),
	}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = r.Err()
	for _, want := range []string{"two live holders", "tokens that do not rise", "a limit above its bound"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("not seen: %s", want)
		}
	}
}

// hung is a store that does not answer any more.
type hung struct {
	driver.Backend
	driver.Locker
	driver.Limiter
	broken chan struct{}
}

func (h hung) Info() driver.Info { return h.Backend.Info() }

func (h hung) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	select {
	case <-h.broken:
		<-ctx.Done()
		return driver.Grant{}, ctx.Err()
	default:
		return h.Locker.TryLock(ctx, key, r)
	}
}

// A store that does not come back is seen too.
func TestStuckStoreIsSeen(t *testing.T) {
	t.Parallel()
	store := memory.NewStore()
	broken := make(chan struct{})
	r, err := Scenario{
		Name: "hung", For: calm + time.Second, TTL: 100 * time.Millisecond, Settle: 300 * time.Millisecond,
		Open: onMemory(store, func(b driver.Backend) driver.Backend {
			return hung{b, b.(driver.Locker), b.(driver.Limiter), broken}
		}),
		Breaks: []Break{{Name: "for good", Break: func() { close(broken) }, Lasts: 2 * time.Second}},
	}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Err(); err == nil || !strings.Contains(err.Error(), "work that does not go on") {
		t.Errorf("not seen: %v", err)
	}
}

// deaf is a store that does not hear that its caller has left.
type deaf struct {
	driver.Backend
	driver.Locker
	driver.Limiter
}

func (d deaf) Info() driver.Info { return d.Backend.Info() }

func (d deaf) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	<-ctx.Done()
	p := newProcessClock()
	defer p.stop()
	for p.time() < 3*late/2 {
		pause(context.WithoutCancel(ctx), tick)
	}
	return d.Locker.TryLock(context.WithoutCancel(ctx), key, r)
}

// A call that outlasts its context is seen, and where it was.
func TestLateCallIsSeen(t *testing.T) {
	t.Parallel()
	store := memory.NewStore()
	r, err := Scenario{
		Name: "deaf", For: calm, TTL: 50 * time.Millisecond,
		Open: onMemory(store, func(b driver.Backend) driver.Backend {
			return deaf{b, b.(driver.Locker), b.(driver.Limiter)}
		}),
	}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = r.Err()
	for _, want := range []string{"calls that outlast their context", "context deadline exceeded", "chaos.deaf.TryLock"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("not seen: %s in %v", want, err)
		}
	}
}

// A call is late by the time that the process was alive since the end of its context, and one that hangs
// is late however seldom that is.
func TestLateness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alive := newProcessClock()
		defer alive.stop()
		starved := new(processClock)
		for name, c := range map[string]struct {
			clock *processClock
			hangs time.Duration
			ticks int64 // of a clock that has none by itself
			late  bool
		}{
			"returns in time":            {alive, late - 2*tick, 0, false},
			"a little late":              {alive, late + 2*tick, 0, true},
			"hangs":                      {alive, 10 * time.Second, 0, true},
			"late with the machine":      {starved, 10 * time.Second, int64(late/tick) - 1, false},
			"hangs on a machine so slow": {starved, 10 * time.Second, int64(late/tick) + 1, true},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			call := c.clock.watch(ctx, "Call")
			<-ctx.Done()
			cancel()
			synctest.Wait() // it has seen the end
			c.clock.ticks.Add(c.ticks)
			time.Sleep(c.hangs)
			wrong, _ := call.done()
			if (wrong != "") != c.late {
				t.Errorf("%s: %q", name, wrong)
			}
			if c.late && (!strings.Contains(wrong, "Call returned") || !strings.Contains(wrong, "chaos.TestLateness")) {
				t.Errorf("%s: it does not say where the call was: %q", name, wrong)
			}
		}
	})
}
