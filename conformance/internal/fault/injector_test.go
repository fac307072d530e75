package fault

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
)

// divided is a store of two parts.
type divided struct{ driver.Backend }

func (divided) Partition(key string) string { return key[:1] }

// What no fault is for, the store answers.
func TestInjectorPassesOn(t *testing.T) {
	b, _ := NewInjector(divided{memory.New()})
	if part, name := b.Partition("k1"), b.Info().Name; part != "k" || name != "memory" {
		t.Errorf("behind an Injector: part %q of %q, want those of the store", part, name)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

func TestInjectorFaults(t *testing.T) {
	for name, test := range map[string]struct {
		kind    Kind
		applied bool // the store has taken the key
		hangs   bool
		fails   bool
	}{
		"none":        {None, true, false, false},
		"fail before": {FailBefore, false, false, true},
		"fail after":  {FailAfter, true, false, true},
		"hang before": {HangBefore, false, true, true},
		"hang after":  {HangAfter, true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.NewStore()
				b, in := NewInjector(store.Open())
				defer b.Close()
				in.Script(func(c Call) Kind {
					if c.Op == "TryLock" && c.Key == "k" && c.ID == "id" {
						return test.kind
					}
					return None
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				start := time.Now()
				g, err := b.TryLock(ctx, "k", driver.Request{ID: "id", TTL: time.Minute})
				if failed := err != nil; failed != test.fails || failed && (driver.Definite(err) || g != (driver.Grant{})) {
					t.Errorf("grant %+v, error %v: want an error %v, which is not definite", g, err, test.fails)
				}
				if hung := time.Since(start) == time.Second; hung != test.hangs || hung && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error %v after %v: want it at the deadline %v", err, time.Since(start), test.hangs)
				}
				_, err = store.Open().TryLock(t.Context(), "k", driver.Request{ID: "other", TTL: time.Minute})
				if applied := errors.Is(err, driver.ErrLocked); applied != test.applied {
					t.Errorf("another id gets %v: want the key taken %v", err, test.applied)
				}
			})
		})
	}
}

func TestInjectorLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		b, in := NewInjector(store.Open())
		l := b
		in.DropReply()
		if err := l.Unlock(t.Context(), "k", "id"); !errors.Is(err, ErrInjected) {
			t.Errorf("call whose reply was dropped: %v, want ErrInjected", err)
		}
		if err := l.Unlock(t.Context(), "k", "id"); !errors.Is(err, driver.ErrNotHeld) {
			t.Errorf("the next call: %v, want ErrNotHeld", err)
		}
		in.Delay(time.Second)
		start := time.Now()
		if err := l.Unlock(t.Context(), "k", "id"); !errors.Is(err, driver.ErrNotHeld) || time.Since(start) != time.Second {
			t.Errorf("delayed call: %v after %v, want ErrNotHeld after 1s", err, time.Since(start))
		}
		in.Heal()
		in.StallReplies()
		result := async(func() error { return l.Unlock(t.Context(), "k", "id") })
		synctest.Wait()
		in.Reset()
		if err := <-result; !errors.Is(err, ErrInjected) {
			t.Errorf("call under way at a Reset: %v, want ErrInjected", err)
		}
		in.StallRequests()
		result = async(func() error { return l.Unlock(t.Context(), "k", "id") })
		synctest.Wait()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if err := <-result; !errors.Is(err, ErrInjected) {
			t.Errorf("call under way at Close: %v, want ErrInjected", err)
		}
		if n := len(in.Calls()); n != 5 || in.Returned("Unlock") != 5 {
			t.Errorf("%d calls recorded, want 5", n)
		}
	})
}

// async calls fn in a goroutine and gives its error.
func async(fn func() error) <-chan error {
	ch := make(chan error, 1)
	go func() { ch <- fn() }()
	return ch
}
