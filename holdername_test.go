package coord

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
)

// shownName is the name that the store has of the hold on key.
func (f *fakeStore) shownName(t *testing.T, key string) string {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	name, _, _, err := driver.ParseID(f.leases[key].id)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func TestHolderName(t *testing.T) {
	f := newFake()
	c := newTestClient(t, f, WithHolderName("client"), WithLockDefaults(HolderName("default")))
	plain := newTestClient(t, f, WithHolderName("client"))
	for name, lock := range map[string]func() (*Lock, error){
		"client":     func() (*Lock, error) { return plain.Lock(t.Context(), "k") },
		"default":    func() (*Lock, error) { return c.Lock(t.Context(), "k", TTL(time.Second)) },
		"10.0.0.7:1": func() (*Lock, error) { return c.TryLock(t.Context(), "k", HolderName("10.0.0.7:1")) },
	} {
		l := must[*Lock](t)(lock())
		if got := f.shownName(t, "k"); got != name {
			t.Errorf("the store shows %q, want %q", got, name)
		}
		unlock(t, l)
	}
	for _, name := range []string{"", "a b", "a\x00", "ü", strings.Repeat("n", driver.MaxName+1)} {
		_, err := c.TryLock(t.Context(), "k", HolderName(name))
		wantErr(t, err, ErrInvalid)
	}
	_, err := New(newFake(), WithLockDefaults(HolderName("a b")))
	wantErr(t, err, ErrInvalid)
}

// An id says of a hold that it leads, and no name can say so.
func TestStoreShowsLeaders(t *testing.T) {
	f := newFake()
	c := newTestClient(t, f, WithHolderName("a/lead"))
	for want, take := range map[bool]func(context.Context, Locker, string, func(context.Context) error, ...LockOption) error{true: Lead, false: Do} {
		err := take(t.Context(), c, "k", func(context.Context) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			if h := driver.NewHolder(f.leases["k"].id, 1, time.Second); h.Leader != want || h.Name != "a/lead" {
				t.Errorf("the store shows %+v, want a leader: %v", h, want)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// The name is the store's of the hold, so a re-entry has the same or none.
func TestHolderNameOfReentry(t *testing.T) {
	c := newTestClient(t, newFake())
	nothing := func(context.Context) error { return nil }
	err := Do(t.Context(), c, "k", func(ctx context.Context) error {
		wantErr(t, Do(ctx, c, "k", nothing, HolderName("b")), ErrInvalid)
		if err := Do(ctx, c, "k", nothing); err != nil {
			return err
		}
		return Do(ctx, c, "k", nothing, HolderName("a"))
	}, HolderName("a"))
	if err != nil {
		t.Error(err)
	}
}

// A hold goes only to a waiter of the same name: at the store it keeps the one that it was taken under.
func TestHolderNameIsNotHandedOver(t *testing.T) {
	for name, grants := range map[string]int64{"a": 1, "b": 2} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			c := newTestClient(t, f)
			first := must[*Lock](t)(c.Lock(t.Context(), "k", HolderName("a")))
			var wg sync.WaitGroup
			wg.Go(func() {
				l, err := c.Lock(t.Context(), "k", HolderName(name))
				if err != nil {
					t.Error(err)
					return
				}
				if got := f.shownName(t, "k"); got != name {
					t.Errorf("the store shows %q, want %q", got, name)
				}
				unlock(t, l)
			})
			synctest.Wait()
			unlock(t, first)
			wg.Wait()
			if f.token != grants {
				t.Errorf("%d grants of the store from a to %s, want %d", f.token, name, grants)
			}
		})
	}
}
