package redis

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

// TestFullServer: a server that is full, and evicts nothing, grants nothing new. It renews, makes smaller and ends what it
// has granted.
func TestFullServer(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	ctx, s := t.Context(), b.Shared()
	maxmemory := func(bytes string) {
		t.Helper()
		if err := b.client.ConfigSet(ctx, "maxmemory", bytes).Err(); err != nil {
			t.Fatal(err)
		}
	}
	locks := map[string]driver.Request{}
	for _, key := range []string{"renewed", "released", "kept", "broken"} {
		locks[key] = request(key, time.Minute)
		must[driver.Grant](t)(b.TryLock(ctx, key, locks[key]))
	}
	shared := map[string]driver.Request{}
	for _, key := range []string{"renewed", "smaller", "released", "broken"} {
		shared[key] = shares(key, permits(2, 4))
		must[driver.Grant](t)(s.TryLock(ctx, key, shared[key]))
	}
	// Sums are written by who is refused.
	if _, err := s.TryLock(ctx, "renewed", shares("b", writer)); !errors.Is(err, driver.ErrLocked) {
		t.Errorf("%v, want ErrLocked", err)
	}
	bucket, window := limitOf(t, "10/1h burst=10"), limitOf(t, "10/1h")
	for _, l := range []driver.Limit{bucket, window} {
		must[driver.TakenOne](t)(b.TakeOne(ctx, "limit", l, driver.Ask{ID: "x", Min: 4, N: 4}))
	}

	maxmemory("1")
	longer := func(r driver.Request) driver.Request { r.TTL = 2 * time.Minute; return r }
	smaller := longer(shared["smaller"])
	smaller.Share = permits(1, 4)
	for what, err := range map[string]error{
		"Renew":             second(b.Renew(ctx, "renewed", longer(locks["renewed"]))),
		"Unlock":            b.Unlock(ctx, "released", locks["released"].ID),
		"UnlockAfter":       b.UnlockAfter(ctx, "kept", locks["kept"].ID, time.Minute),
		"Break":             b.Break(ctx, "broken", locks["broken"].ID),
		"shared Renew":      second(s.Renew(ctx, "renewed", longer(shared["renewed"]))),
		"shared RenewAll":   s.RenewAll(ctx, []driver.Hold{{Key: "renewed", Request: longer(shared["renewed"])}})[0].Err,
		"a smaller share":   second(s.Renew(ctx, "smaller", smaller)),
		"a repeated share":  second(s.TryLock(ctx, "renewed", longer(shared["renewed"]))),
		"shared Unlock":     s.Unlock(ctx, "released", shared["released"].ID),
		"shared Break":      s.Break(ctx, "broken", shared["broken"].ID),
		"a bucket's refund": second(b.Charge(ctx, "limit", bucket, -4)),
		"a window's refund": b.Refund(ctx, "limit", window, "x", 4),
	} {
		if err != nil {
			t.Errorf("%s on a full server: %v", what, err)
		}
	}
	for what, err := range map[string]error{
		"TakeOne":        second(b.TakeOne(ctx, "fresh", window, driver.Ask{Min: 1, N: 1})),
		"TryLock":        second(b.TryLock(ctx, "fresh", request("b", time.Minute))),
		"shared TryLock": second(s.TryLock(ctx, "fresh", shares("b", reader))),
		"one more share": second(s.TryLock(ctx, "renewed", shares("b", permits(1, 4)))),
		"a free share":   second(s.TryLock(ctx, "released", shares("b", reader))),
	} {
		if !errors.Is(err, driver.ErrNotSent) || !strings.Contains(err.Error(), "raise maxmemory") {
			t.Errorf("%s on a full server: %v, want ErrNotSent that says what to do", what, err)
		}
	}
	if _, err := s.TryLock(ctx, "smaller", shares("b", writer)); !errors.Is(err, driver.ErrLocked) {
		t.Errorf("a shared key that is taken, on a full server: %v, want ErrLocked", err)
	}

	maxmemory("0")
	if g := must[driver.Grant](t)(s.TryLock(ctx, "smaller", shares("b", permits(3, 4)))); g.Slot != 1 {
		t.Errorf("beside a hold that was made smaller: %+v, want slot 1", g)
	}
	for _, h := range must[[]driver.Holder](t)(s.Holders(ctx, "renewed")) {
		if h.TTL < 90*time.Second {
			t.Errorf("%v are left of a lease that was renewed for two minutes", h.TTL)
		}
	}
	if h := must[driver.Holder](t)(b.Inspect(ctx, "kept")); !h.Released {
		t.Errorf("%+v, want it kept and released", h)
	}
	for _, l := range []driver.Limit{bucket, window} {
		if taken := must[driver.TakenOne](t)(b.TakeOne(ctx, "limit", l, driver.Ask{})); taken.Remaining != 10 {
			t.Errorf("%d permits of %v are left after a refund, want all 10", taken.Remaining, l)
		}
	}
}
