package redis

import (
	"errors"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

// A state of another version, and what is none, is told by all that use it, and left: by Reset too.
func TestLimitOfAnotherVersion(t *testing.T) {
	t.Parallel()
	b := shared(t)
	ctx := t.Context()
	for name, text := range map[string]string{"bucket": "10/1h burst=10", "window": "10/1h"} {
		l := limitOf(t, text)
		for what, spoil := range map[string]func(state string) string{
			"version 2":       func(state string) string { return "\x02" + state[1:] },
			"without version": func(state string) string { return state[1:] },
			"somebody's":      func(string) string { return "x" },
		} {
			key := name + " " + what
			state := limitKey(key, l)
			one := driver.Ask{ID: "x", Min: 1, N: 1}
			must[driver.TakenOne](t)(b.TakeOne(ctx, key, l, one))
			spoilt := spoil(b.client.Get(ctx, state).Val())
			if err := b.client.Set(ctx, state, spoilt, time.Hour).Err(); err != nil {
				t.Fatal(err)
			}
			for op, call := range map[string]func() error{
				"TakeOne": func() error { _, err := b.TakeOne(ctx, key, l, one); return err },
				"peek":    func() error { _, err := b.TakeOne(ctx, key, l, driver.Ask{}); return err },
				"Refund":  func() error { return b.Refund(ctx, key, l, "x", 1) },
				"Reset":   func() error { return b.Reset(ctx, key, l) },
				"TakeAll": func() error { _, err := b.TakeAll(ctx, []driver.Demand{{Key: key, Limit: l, N: 1}}); return err },
			} {
				if err := call(); !errors.Is(err, driver.ErrCorrupt) {
					t.Errorf("%s of %s: %v, want ErrCorrupt", op, key, err)
				}
			}
			if got := b.client.Get(ctx, state).Val(); got != spoilt {
				t.Errorf("%s: %q is left of %q", key, got, spoilt)
			}
		}
	}
}

// What is in a lock's place and has no version of ours is told, and left. Who holds by it, nobody knows.
func TestLockOfAnotherVersion(t *testing.T) {
	t.Parallel()
	b := shared(t)
	ctx := t.Context()
	for _, value := range []string{"2 " + newID("x"), newID("x"), "offered " + newID("x"), "x", ""} {
		r, fair := request("a", time.Minute), request("f", time.Minute)
		fair.Fair = true
		b.client.Set(ctx, "coord:{k}", value, time.Hour)
		for what, err := range map[string]error{
			"TryLock":   second(b.TryLock(ctx, "k", r)),
			"Lock":      second(b.Lock(ctx, "k", r, func() {})),
			"fair Lock": second(b.Lock(ctx, "k", fair, func() {})),
			"Inspect":   second(b.Inspect(ctx, "k")),
		} {
			if !errors.Is(err, driver.ErrCorrupt) {
				t.Errorf("%s beside %q: %v, want ErrCorrupt", what, value, err)
			}
		}
		for what, err := range map[string]error{
			"Renew":       second(b.Renew(ctx, "k", r)),
			"Unlock":      b.Unlock(ctx, "k", r.ID),
			"UnlockAfter": b.UnlockAfter(ctx, "k", r.ID, time.Second),
			"Break":       b.Break(ctx, "k", r.ID),
		} {
			if !errors.Is(err, driver.ErrNotHeld) {
				t.Errorf("%s beside %q: %v, want ErrNotHeld", what, value, err)
			}
		}
		if got, keys := b.client.Get(ctx, "coord:{k}").Val(), b.client.DBSize(ctx).Val(); got != value || keys != 1 {
			t.Errorf("%q is left of %q, and %d keys", got, value, keys)
		}
	}
}

// Who waits is refused at the next look when such a value has come in the holder's place.
func TestWaiterBehindAnotherVersion(t *testing.T) {
	t.Parallel()
	b := shared(t)
	ctx := t.Context()
	must[driver.Grant](t)(b.TryLock(ctx, "k", request("h", time.Minute)))
	w := waitFor(t, b, "k", request("w", time.Minute), 1)
	b.client.Set(ctx, "coord:{k}", "2 of tomorrow", time.Hour)
	select {
	case a := <-w:
		if !errors.Is(a.err, driver.ErrCorrupt) {
			t.Errorf("%v, want ErrCorrupt", a.err)
		}
	case <-time.After(hung):
		t.Errorf("still waits after %v", hung)
	}
	if got, keys := b.client.Get(ctx, "coord:{k}").Val(), b.client.DBSize(ctx).Val(); got != "2 of tomorrow" || keys != 2 {
		t.Errorf("%q is left, and %d keys: want the lock and its fence", got, keys)
	}
}

func second[T any](_ T, err error) error { return err }
