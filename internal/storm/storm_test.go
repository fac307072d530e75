package storm

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silent{})
	goleak.VerifyTestMain(m)
}

// silent keeps go-redis from telling of each connection that a storm breaks.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func onMemory(store *memory.Store, wrap func(driver.Backend) driver.Backend) func() (*coord.Client, error) {
	return func() (*coord.Client, error) {
		return coord.New(wrap(store.Open()))
	}
}

// A sound store comes through, and the work is real.
func TestSoundStore(t *testing.T) {
	store := memory.NewStore()
	r, err := Storm{
		Name: "memory", For: 3 * time.Second, TTL: 200 * time.Millisecond,
		Open:   onMemory(store, func(b driver.Backend) driver.Backend { return b }),
		Breaks: []Break{{Name: "nothing"}},
	}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	if r.Grants < 200 || r.Peak < 40 || len(r.Breaks) == 0 {
		t.Errorf("hardly a storm:\n%v", r)
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
	store := memory.NewStore()
	r, err := Storm{
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
	store := memory.NewStore()
	broken := make(chan struct{})
	r, err := Storm{
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
