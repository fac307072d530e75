package redis

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
)

// TestWhoHolds: the lock key shows the id, and every key expires.
func TestWhoHolds(t *testing.T) {
	t.Parallel()
	b := shared(t)
	ctx := t.Context()
	r := request("alice", time.Minute)
	must[driver.Grant](t)(b.TryLock(ctx, "tickets", r))
	if got := b.client.Get(ctx, "coord:{tickets}").Val(); got != held+r.ID {
		t.Errorf("GET = %q, want %q", got, r.ID)
	}
	for _, l := range []driver.Limit{{Rate: 5, Per: time.Minute}, {Rate: 5, Per: time.Minute, Burst: 2}, {Rate: 5, Per: time.Minute, Algorithm: driver.FixedWindow}} {
		l, err := l.Normal()
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			a := driver.Ask{ID: newID("a"), Min: 1, N: 1}
			if l.Burst > 0 {
				a.MaxDelay = time.Hour
			}
			must[driver.TakenOne](t)(b.TakeOne(ctx, "tickets", l, a))
		}
	}
	keys := b.client.Keys(ctx, "*").Val()
	if len(keys) < 6 {
		t.Errorf("only %q", keys)
	}
	for _, k := range keys {
		if ttl := b.client.PTTL(ctx, k).Val(); ttl <= 0 || ttl > 2*time.Hour {
			t.Errorf("%s expires in %v", k, ttl)
		}
	}
}

// TestUnlockAfter: what is left is nobody's, and ends with the delay.
func TestUnlockAfter(t *testing.T) {
	t.Parallel()
	b := shared(t)
	ctx := t.Context()
	r := request("a", time.Hour)
	must[driver.Grant](t)(b.TryLock(ctx, "k", r))
	if err := b.UnlockAfter(ctx, "k", r.ID, time.Minute); err != nil {
		t.Fatal(err)
	}
	var locked *driver.LockedError
	if _, err := b.TryLock(ctx, "k", request("b", time.Minute)); !errors.As(err, &locked) || locked.Remaining > time.Minute+time.Millisecond {
		t.Errorf("%v %+v", err, locked)
	}
	for what, err := range map[string]error{
		"UnlockAfter": b.UnlockAfter(ctx, "k", r.ID, time.Second), "Renew": second(b.Renew(ctx, "k", r)), "Unlock": b.Unlock(ctx, "k", r.ID),
	} {
		if !errors.Is(err, driver.ErrNotHeld) {
			t.Errorf("%s afterwards: %v, want ErrNotHeld", what, err)
		}
	}
}

// awaitFree waits as the core does: as long as the store says the key is taken.
func awaitFree(t *testing.T, b *backend, key string) driver.Grant {
	t.Helper()
	r := request("waiter", time.Minute)
	for range 100 {
		g, err := b.TryLock(t.Context(), key, r)
		var locked *driver.LockedError
		switch {
		case err == nil:
			return g
		case !errors.As(err, &locked):
			t.Fatal(err)
		}
		time.Sleep(locked.Remaining)
	}
	t.Fatal("never free")
	return driver.Grant{}
}

func TestRenewAll(t *testing.T) {
	t.Parallel()
	srv, b := open(t)
	ctx := t.Context()
	const n = 1200
	holds := make([]driver.Hold, n)
	for i := range holds {
		holds[i] = driver.Hold{Key: string(rune('a'+i%26)) + newID("k"), Request: request("a", time.Minute)}
		if i%3 != 0 {
			must[driver.Grant](t)(b.TryLock(ctx, holds[i].Key, holds[i].Request))
		}
		holds[i].TTL = time.Hour
	}
	holds[4].TTL = 0
	check := func() {
		t.Helper()
		for i, r := range b.RenewAll(ctx, holds) {
			switch {
			case i == 4:
				if !errors.Is(r.Err, driver.ErrInvalid) {
					t.Errorf("hold %d: %v", i, r.Err)
				}
			case i%3 == 0:
				if !errors.Is(r.Err, driver.ErrNotHeld) {
					t.Errorf("hold %d: %v", i, r.Err)
				}
			case r.Err != nil || r.Grant.TTL < 59*time.Minute || r.Grant.Token <= 0:
				t.Errorf("hold %d: %+v", i, r)
			}
		}
	}
	check()
	// Pipelines too find their way when the server forgets the scripts.
	if err := b.client.ScriptFlush(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	before := srv.Commands()
	check()
	after := srv.Commands()
	if evals := after["eval"] - before["eval"]; evals != 499 {
		t.Errorf("%d EVALs, want those of the first batch only", evals)
	}
	if got := b.RenewAll(ctx, nil); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	b := shared(t)
	ctx := t.Context()
	for i, r := range []driver.Request{
		{ID: "a"},
		{ID: "a", TTL: -1},
		{ID: "a", TTL: maxTTL + 1},
		{TTL: time.Second},
		{ID: "a b", TTL: time.Second},
		{ID: string(make([]byte, 129)), TTL: time.Second},
	} {
		if _, err := b.TryLock(ctx, "k", r); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("TryLock %d: %v", i, err)
		}
		if _, err := b.Renew(ctx, "k", r); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("Renew %d: %v", i, err)
		}
		if _, err := b.Lock(ctx, "k", r, func() {}); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("Lock %d: %v", i, err)
		}
	}
	for name, err := range map[string]error{
		"Unlock": b.Unlock(ctx, "k", ""), "Break": b.Break(ctx, "k", "a b"),
		"UnlockAfter": b.UnlockAfter(ctx, "k", "a", maxTTL+1), "UnlockAfter id": b.UnlockAfter(ctx, "k", "", 1),
	} {
		if !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := b.client.DBSize(ctx).Val(); n != 0 {
		t.Errorf("%d keys were made", n)
	}
}

// TestOneCommandPerOperation counts at the server.
func TestOneCommandPerOperation(t *testing.T) {
	t.Parallel()
	srv, b := open(t)
	ctx := t.Context()
	r := request("a", time.Minute)
	bucket, window := limitOf(t, "100/1s burst=10"), limitOf(t, "100/1s")
	ops := map[string]func() error{
		"TryLock":     func() error { _, err := b.TryLock(ctx, "k", r); return err },
		"Renew":       func() error { _, err := b.Renew(ctx, "k", r); return err },
		"Inspect":     func() error { _, err := b.Inspect(ctx, "k"); return err },
		"Take bucket": func() error { _, err := b.TakeOne(ctx, "k", bucket, driver.Ask{Min: 1, N: 1}); return err },
		"Take window": func() error { _, err := b.Take(ctx, "k", window, []driver.Ask{{Min: 1, N: 1}, {}}); return err },
		"Refund":      func() error { return b.Refund(ctx, "k", window, "x", 1) },
		"Reset":       func() error { return b.Reset(ctx, "k", window) },
		"TakeAll": func() error {
			_, err := b.TakeAll(ctx, []driver.Demand{{Key: "k", Limit: window, N: 1}, {Key: "other", Limit: bucket, N: 1}})
			return err
		},
	}
	must[driver.Grant](t)(b.TryLock(ctx, "k", r))
	for name, op := range ops {
		if err := op(); err != nil { // teaches the server the script
			t.Fatalf("%s: %v", name, err)
		}
		before := srv.Commands()
		if err := op(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		after := srv.Commands()
		sent := after["evalsha"] - before["evalsha"] + after["eval"] - before["eval"] + after["script"] - before["script"]
		if sent != 1 {
			t.Errorf("%s: %d commands", name, sent)
		}
	}
}

func limitOf(t testing.TB, s string) driver.Limit {
	t.Helper()
	l, err := driver.ParseLimit(s)
	if err != nil {
		t.Fatal(err)
	}
	if l, err = l.Normal(); err != nil {
		t.Fatal(err)
	}
	return l
}

// bareUnlock is what an application would write without coord.
var bareUnlock = redis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) else return 0 end`)

func BenchmarkLock(b *testing.B) {
	_, s := open(b)
	r := request("a", time.Minute)
	cancellable, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.Run("bare SET NX PX and EVALSHA", func(b *testing.B) {
		ctx := context.Background()
		b.ReportAllocs()
		for b.Loop() {
			if err := s.client.SetArgs(ctx, "bare", r.ID, redis.SetArgs{Mode: "NX", TTL: time.Minute}).Err(); err != nil {
				b.Fatal(err)
			}
			if err := bareUnlock.Run(ctx, s.client, []string{"bare"}, r.ID).Err(); err != nil {
				b.Fatal(err)
			}
		}
	})
	for name, ctx := range map[string]context.Context{"TryLock and Unlock": context.Background(), "cancellable": cancellable} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.TryLock(ctx, "k", r); err != nil {
					b.Fatal(err)
				}
				if err := s.Unlock(ctx, "k", r.ID); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkTake(b *testing.B) {
	_, s := open(b)
	ctx := context.Background()
	bare := redis.NewScript(`return {1, 0, 0, 0, 0, 0}`)
	b.Run("bare EVALSHA", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := bare.Run(ctx, s.client, []string{"bare"}, 1).Err(); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, limit := range []string{"1000000/1s burst=1000", "1000000/1s fixed-window", "1000000/1s", "1000000/1h"} {
		l := limitOf(b, limit)
		b.Run(limit, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.TakeOne(ctx, "k", l, driver.Ask{Min: 1, N: 1}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
