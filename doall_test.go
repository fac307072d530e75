package coord

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestDoAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, f)
		err := DoAll(t.Context(), c, []string{"b", "c", "a", "b"}, func(ctx context.Context) error {
			for _, key := range []string{"a", "b", "c"} {
				if l, ok := Held(ctx, key); !ok || l.Err() != nil {
					t.Errorf("Held of %s: %v, %v", key, l, ok)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"trylock a", "trylock b", "trylock c", "unlock c", "unlock b", "unlock a"}
		if f.mu.Lock(); !slices.Equal(f.calls, want) {
			t.Errorf("calls %v, want %v", f.calls, want)
		}
		f.mu.Unlock()
	})
}

func TestDoAllRefuses(t *testing.T) {
	c := newTestClient(t, newFake())
	many := make([]string, MaxDemands+1)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	never := func(context.Context) error { t.Error("it ran"); return nil }
	for name, call := range map[string]func() error{
		"no key":        func() error { return DoAll(t.Context(), c, nil, never) },
		"too many keys": func() error { return DoAll(t.Context(), c, many, never) },
		"an empty key":  func() error { return DoAll(t.Context(), c, []string{"a", ""}, never) },
		"NoRenew":       func() error { return DoAll(t.Context(), c, []string{"a"}, never, NoRenew()) },
		"MinHold":       func() error { return DoAll(t.Context(), c, []string{"a"}, never, MinHold(time.Second)) },
		"no option":     func() error { return DoAll(t.Context(), c, []string{"a"}, never, LockOption{}) },
		"a wait of a try": func() error {
			_, err := TryDoAll(t.Context(), c, []string{"a"}, never, WaitAtMost(time.Second))
			return err
		},
		"NoRenew of the client": func() error {
			plain := newTestClient(t, newFake(), WithLockDefaults(NoRenew()))
			return DoAll(t.Context(), plain, []string{"a"}, never)
		},
	} {
		t.Run(name, func(t *testing.T) { wantErr(t, call(), ErrInvalid) })
	}
}

// MaxHold counts for each key from its own grant, also if the hold was handed over.
func TestDoAllMaxHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, f)
		work := func(ctx context.Context) error {
			began := time.Now()
			<-ctx.Done()
			if d := time.Since(began); d > 10*time.Second || d < 9*time.Second { // less the wait for the last key
				t.Errorf("it ended after %v, want MaxHold", d)
			}
			wantErr(t, context.Cause(ctx), ErrMaxHold)
			return nil
		}
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				wantErr(t, DoAll(t.Context(), c, []string{"a", "b"}, work, MaxHold(10*time.Second)), ErrMaxHold, ErrLost)
			})
		}
		wg.Wait()
	})
}

// A wait that is over before the last key is asked for is a refusal like any other.
func TestDoAllWaitIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c, other := newTestClient(t, f, WithLockDefaults(WaitAtMost(time.Second))), newTestClient(t, f)
		f.setIntercept(func(op, key string) outcome {
			if op == "trylock" && key == "a" {
				time.Sleep(999 * time.Millisecond)
			}
			return outcome{}
		})
		rival := must[*Lock](t)(other.Lock(t.Context(), "b"))
		began := time.Now()
		err := DoAll(t.Context(), c, []string{"a", "b", "c"}, func(context.Context) error { t.Error("it ran"); return nil })
		wantErr(t, err, ErrLocked, context.DeadlineExceeded)
		if d := time.Since(began); d > 1100*time.Millisecond {
			t.Errorf("it waited for %v", d)
		}
		unlock(t, rival)
		unlock(t, must[*Lock](t)(other.TryLock(t.Context(), "a")))
		// A default wait is nothing to a try.
		ran, err := TryDoAll(t.Context(), c, []string{"a", "b"}, func(context.Context) error { return nil })
		if err != nil || !ran {
			t.Errorf("ran %v, %v", ran, err)
		}
	})
}

// opaque hides the Client.
type opaque struct{ l Locker }

func (o opaque) Lock(ctx context.Context, key string, opts ...LockOption) (*Lock, error) {
	return o.l.Lock(ctx, "x/"+key, opts...)
}

func (o opaque) TryLock(ctx context.Context, key string, opts ...LockOption) (*Lock, error) {
	return o.l.TryLock(ctx, "x/"+key, opts...)
}

// A Locker need not be a Client.
func TestDoAllOfAnotherLocker(t *testing.T) {
	c := newTestClient(t, newFake(), WithLockDefaults(MaxHold(time.Minute)))
	ran := false
	err := DoAll(t.Context(), opaque{c}, []string{"b", "a"}, func(ctx context.Context) error {
		_, a := Held(ctx, "x/a")
		_, b := Held(ctx, "x/b")
		ran = a && b
		return nil
	}, WaitAtMost(time.Minute))
	if err != nil || !ran {
		t.Errorf("ran %v, %v", ran, err)
	}
	wantErr(t, DoAll(t.Context(), opaque{c}, []string{"a"}, func(context.Context) error { return nil }, MinHold(time.Second)), ErrInvalid)
}

// Keys that are asked for out of order are warned of, once.
func TestDoAllWarnsOfOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logBuffer{}
		c := newTestClient(t, newFake(), WithLogger(slog.New(slog.NewTextHandler(log, nil))))
		nothing := func(context.Context) error { return nil }
		for range 2 {
			must[any](t)(nil, Do(t.Context(), c, "b", func(ctx context.Context) error {
				if err := DoAll(ctx, c, []string{"c", "d"}, nothing); err != nil {
					return err
				}
				if n := strings.Count(log.String(), "WARN"); n > 1 {
					t.Errorf("log: %s", log)
				}
				return DoAll(ctx, c, []string{"a", "b"}, nothing)
			}))
		}
		if n := strings.Count(log.String(), "WARN"); n != 1 || !strings.Contains(log.String(), "key=a held=b") {
			t.Errorf("%d warnings: %s", n, log)
		}
	})
}

// The function's error comes first, and a panic goes on.
func TestDoAllErrors(t *testing.T) {
	c := newTestClient(t, newFake())
	mine := errors.New("mine")
	wantErr(t, DoAll(t.Context(), c, []string{"a", "b"}, func(context.Context) error { return mine }), mine)
	ran, err := TryDoAll(t.Context(), c, []string{"a", "b"}, func(context.Context) error { return mine })
	if wantErr(t, err, mine); !ran {
		t.Error("it did not run")
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		_ = DoAll(t.Context(), c, []string{"a", "b"}, func(context.Context) error { panic("mine") })
	}()
	must[any](t)(nil, DoAll(t.Context(), c, []string{"a", "b"}, func(context.Context) error { return nil }))
}
