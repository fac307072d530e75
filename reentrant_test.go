package coord

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestReentry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, f)
		ctx := WithOwner(t.Context())
		outer := must[*Lock](t)(c.Lock(ctx, "k", TTL(10*time.Second)))
		inner := must[*Lock](t)(c.TryLock(ctx, "k"))
		same := must[*Lock](t)(c.Lock(ctx, "k", TTL(10*time.Second)))
		if outer.Token() != inner.Token() || inner.Token() != same.Token() {
			t.Errorf("tokens %d, %d, %d: want one", outer.Token(), inner.Token(), same.Token())
		}
		if n := len(f.calls); n != 1 {
			t.Errorf("%d calls: re-entry asks nobody", n)
		}
		// Handles are unlocked in any order, each once; the last frees.
		for i, l := range []*Lock{outer, same, inner} {
			if !f.held("k") {
				t.Fatalf("free before handle %d", i)
			}
			if err := l.Unlock(ctx); err != nil {
				t.Fatal(err)
			}
			wantErr(t, l.Unlock(ctx), ErrNotHeld)
			wantErr(t, l.Err(), ErrNotHeld)
		}
		if f.held("k") {
			t.Error("held after the last Unlock")
		}
	})
}

func TestReentryRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, f)
		ctx := WithOwner(t.Context())
		must[*Lock](t)(c.Lock(ctx, "k", TTL(10*time.Second)))
		for _, o := range []LockOption{TTL(11 * time.Second), MaxHold(time.Hour), MinHold(time.Second), NoRenew()} {
			_, err := c.Lock(ctx, "k", o)
			wantErr(t, err, ErrInvalid)
		}
		// Another owner, and no owner, are excluded.
		_, err := c.TryLock(WithOwner(ctx), "k")
		wantErr(t, err, ErrLocked)
		_, err = c.TryLock(t.Context(), "k")
		wantErr(t, err, ErrLocked)
		// The same owner takes other keys, and the same key of another client's
		// store.
		must[*Lock](t)(c.TryLock(ctx, "k2"))
		other := newTestClient(t, f)
		_, err = other.TryLock(ctx, "k")
		wantErr(t, err, ErrLocked)
		for range maxDepth - 1 {
			must[*Lock](t)(c.Lock(ctx, "k"))
		}
		_, err = c.Lock(ctx, "k")
		wantErr(t, err, ErrInvalid)
	})
}

func TestReentryAfterLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, f)
		ctx := WithOwner(t.Context())
		l := must[*Lock](t)(c.Lock(ctx, "k", TTL(time.Second), NoRenew()))
		l2 := must[*Lock](t)(c.Lock(ctx, "k"))
		<-l.Done()
		_, err := c.Lock(ctx, "k")
		wantErr(t, err, ErrLost)
		wantErr(t, l2.Unlock(ctx), ErrLost)
		_, err = c.Lock(ctx, "k")
		wantErr(t, err, ErrLost)
		wantErr(t, l.Unlock(ctx), ErrLost)
		fresh := must[*Lock](t)(c.Lock(ctx, "k")) // all unwound: a new hold
		if fresh.Token() <= l.Token() {
			t.Errorf("token %d after %d", fresh.Token(), l.Token())
		}
	})
}

func TestDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, f)
		boom := errors.New("boom")
		err := Do(t.Context(), c, "k", func(ctx context.Context) error {
			l, ok := Held(ctx, "k")
			if !ok {
				t.Fatal("not held inside Do")
			}
			wantErr(t, l.Unlock(ctx), ErrInvalid)
			if _, ok := Held(ctx, "other"); ok {
				t.Error("holds what it does not")
			}
			return Do(ctx, c, "k", func(inner context.Context) error {
				l2, _ := Held(inner, "k")
				if l2.Token() != l.Token() {
					t.Error("nested Do has another token")
				}
				return boom
			})
		})
		if err != boom {
			t.Errorf("Do: %v: want fn's error as it is", err)
		}
		if f.held("k") || f.count("trylock") != 1 {
			t.Errorf("held %v after %d attempts", f.held("k"), f.count("trylock"))
		}
	})
}

func TestDoBindsTheContextOfAnOuterLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestClient(t, newFake())
		ctx := WithOwner(t.Context())
		l := must[*Lock](t)(c.Lock(ctx, "k", TTL(time.Second), NoRenew()))
		err := Do(ctx, c, "k", func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		wantErr(t, err, ErrLost)
		wantErr(t, l.Unlock(ctx), ErrLost)
	})
}

// A hold that ended before fn returned is reported even if fn noticed nothing.
func TestDoReportsLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestClient(t, newFake())
		boom := errors.New("boom")
		for _, ret := range []error{nil, boom} {
			err := Do(t.Context(), c, "k", func(ctx context.Context) error {
				time.Sleep(2 * time.Second)
				return ret
			}, TTL(time.Second), NoRenew())
			wantErr(t, err, ErrLost)
			if ret != nil {
				wantErr(t, err, boom)
			}
		}
	})
}

func TestDoUnlocksOnPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, f)
		func() {
			defer func() {
				if r := recover(); r != "boom" {
					t.Errorf("recovered %v", r)
				}
			}()
			_ = Do(t.Context(), c, "k", func(context.Context) error { panic("boom") })
		}()
		if f.held("k") {
			t.Error("held after a panic")
		}
	})
}

// The store does not confirm the release: fn had the lock to its end, that is
// no error.
func TestDoWithUnconfirmedRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := newTestClient(t, f)
		err := Do(t.Context(), c, "k", func(ctx context.Context) error {
			f.setIntercept(func(op, key string) outcome { return outcome{before: errWire} })
			return nil
		})
		f.setIntercept(nil)
		if err != nil {
			t.Error(err)
		}
	})
}

func TestTryDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		a, b := newTestClient(t, f), newTestClient(t, f)
		l := must[*Lock](t)(a.Lock(t.Context(), "k"))
		ran, err := TryDo(t.Context(), b, "k", func(context.Context) error { t.Error("ran"); return nil })
		if ran || err != nil {
			t.Errorf("ran %v, %v: want false, nil", ran, err)
		}
		if err := l.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		boom := errors.New("boom")
		ran, err = TryDo(t.Context(), b, "k", func(context.Context) error { return boom })
		if !ran || err != boom {
			t.Errorf("ran %v, %v: want true, boom", ran, err)
		}
		ran, err = TryDo(t.Context(), b, "", func(context.Context) error { return nil })
		if ran {
			t.Error("ran without a key")
		}
		wantErr(t, err, ErrInvalid)
	})
}

// Re-entry asks nobody, and allocates its handle.
func TestReentryAllocations(t *testing.T) {
	c := newTestClient(t, newFake())
	ctx := WithOwner(t.Context())
	must[*Lock](t)(c.Lock(ctx, "k"))
	allocs := testing.AllocsPerRun(1000, func() {
		l, err := c.Lock(ctx, "k")
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Unlock(ctx); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 1 {
		t.Errorf("%v allocations, want the handle's", allocs)
	}
}

func BenchmarkReentry(b *testing.B) {
	c := newTestClient(b, newFake())
	ctx := WithOwner(b.Context())
	must[*Lock](b)(c.Lock(ctx, "k"))
	b.ReportAllocs()
	for b.Loop() {
		l, err := c.Lock(ctx, "k")
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Unlock(ctx); err != nil {
			b.Fatal(err)
		}
	}
}
