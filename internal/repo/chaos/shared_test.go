package chaos

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
)

// generous is a store that grants a permit too many, and a writer beside readers.
type generous struct{ store }

// store is a whole backend.
type store interface {
	driver.Backend
	driver.Locker
	driver.Limiter
	driver.Sharer
}

func (g generous) Shared() driver.SharedLocker { return generousLocker{g.store.Shared()} }

type generousLocker struct{ driver.SharedLocker }

func (generousLocker) more(r driver.Request) driver.Request {
	switch r.Share.Mode {
	case driver.Permits:
		r.Share.Of++
	case driver.Write:
		r.Share.Mode = driver.Read
	}
	return r
}

func (g generousLocker) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return g.SharedLocker.TryLock(ctx, key, g.more(r))
}

func (g generousLocker) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return g.SharedLocker.Renew(ctx, key, g.more(r))
}

// forgetful is a store that gives all who share a key one token, and one slot.
type forgetful struct{ store }

func (f forgetful) Shared() driver.SharedLocker { return forgetfulLocker{f.store.Shared()} }

type forgetfulLocker struct{ driver.SharedLocker }

func (f forgetfulLocker) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	g, err := f.SharedLocker.TryLock(ctx, key, r)
	g.Token, g.Slot = 1, 0
	return g, err
}

// Each kind of breach of those who share a key is seen, and of none but them.
func TestSharedBreachesAreSeen(t *testing.T) {
	for name, tt := range map[string]struct {
		wrap func(store) driver.Backend
		want []string
	}{
		"generous":  {func(s store) driver.Backend { return generous{s} }, []string{"two live holders", ": semaphore", ": read/write lock", "4 of 3"}},
		"forgetful": {func(s store) driver.Backend { return forgetful{s} }, []string{"tokens that do not rise", ": semaphore", ": read/write lock", "at slot 0, was granted beside"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := memory.NewStore()
			r, err := Scenario{
				Name: name, TTL: 200 * time.Millisecond, Breaks: []Break{{Name: "nothing"}},
				Open: onMemory(m, func(b driver.Backend) driver.Backend { return tt.wrap(b.(store)) }),
			}.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			err = r.Err()
			all := strings.Join(append(r.Overlaps, r.Tokens...), "\n")
			if err == nil {
				t.Fatalf("nothing seen:\n%v", r)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error()+all, want) {
					t.Errorf("not seen: %s in %v", want, err)
				}
			}
			if strings.Contains(all, ": lock") {
				t.Errorf("exclusive locks are sound: %v", err)
			}
		})
	}
}

// dead is a backend whose client is gone: nothing is renewed or given back.
type dead struct{ store }

func (d dead) Shared() driver.SharedLocker { return deadLocker{d.store.Shared()} }

type deadLocker struct{ driver.SharedLocker }

func (deadLocker) Renew(context.Context, string, driver.Request) (driver.Grant, error) {
	return driver.Grant{}, driver.ErrNotSent
}

func (deadLocker) Unlock(context.Context, string, string) error { return driver.ErrNotSent }

// diesOnMemory leaves a hold of so long a lease behind.
func diesOnMemory(mem *memory.Store, ttl time.Duration) func(context.Context, Mortal) error {
	return func(ctx context.Context, m Mortal) error {
		c, err := coord.New(dead{mem.Open().(store)})
		if err != nil {
			return err
		}
		m.TTL = ttl
		if _, err := m.Lock(ctx, c); err != nil {
			return err
		}
		return c.Close()
	}
}

// A share that outlives its holder is seen, and one that goes with its lease is inherited.
func TestDeadHoldersAreSeen(t *testing.T) {
	for name, tt := range map[string]struct {
		ttl, grace, lasts time.Duration
		late              bool
	}{
		"in time": {200 * time.Millisecond, 10 * time.Second, time.Second, false},
		"late":    {time.Hour, 300 * time.Millisecond, 4 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := memory.NewStore()
			r, err := Scenario{
				Name: name, TTL: 200 * time.Millisecond, Grace: tt.grace, For: tt.lasts,
				Open: onMemory(m, func(b driver.Backend) driver.Backend { return b }),
				Die:  diesOnMemory(m, tt.ttl),
			}.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			err = r.Err()
			if seen := err != nil && strings.Contains(err.Error(), "shares of dead holders"); seen != tt.late || !tt.late && (err != nil || r.Inherited == 0) {
				t.Errorf("late: %v, want %v: %v\n%v", seen, tt.late, err, r)
			}
		})
	}
}

// A run in which one mode was never granted fails, whatever else it did.
func TestIdleModeIsSeen(t *testing.T) {
	r := &Report{Grants: map[string]int{exclusive: 100, write: 0}, Admitted: 100}
	if err := r.Err(); err == nil || !strings.Contains(err.Error(), "never granted: write") {
		t.Errorf("not seen: %v", err)
	}
}
