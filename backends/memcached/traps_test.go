package memcached

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// The traps of locks on memcached, by the numbers under which they are known here.

// both runs a test over a backend with connections of its own, and over an application's client.
func both(t *testing.T, fn func(t *testing.T, srv *testserver.Server, connect func(addr string) *backend)) {
	t.Run("own", func(t *testing.T) {
		fn(t, testserver.Memcached(t, testserver.WithFlags("-M")), func(addr string) *backend {
			return must[*backend](t)(openURL(t, "memcached://"+addr))
		})
	})
	t.Run("application's", func(t *testing.T) {
		fn(t, testserver.Memcached(t, testserver.WithFlags("-M")), func(addr string) *backend { return connect(t, addr) })
	})
}

// link gives a backend behind a proxy.
func link(t *testing.T, srv *testserver.Server, connect func(string) *backend) (*backend, conformance.Link) {
	t.Helper()
	b, l := conformance.TCPFaults(srv.Addr, func(_ conformance.TB, addr string) driver.Backend { return connect(addr) }).Link(t)
	t.Cleanup(l.Heal)
	return b.(*backend), l
}

// changes counts the commands by which items are changed, as the server counts them.
func changes(srv *testserver.Server) map[string]int64 {
	all, out := srv.Stats(), map[string]int64{}
	for _, name := range []string{"cmd_set", "cmd_touch", "delete_hits", "delete_misses", "cmd_flush", "touch_hits"} {
		out[name] = all[name]
	}
	return out
}

// TestTrap01And04And05ReleaseAndRenewalAreSwaps: a release compares and makes the item expire
// at once, so the key is free with the next command; nothing is deleted or touched.
func TestTrap01And04And05ReleaseAndRenewalAreSwaps(t *testing.T) {
	t.Parallel()
	srv, b := open(t, "-M")
	ctx := t.Context()
	for range 50 {
		r := request("a", time.Minute)
		must[driver.Grant](t)(b.TryLock(ctx, "k", r))
		must[driver.Grant](t)(b.Renew(ctx, "k", r))
		if err := b.Unlock(ctx, "k", r.ID); err != nil {
			t.Fatal(err)
		}
		if got := srv.Text("get " + nameOf("k").key(lockKind)); got[0] != "END" {
			t.Fatalf("after Unlock there is %q", got)
		}
	}
	after := changes(srv)
	for _, name := range []string{"cmd_touch", "touch_hits", "delete_hits", "delete_misses", "cmd_flush"} {
		if after[name] != 0 {
			t.Errorf("%s: %d, want none", name, after[name])
		}
	}
}

// TestTrap02StaleSwap: whoever read the lock before it changed hands swaps nothing, in any of
// the operations.
func TestTrap02StaleSwap(t *testing.T) {
	t.Parallel()
	_, b := open(t, "-M")
	ctx := t.Context()
	for what, fn := range map[string]func(id string) change{
		"renew": func(id string) change {
			return func(v value, now time.Time) (value, int32, error) {
				if v.id != id {
					return v, 0, driver.ErrNotHeld
				}
				return v.extended(held, 60, v.until+1), 62, nil
			}
		},
		"unlock": func(id string) change {
			return func(v value, now time.Time) (value, int32, error) {
				if v.id != id {
					return v, 0, driver.ErrNotHeld
				}
				return v, atOnce, nil
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			old, next := request("old", time.Minute), request("next", time.Minute)
			must[driver.Grant](t)(b.TryLock(ctx, what, old))
			seen := 0
			_, err := (&call{b: b, client: b.client}).replace(nameOf(what), func(v value, now time.Time) (value, int32, error) {
				if seen++; seen == 1 { // between the read and the swap, the lock changes hands
					if err := b.Unlock(ctx, what, old.ID); err != nil {
						t.Fatal(err)
					}
					must[driver.Grant](t)(b.TryLock(ctx, what, next))
				}
				return fn(old.ID)(v, now)
			})
			if !errors.Is(err, driver.ErrNotHeld) || seen != 2 {
				t.Errorf("%v after %d reads, want ErrNotHeld after 2", err, seen)
			}
			must[driver.Grant](t)(b.Renew(ctx, what, next))
		})
	}
}

// TestTrap03SwapOfNothing: a lock that goes between the read and the swap is not held, whatever
// gomemcache calls that.
func TestTrap03SwapOfNothing(t *testing.T) {
	t.Parallel()
	srv, b := open(t, "-M")
	ctx, r := t.Context(), request("a", time.Minute)
	must[driver.Grant](t)(b.TryLock(ctx, "k", r))
	_, err := (&call{b: b, client: b.client}).replace(nameOf("k"), func(v value, now time.Time) (value, int32, error) {
		srv.Text("delete " + nameOf("k").key(lockKind))
		return v.extended(held, 60, v.until+1), 62, nil
	})
	if !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("%v, want ErrNotHeld", err)
	}
	if _, err := b.Renew(ctx, "k", r); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("Renew: %v", err)
	}
	if got := srv.Text("get " + nameOf("k").key(lockKind)); got[0] != "END" {
		t.Errorf("the lock was brought back: %q", got)
	}
}

// TestTrap06ReadsHaveACasID: a renewal is by gets, whose id feeds the swap; the server sees no
// gat.
func TestTrap06ReadsHaveACasID(t *testing.T) {
	t.Parallel()
	srv, b := open(t, "-M")
	ctx, r := t.Context(), request("a", time.Minute)
	must[driver.Grant](t)(b.TryLock(ctx, "k", r))
	before := srv.Stats()
	must[driver.Grant](t)(b.Renew(ctx, "k", r))
	after := srv.Stats()
	for name, want := range map[string]int64{"cmd_get": 1, "cas_hits": 1, "cas_misses": 0, "cas_badval": 0, "get_flushed": 0, "cmd_touch": 0} {
		if got := after[name] - before[name]; got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

// TestTrap07ALeaseLasts: however the lease lies to the server's tick, it lasts what was granted,
// and ends two seconds later at most, by the server's clock.
// Leases begin all over a second.
func TestTrap07ALeaseLasts(t *testing.T) {
	t.Parallel()
	srv, b := open(t, "-M")
	const leases = 20
	var wg sync.WaitGroup
	for i := range leases {
		wg.Go(func() {
			ctx, key := t.Context(), fmt.Sprint("k", i)
			<-time.After(time.Duration(i) * time.Second / leases) // spread over the tick
			g, err := b.TryLock(ctx, key, request("a", time.Second))
			if err != nil {
				t.Error(err)
				return
			}
			granted := srv.Stats()["time"]
			for {
				lasted := time.Duration(0)
				if time.Since(g.Since) > g.TTL+slack*time.Second {
					lasted = time.Duration(srv.Stats()["time"]-granted) * time.Second
				}
				_, err := b.TryLock(ctx, key, request("b", time.Second))
				switch took := time.Since(g.Since); {
				case err == nil && took < g.TTL:
					t.Errorf("a lease of %v was over after %v", g.TTL, took)
					return
				case err == nil:
					return
				case !errors.Is(err, driver.ErrLocked):
					t.Error(err)
					return
				case lasted >= g.TTL+slack*time.Second:
					t.Errorf("a lease of %v lasts after %v, %v of the server's", g.TTL, took, lasted)
					return
				}
				time.Sleep(2 * time.Millisecond) // a poll
			}
		})
	}
	wg.Wait()
}

// TestTrap08NoneIsForEver: no item that coord stores is without an expiry, and the shortest
// lease is no immortal one.
func TestTrap08NoneIsForEver(t *testing.T) {
	t.Parallel()
	srv, b := open(t, "-M")
	ctx := t.Context()
	r := request("a", time.Nanosecond)
	if g := must[driver.Grant](t)(b.TryLock(ctx, "tiny", r)); g.TTL != time.Second {
		t.Errorf("a lease of 1ns is granted as %v", g.TTL)
	}
	year := "/8784h"
	for _, l := range []string{"10" + year, "10" + year + " fixed-window", "1" + year + " burst=5", "5/1ms", "5/1s"} {
		must[driver.TakenOne](t)(b.TakeOne(ctx, "k", limitFrom(t, l), driver.Ask{Min: 1, N: 1}))
	}
	if err := b.UnlockAfter(ctx, "tiny", r.ID, time.Second); err != nil {
		t.Fatal(err)
	}
	items := metadump(t, srv)
	if len(items) < 5 {
		t.Fatalf("only %d items: %v", len(items), items)
	}
	for key, expires := range items {
		if expires == "-1" {
			t.Errorf("%s never expires", key)
		}
	}
	for _, ttl := range []time.Duration{0, -time.Second} {
		if _, err := b.TryLock(ctx, "zero", driver.Request{ID: newID("a"), TTL: ttl}); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("TTL %v: %v", ttl, err)
		}
	}
}

// metadump lists all items and their expiry, as the server knows it: -1 is never.
func metadump(t *testing.T, srv *testserver.Server) map[string]string {
	t.Helper()
	items := map[string]string{}
	for _, line := range srv.Lines("lru_crawler metadump all") {
		fields := map[string]string{}
		for _, f := range strings.Fields(line) {
			k, v, _ := strings.Cut(f, "=")
			fields[k] = v
		}
		items[fields["key"]] = fields["exp"]
	}
	return items
}

// TestTrap09LongLeases: the longest lease is granted and is there, one that memcached would
// take for a date is refused.
func TestTrap09LongLeases(t *testing.T) {
	t.Parallel()
	_, b := open(t, "-M")
	ctx, r := t.Context(), request("a", b.Info().MaxTTL)
	must[driver.Grant](t)(b.TryLock(ctx, "k", r))
	if _, err := b.TryLock(ctx, "k", request("b", time.Minute)); !errors.Is(err, driver.ErrLocked) {
		t.Errorf("beside the longest lease: %v", err)
	}
	if err := b.UnlockAfter(ctx, "k", r.ID, maxTTL+1); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("UnlockAfter: %v", err)
	}
	r.TTL++
	if _, err := b.TryLock(ctx, "k2", r); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("TryLock: %v", err)
	}
	if _, err := b.Renew(ctx, "k", r); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("Renew: %v", err)
	}
}

// TestTrap10LostReplyToAdd: after a reply that was lost the outcome is unknown, and the same id
// finds what it has left, in each step of taking the lock.
func TestTrap10LostReplyToAdd(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, srv *testserver.Server, connect func(string) *backend) {
		direct := connect(srv.Addr)
		b, l := link(t, srv, connect)
		ctx, r := t.Context(), request("a", time.Minute)
		must[driver.Grant](t)(b.TryLock(ctx, "warm", r))
		l.DropReply()
		if _, err := b.TryLock(ctx, "k", r); err == nil || driver.Definite(err) {
			t.Fatalf("lost reply: %v, want an unknown outcome", err)
		}
		if v := must[driver.Holder](t)(direct.Inspect(ctx, "k")); v.ID != r.ID || !v.Released || v.Token < 1 {
			t.Errorf("left behind: %+v", v)
		}
		if _, err := direct.TryLock(ctx, "k", request("b", time.Minute)); !errors.Is(err, driver.ErrLocked) {
			t.Errorf("another id: %v", err)
		}
		if _, err := direct.Renew(ctx, "k", r); !errors.Is(err, driver.ErrNotHeld) {
			t.Errorf("Renew of what has no token: %v", err)
		}
		first := must[driver.Grant](t)(b.TryLock(ctx, "k", r))
		again := must[driver.Grant](t)(direct.TryLock(ctx, "k", r))
		if first.Token != again.Token {
			t.Errorf("tokens %d and %d for one hold", first.Token, again.Token)
		}
		// What has no token can be taken back too.
		l.DropReply()
		if _, err := b.TryLock(ctx, "k2", r); err == nil {
			t.Fatal("lost reply: no error")
		}
		if err := direct.Unlock(ctx, "k2", r.ID); err != nil {
			t.Errorf("Unlock of what has no token: %v", err)
		}
		must[driver.Grant](t)(direct.TryLock(ctx, "k2", request("b", time.Minute)))
	})
}

// TestTrap11Eviction: a lock that is evicted is lost: its renewal says so and does not bring it
// back. With -M a full server refuses, and that is definite.
func TestTrap11Eviction(t *testing.T) {
	t.Parallel()
	fill := func(t *testing.T, srv *testserver.Server, gone func() bool) (refused bool) {
		client := newClient(srv.Addr)
		defer client.Close()
		lock, err := client.Get(nameOf("k").key(lockKind))
		if err != nil {
			t.Fatal(err)
		}
		const batch = 1000
		for i := range 200 { // of the lock's size, so that they want its place
			var sets []string
			for n := range batch {
				sets = append(sets, fmt.Sprintf("set fill%08d 0 0 %d\r\n%s", i*batch+n, len(lock.Value), lock.Value))
			}
			if replies := pipeline(t, srv.Addr, sets); replies[batch-1] != "STORED" {
				return strings.Contains(replies[batch-1], "out of memory")
			}
			if gone() {
				return false
			}
		}
		t.Error("the server is not full")
		return false
	}
	t.Run("evicting", func(t *testing.T) {
		srv, b := open(t, "-m", "2", "-o", "no_lru_crawler")
		ctx, r := t.Context(), request("a", time.Hour)
		must[driver.Grant](t)(b.TryLock(ctx, "k", r))
		fill(t, srv, func() bool { return srv.Stats()["evictions"] > 30_000 })
		if got := srv.Text("get " + nameOf("k").key(lockKind))[0]; got != "END" {
			t.Fatalf("the lock was not evicted: %q", got)
		}
		if _, err := b.Renew(ctx, "k", r); !errors.Is(err, driver.ErrNotHeld) {
			t.Errorf("Renew: %v", err)
		}
		if err := b.Unlock(ctx, "k", r.ID); !errors.Is(err, driver.ErrNotHeld) {
			t.Errorf("Unlock: %v", err)
		}
	})
	t.Run("-M", func(t *testing.T) {
		srv, b := open(t, "-m", "2", "-M")
		ctx, r := t.Context(), request("a", time.Hour)
		must[driver.Grant](t)(b.TryLock(ctx, "k", r))
		if !fill(t, srv, func() bool { return false }) {
			t.Fatal("the server was never full")
		}
		for i := range 100 { // the last places of the slab class
			if _, err := b.TryLock(ctx, fmt.Sprint("other", i), request("b", time.Hour)); err != nil {
				if !errors.Is(err, driver.ErrNotSent) {
					t.Errorf("TryLock on a full server: %v, want ErrNotSent", err)
				}
				if _, err := b.Inspect(ctx, "k"); err != nil {
					t.Errorf("the lock from before: %v", err)
				}
				return
			}
		}
		t.Error("a full server takes more locks")
	})
	// A swap needs room for the new item beside the old one, so that over an application's client nothing
	// that is there can be renewed either, or given up: its lease ends it.
	t.Run("-M, held", func(t *testing.T) {
		_, b := open(t, "-m", "2", "-M")
		ctx, first := t.Context(), request("a", time.Hour)
		must[driver.Grant](t)(b.TryLock(ctx, "k", first))
		for i := 0; ; i++ {
			if _, err := b.TryLock(ctx, fmt.Sprint("fill", i), request("b", time.Hour)); err != nil {
				break
			}
		}
		if _, err := b.Renew(ctx, "k", first); !errors.Is(err, driver.ErrNotSent) {
			t.Errorf("Renew on a full server: %v, want ErrNotSent", err)
		}
		if err := b.Unlock(ctx, "k", first.ID); !errors.Is(err, driver.ErrNotSent) {
			t.Errorf("Unlock on a full server: %v, want ErrNotSent", err)
		}
		if h := must[driver.Holder](t)(b.Inspect(ctx, "k")); h.ID != first.ID || h.Released {
			t.Errorf("the lock is now %+v", h)
		}
	})
}

// eventually repeats a call while it fails without an answer: connections have to break first.
func eventually[T any](call func() (T, error)) (v T, err error) {
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		if v, err = call(); err == nil || answered(err) || time.Since(start) > hung {
			return v, err
		}
	}
}

// TestTrap13ServerForgetsCasIDs: a server that restarts counts its ids again. A swap that was read
// from the one before cannot hit the item that now has its id.
func TestTrap13ServerForgetsCasIDs(t *testing.T) {
	t.Parallel()
	srv := testserver.Memcached(t, testserver.WithFlags("-M"))
	b := must[*backend](t)(openURL(t, "memcached://"+srv.Addr))
	ctx, r := t.Context(), request("a", time.Minute)
	must[driver.Grant](t)(b.TryLock(ctx, "k", r))
	key := nameOf("k").key(lockKind)
	var next value
	_, err := run(ctx, b, nameOf("k"), func(c *call) (value, error) {
		return c.replace(nameOf("k"), func(v value, now time.Time) (value, int32, error) {
			if v.id != r.ID {
				return v, 0, driver.ErrNotHeld
			}
			item, err := newClient(srv.Addr).Get(key)
			if err != nil {
				t.Fatal(err)
			}
			srv.Restart()
			// Another takes the lock, and its item gets the very same id.
			rival := newClient(srv.Addr)
			defer rival.Close()
			next = value{state: held, token: v.token + 1, ttl: 60, until: v.until, id: newID("next")}
			for id := uint64(0); id < item.CasID; {
				if err := rival.Set(&memcache.Item{Key: key, Value: next.bytes(), Expiration: 62}); err != nil {
					t.Fatal(err)
				}
				again, err := rival.Get(key)
				if err != nil {
					t.Fatal(err)
				}
				id = again.CasID
			}
			return v.extended(held, 60, v.until+1), 62, nil
		})
	})
	if err == nil {
		t.Error("the swap was made on the restarted server")
	}
	client := newClient(srv.Addr)
	defer client.Close()
	if item, err := client.Get(key); err != nil || !bytes.Equal(item.Value, next.bytes()) {
		t.Errorf("the other's lock is now %q, %v", item.Value, err)
	}

	// Over the application's client connections cannot be told apart; a read that is old is
	// not swapped on.
	c := &call{b: b, client: client, readAt: time.Now().Add(-3*client.Timeout - 1)}
	if err := c.cas(&memcache.Item{Key: key}); err != memcache.ErrCASConflict || c.touched {
		t.Errorf("a swap on an old read: %v", err)
	}
	limit := limitOf("k", limitFrom(t, "5/1m"))
	must[driver.TakenOne](t)(b.TakeOne(ctx, "k", limit.limit, driver.Ask{Min: 1, N: 1}))
	d := &decision{visit: visit{b: connect(t, srv.Addr), to: limit.name}, n: limit}
	read := &cell{Name: limit.storeKey()}
	load := func() {
		t.Helper()
		if err := d.Load(ctx, []*cell{read}, false); err != nil || read.Version == nil {
			t.Fatal(read.Version, err)
		}
	}
	load()
	d.readAt = time.Now().Add(-3*client.Timeout - 1)
	if swapped, err := d.Swap(ctx, []*cell{read}, d.Now()); swapped || err != nil {
		t.Errorf("a swap of a limit on an old read: %v, %v", swapped, err)
	}
	load()
	if swapped, err := d.Swap(ctx, []*cell{read}, d.Now()); !swapped || err != nil {
		t.Errorf("the next attempt: %v, %v", swapped, err)
	}
}

// A link that is slow takes longer, and that is all: what was read on it is not too old.
func TestTrap13SlowLink(t *testing.T) {
	both(t, func(t *testing.T, srv *testserver.Server, connect func(string) *backend) {
		t.Parallel()
		b, l := link(t, srv, connect)
		l.Delay(300 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), hung)
		defer cancel()
		r := request("a", time.Minute)
		must[driver.Grant](t)(b.TryLock(ctx, "k", r))
		must[driver.Grant](t)(b.Renew(ctx, "k", r))
	})
}

// TestTrap14TokenIsCountedInside: the token is counted while the lock is held, which the swap
// proves: of many that try at once each grant has a token of its own, in the order of grants. And
// one that is overtaken between counting and swapping gets nothing.
func TestTrap14TokenIsCountedInside(t *testing.T) {
	t.Parallel()
	srv, b := open(t, "-M")
	ctx := t.Context()
	var mu sync.Mutex
	var tokens []int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 25 {
				r := request("a", time.Minute)
				g, err := b.TryLock(ctx, "k", r)
				if errors.Is(err, driver.ErrLocked) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				tokens = append(tokens, g.Token)
				mu.Unlock()
				if err := b.Unlock(ctx, "k", r.ID); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if len(tokens) == 0 || !slices.IsSorted(tokens) || len(slices.Compact(slices.Clone(tokens))) != len(tokens) {
		t.Errorf("tokens in the order of grants: %v", tokens)
	}

	// The lock is lost and taken by another just before the swap: at its clock the loser is
	// asked for the new expiry.
	slow := connect(t, srv.Addr)
	calls, other := 0, request("other", time.Minute)
	var got driver.Grant
	slow.clock = func() time.Time {
		if calls++; calls == 4 { // twice to add, to extend, and then for the swap
			srv.Text("delete " + nameOf("k").key(lockKind))
			got = must[driver.Grant](t)(b.TryLock(ctx, "k", other))
		}
		return time.Now()
	}
	if g, err := slow.TryLock(ctx, "k", request("slow", time.Minute)); !errors.Is(err, driver.ErrLocked) {
		t.Errorf("overtaken while it took the lock: %+v, %v", g, err)
	}
	if got.Token == 0 {
		t.Fatal("the lock was never taken by another")
	}
	if g := must[driver.Grant](t)(b.Renew(ctx, "k", other)); g.Token != got.Token {
		t.Errorf("the other's token is %d, was %d", g.Token, got.Token)
	}
}

// A counter that was lost before its time begins with the clock.
func TestTrap14CounterIsSeeded(t *testing.T) {
	t.Parallel()
	srv, b := open(t, "-M")
	ctx := t.Context()
	last := int64(0)
	for range 5 {
		before := time.Now().UnixMicro()
		r := request("a", time.Minute)
		g := must[driver.Grant](t)(b.TryLock(ctx, "k", r))
		if g.Token <= last || g.Token < before || g.Token > time.Now().UnixMicro() {
			t.Errorf("token %d after %d, at %d", g.Token, last, before)
		}
		last = g.Token
		if err := b.Unlock(ctx, "k", r.ID); err != nil {
			t.Fatal(err)
		}
		if got := srv.Text("delete " + nameOf("k").key(fenceKind)); got[0] != "DELETED" {
			t.Fatalf("the counter is not there: %q", got)
		}
	}
}

// TestTrap16Cancellation: a call ends when its ctx is cancelled, though gomemcache does not know of it and the server is
// silent.
func TestTrap16Cancellation(t *testing.T) {
	t.Parallel()
	srv := testserver.Memcached(t, testserver.WithFlags("-M"))
	for name, b := range map[string]*backend{
		"own": patient(t, srv.Addr, listLife, defaultPool), "application's": connect(t, srv.Addr),
	} {
		l, r := limitFrom(t, "10/1s"), request("a", time.Minute)
		calls := map[string]func(ctx context.Context) error{
			"TryLock": func(ctx context.Context) error { _, err := b.TryLock(ctx, "k", r); return err },
			"Renew":   func(ctx context.Context) error { _, err := b.Renew(ctx, "k", r); return err },
			"Unlock":  func(ctx context.Context) error { return b.Unlock(ctx, "k", r.ID) },
			"Break":   func(ctx context.Context) error { return b.Break(ctx, "k", r.ID) },
			"Inspect": func(ctx context.Context) error { _, err := b.Inspect(ctx, "k"); return err },
			"TakeOne": func(ctx context.Context) error { _, err := b.TakeOne(ctx, "k", l, driver.Ask{N: 1}); return err },
			"Refund":  func(ctx context.Context) error { return b.Refund(ctx, "k", l, "id", 1) },
			"Reset":   func(ctx context.Context) error { return b.Reset(ctx, "k", l) },
			"Ping":    b.Ping,
		}
		srv.Pause()
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, len(calls))
		for what, call := range calls {
			go func() {
				err := call(ctx)
				if !errors.Is(err, context.Canceled) {
					t.Errorf("%s, %s connections: %v, want Canceled", what, name, err)
				}
				errs <- err
			}()
		}
		time.AfterFunc(50*time.Millisecond, cancel)
		for range calls {
			select {
			case <-errs:
			case <-time.After(hung):
				t.Fatalf("%s connections: a call goes on after its ctx was cancelled", name)
			}
		}
		srv.Resume()
	}
}

// What was given up over an application's client, and comes through all the same, is taken back.
func TestTrap16LateSuccessIsUndone(t *testing.T) {
	t.Parallel()
	srv := testserver.Memcached(t, testserver.WithFlags("-M"))
	b, direct := connect(t, srv.Addr), connect(t, srv.Addr)
	unknown := 0
	for n := 0; n < 5 || unknown == 0 && n < 12; n++ {
		srv.Pause()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond<<n) // the first may be too short to send anything
		_, err := b.TryLock(ctx, "k", request("late", time.Minute))
		cancel()
		if err == nil {
			t.Fatal("no error though the server is silent")
		}
		if !driver.Definite(err) {
			unknown++
		}
		srv.Resume() // the add is applied now
		for start := time.Now(); ; time.Sleep(time.Millisecond) {
			r := request("next", time.Minute)
			_, err := direct.TryLock(t.Context(), "k", r)
			if err == nil {
				if err := direct.Unlock(t.Context(), "k", r.ID); err != nil {
					t.Fatal(err)
				}
				break
			}
			if time.Since(start) > hung {
				t.Fatalf("the key is still taken: %v", err)
			}
		}
	}
	if unknown == 0 {
		t.Error("no outcome was unknown: nothing was given up after it was sent")
	}
}

// What is undone is what the call itself wrote, and nothing that came of it since.
func TestTrap16UndoTouchesNothingElse(t *testing.T) {
	t.Parallel()
	_, b := open(t, "-M")
	ctx, r := t.Context(), request("a", time.Minute)
	must[driver.Grant](t)(b.TryLock(ctx, "k", r))
	client, n := b.client, nameOf("k")
	late := must[*memcache.Item](t)(client.Get(n.key(lockKind))).Value
	// The same id has asked again, and was told that it holds.
	must[driver.Grant](t)(b.TryLock(ctx, "k", r))
	a := acquisition{call: &call{b: b, client: client}, name: n, id: r.ID}
	if err := a.withdraw(late); err != nil {
		t.Fatal(err)
	}
	must[driver.Grant](t)(b.Renew(ctx, "k", r))
}

// TestTrap17Keys: keys that memcached cannot have are locked all the same, each for itself.
func TestTrap17Keys(t *testing.T) {
	t.Parallel()
	_, b := open(t, "-M")
	long := strings.Repeat("ü", 600)
	keys := []string{
		"a b", "a\nb", "a\r\nget x\r\n", "\x00", " ", strings.Repeat("k", 251), long, long + "x", "ü", "%20", "a",
		long + "\u3000", long + "\u00a0", "\u3000", "\u2028",
	}
	for _, key := range keys {
		r := request("a", time.Minute)
		must[driver.Grant](t)(b.TryLock(t.Context(), key, r))
		if h := must[driver.Holder](t)(b.Inspect(t.Context(), key)); h.ID != r.ID {
			t.Errorf("%.40q is held by %s", key, h.ID)
		}
	}
	// Two keys of one hash: neither is taken for the other.
	n := nameOf(long)
	other := n
	other.full = "another"
	v := value{state: held, token: 1, ttl: 60, until: 1, id: newID("x"), full: other.full}
	if err := b.client.Set(&memcache.Item{Key: n.key(lockKind), Value: v.bytes(), Expiration: 60}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.TryLock(t.Context(), long, request("a", time.Minute)); !errors.Is(err, driver.ErrCorrupt) {
		t.Errorf("a collision: %v", err)
	}
	if _, err := b.Inspect(t.Context(), long); !errors.Is(err, driver.ErrCorrupt) {
		t.Errorf("a collision: %v", err)
	}
}

// TestTrap18NoCAS: a server without compare-and-swap is refused, with the remedy, both ways.
func TestTrap18NoCAS(t *testing.T) {
	t.Parallel()
	srv := testserver.Memcached(t, testserver.WithFlags("-C"))
	_, err := openURL(t, "memcached://"+srv.Addr)
	if !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "-C") {
		t.Errorf("Open: %v", err)
	}
	client := newClient(srv.Addr)
	defer client.Close()
	if _, err := New(client); !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "-C") {
		t.Errorf("New: %v", err)
	}
}

// TestTrap19NoDecrement: decr pads with spaces what it shortens. Nothing is decremented.
func TestTrap19NoDecrement(t *testing.T) {
	t.Parallel()
	srv, b := open(t, "-M")
	use(t, b)
	if err := b.Refund(t.Context(), "k", limitFrom(t, "5/1m"), "x", 1); err != nil {
		t.Fatal(err)
	}
	if s := srv.Stats(); s["decr_hits"]+s["decr_misses"] != 0 || s["incr_misses"] == 0 {
		t.Errorf("decr %d, incr that missed %d", s["decr_hits"]+s["decr_misses"], s["incr_misses"])
	}
}

// What is not coord's is reported as such by every call, and left as it is.
func TestForeignItems(t *testing.T) {
	t.Parallel()
	srv, b := open(t, "-M")
	ctx, r := t.Context(), request("a", time.Minute)
	limit := limitFrom(t, "5/1m")
	foreign := []memcache.Item{
		{Key: nameOf("lock").key(lockKind), Value: []byte("mine")},
		{Key: nameOf("empty").key(lockKind)},
		{Key: nameOf("fence").key(fenceKind), Value: []byte("mine")},
		{Key: limitOf("limit", limit).storeKey(), Value: []byte("mine")},
		{Key: limitOf("cut", limit).storeKey(), Value: []byte(limitHeader + "\n\x01\x01\x05")},
	}
	for _, item := range foreign {
		if err := b.client.Set(&item); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, driver.ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", what, err)
		}
	}
	for _, key := range []string{"lock", "empty"} {
		_, err := b.TryLock(ctx, key, r)
		check("TryLock", err)
		_, err = b.Renew(ctx, key, r)
		check("Renew", err)
		_, err = b.Inspect(ctx, key)
		check("Inspect", err)
		check("Unlock", b.Unlock(ctx, key, r.ID))
		check("UnlockAfter", b.UnlockAfter(ctx, key, r.ID, time.Second))
		check("Break", b.Break(ctx, key, r.ID))
	}
	_, err := b.TryLock(ctx, "fence", r)
	check("TryLock over a counter that is none", err)
	if got := srv.Text("get " + nameOf("fence").key(lockKind)); got[0] != "END" {
		t.Errorf("a definite error has left %q", got)
	}
	for _, key := range []string{"limit", "cut"} {
		_, err := b.TakeOne(ctx, key, limit, driver.Ask{Min: 1, N: 1})
		check("TakeOne", err)
		_, err = b.Take(ctx, key, limit, []driver.Ask{{}})
		check("a peek", err)
		check("Refund", b.Refund(ctx, key, limit, "id", 1))
		check("Reset", b.Reset(ctx, key, limit))
	}
	for _, item := range foreign {
		if got, err := b.client.Get(item.Key); err != nil || !bytes.Equal(got.Value, item.Value) {
			t.Errorf("%s is now %q, %v", item.Key, got.Value, err)
		}
	}
}
