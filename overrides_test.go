package coord_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
)

// An override applies within a second, to the clients that are made for it, until it ends or is ended.
func TestOverride(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		operator := openTest(t, store.Open())
		plain := openTest(t, store.Open())
		c := openTest(t, store.Open(), coord.WithOverrides())
		ctx, limit := t.Context(), coord.PerHour(10)
		left := func(c *coord.Client, key string) int {
			t.Helper()
			return got[coord.Result](t)(c.Peek(ctx, key, limit)).Remaining
		}
		ok(t, operator.Override(ctx, "ann", 2.5, time.Minute))
		_, _ = left(c, "ann"), left(plain, "ann") // which makes c read
		synctest.Wait()
		if a, b, p := left(c, "ann"), left(c, "bob"), left(plain, "ann"); a != 25 || b != 10 || p != 10 {
			t.Errorf("left: %d of ann, %d of bob, %d without overrides", a, b, p)
		}
		if r := got[coord.Result](t)(c.AllowAtMost(ctx, "ann", limit, 100)); r.Granted != 25 {
			t.Errorf("AllowAtMost: %+v", r)
		}
		ok(t, operator.Override(ctx, "ann", 3, time.Minute))
		if list := got[[]coord.Override](t)(operator.Overrides(ctx)); len(list) != 1 || list[0] != (coord.Override{"ann", 3, time.Minute}) {
			t.Errorf("Overrides: %+v", list)
		}
		time.Sleep(time.Second)
		_ = left(c, "ann")
		synctest.Wait()
		if n := left(c, "ann"); n != 5 {
			t.Errorf("left under another override: %d", n)
		}
		time.Sleep(time.Minute)
		if n := left(c, "ann"); n != 0 {
			t.Errorf("left after its end: %d", n)
		}
		ok(t, c.Override(ctx, "bob", 0.1, time.Minute))
		got[[]coord.Override](t)(c.Overrides(ctx)) // which applies it at once
		if n := left(c, "bob"); n != 1 {
			t.Errorf("left under a factor below 1: %d", n)
		}
		ok(t, operator.EndOverride(ctx, "bob"))
		time.Sleep(time.Second)
		_ = left(c, "bob")
		synctest.Wait()
		if n := left(c, "bob"); n != 10 {
			t.Errorf("left after it was ended: %d", n)
		}
		if err := operator.EndOverride(ctx, "bob"); !errors.Is(err, coord.ErrNotHeld) {
			t.Errorf("EndOverride of none: %v", err)
		}
		for key, err := range operator.List(ctx, "") {
			t.Errorf("List shows %q (%v)", key, err)
		}
	})
}

// A store that does not answer holds up no decision, and an override lasts no longer for it.
func TestOverridesDuringAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &mute{Backend: memory.New()}
		c := openTest(t, b, coord.WithOverrides())
		ctx, limit := t.Context(), coord.PerHour(10)
		ok(t, c.Override(ctx, "k", 2, 10*time.Second))
		got[[]coord.Override](t)(c.Overrides(ctx))
		b.hangs.Store(true)
		for range 9 {
			time.Sleep(time.Second)
			if r := got[coord.Result](t)(c.Peek(ctx, "k", limit)); r.Remaining != 20 {
				t.Fatalf("%+v", r)
			}
		}
		time.Sleep(2 * time.Second)
		if r := got[coord.Result](t)(c.Peek(ctx, "k", limit)); r.Remaining != 10 {
			t.Errorf("after its end: %+v", r)
		}
	})
}

func TestOverrideRefuses(t *testing.T) {
	c := openTest(t, memory.New())
	for _, tt := range []struct {
		key    string
		factor float64
		d      time.Duration
		want   error
	}{
		{"", 2, time.Hour, coord.ErrInvalid},
		{"k", 0, time.Hour, coord.ErrInvalid},
		{"k", -1, time.Hour, coord.ErrInvalid},
		{"k", coord.MaxFactor + 1, time.Hour, coord.ErrInvalid},
		{"k", 2, 0, coord.ErrInvalid},
		{"k", 2, 400 * 24 * time.Hour, coord.ErrInvalid},
		{strings.Repeat("k", 200), 2, time.Hour, coord.ErrInvalid},
		{"orders/user/ann smith", 2, time.Hour, nil},
	} {
		if err := c.Override(t.Context(), tt.key, tt.factor, tt.d); !errors.Is(err, tt.want) {
			t.Errorf("Override of %.20q by %v for %v: %v, want %v", tt.key, tt.factor, tt.d, err, tt.want)
		}
	}
	few := openTest(t, claiming{memory.New(), driver.PerHoldTTL})
	if err := few.Override(t.Context(), "k", 2, time.Hour); !errors.Is(err, coord.ErrUnsupported) {
		t.Errorf("on a store without the claim: %v", err)
	}
	if _, err := coord.New(claiming{memory.New(), driver.List}, coord.WithOverrides()); !errors.Is(err, coord.ErrUnsupported) {
		t.Errorf("WithOverrides on a store without the claim: %v", err)
	}
	if l := (coord.Override{Factor: 1e6}).Of(coord.PerHour(driver.MaxRate - 1)); l != coord.PerHour(driver.MaxRate) {
		t.Errorf("a limit that leaves its range: %v", l)
	}
}

// claiming is a store that lacks a claim.
type claiming struct {
	driver.Backend
	lacks driver.Claim
}

func (b claiming) Info() driver.Info {
	info := b.Backend.Info()
	info.Claims = info.Claims.Without(b.lacks)
	return info
}

// mute is a store of which the part that several share hangs.
type mute struct {
	driver.Backend
	hangs atomic.Bool
}

func (b *mute) Shared() driver.SharedLocker { return muteShared{b.Backend.Shared(), b} }

type muteShared struct {
	driver.SharedLocker
	b *mute
}

func (s muteShared) Holders(ctx context.Context, key string) ([]coord.Holder, error) {
	if s.b.hangs.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.SharedLocker.Holders(ctx, key)
}

func openTest(t *testing.T, b driver.Backend, opts ...coord.Option) *coord.Client {
	t.Helper()
	c, err := coord.New(b, opts...)
	ok(t, err)
	t.Cleanup(func() { ok(t, c.Close()) })
	return c
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func got[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		ok(t, err)
		return v
	}
}
