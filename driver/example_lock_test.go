package driver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
)

// pushing is an adapter of which the examples need a part. It answers for the rest as Unimplemented does.
type pushing struct {
	driver.Unimplemented
	lost func(key, id string, cause error)
}

func (p *pushing) NotifyLost(fn func(key, id string, cause error)) { p.lost = fn }
func (p *pushing) sessionEnded(cause error)                        { p.lost("invoices", "a", cause) }

// RenewAll renews the holds of a; b has none.
func (p *pushing) RenewAll(_ context.Context, holds []driver.Hold) []driver.Renewal {
	out := make([]driver.Renewal, len(holds))
	for i, h := range holds {
		if h.ID == "a" {
			out[i].Grant = driver.Grant{Token: 1, TTL: h.TTL}
		} else {
			out[i].Err = driver.ErrNotHeld
		}
	}
	return out
}

func (p *pushing) Describe(context.Context) (map[string]string, error) {
	return map[string]string{"topology": "one server", "maxmemory-policy": "noeviction"}, nil
}

// A backend says what it is and what it can do.
func ExampleBackend() {
	var b driver.Backend = memory.NewStore().Open()
	defer b.Close()
	info := b.Info()
	fmt.Println(info.Name, info.Claims.Has(driver.Fair), info.Claims.Has(driver.LossPush))
	// Output: memory true false
}

// What an adapter does not write, Unimplemented answers.
func ExampleUnimplemented() {
	s := &pushing{}
	_, err := s.Lock(context.Background(), "invoices", driver.Request{ID: "a", TTL: time.Minute}, func() {})
	fmt.Println(err)
	// Output: not supported by this store
}

// A TTL is brought to the store's range and step by the core, by what Info says.
func ExampleInfo() {
	info := driver.Info{Name: "mystore", MinTTL: 2 * time.Second, TTLStep: time.Second, MaxTTL: time.Hour, Claims: driver.Claims{driver.ScopeHosts}}
	fmt.Println(info.Name, "counts leases in", info.TTLStep, "from", info.MinTTL, "to", info.MaxTTL)
	// Output: mystore counts leases in 1s from 2s to 1h0m0s
}

func ExampleClaims() {
	claims := driver.Claims{driver.PerHoldTTL, driver.Inspect, driver.ScopeHosts}
	fmt.Println(claims.Has(driver.Inspect), claims.Missing(driver.Inspect, driver.Fair))
	fmt.Println(claims.Without(driver.Inspect))
	// Output:
	// true [fair]
	// [per-hold-ttl scope-hosts]
}

// A claim is a word, the same in code, configuration and reports.
func ExampleClaim() {
	fmt.Println(driver.Fair, driver.TokenFailover, len(driver.AllClaims()))
	// Output: fair token-failover 24
}

// One attempt, a renewal, and the end. The core does everything else.
func ExampleLocker() {
	ctx, store := context.Background(), memory.NewStore().Open()
	defer store.Close()
	request := driver.Request{ID: driver.FormatID("worker-1", 4711, time.Unix(0, 0), [16]byte{}), TTL: time.Minute}
	grant, err := store.TryLock(ctx, "invoices", request)
	if err != nil {
		fmt.Println(err)
		return
	}
	again, err := store.Renew(ctx, "invoices", request)
	fmt.Println(again.Token == grant.Token, err)
	fmt.Println(store.Unlock(ctx, "invoices", request.ID))
	fmt.Println(errors.Is(store.Unlock(ctx, "invoices", request.ID), driver.ErrNotHeld))
	// Output:
	// true <nil>
	// <nil>
	// true
}

// A request that is repeated after a lost reply finds what it was granted.
func ExampleRequest() {
	ctx, store := context.Background(), memory.NewStore().Open()
	defer store.Close()
	r := driver.Request{ID: "a", TTL: time.Minute}
	first, err := store.TryLock(ctx, "invoices", r)
	if err != nil {
		fmt.Println(err)
		return
	}
	second, err := store.TryLock(ctx, "invoices", r)
	fmt.Println(first.Token == second.Token, err)
	_, err = store.TryLock(ctx, "invoices", driver.Request{ID: "b", TTL: time.Minute})
	fmt.Println(errors.Is(err, driver.ErrLocked))
	// Output:
	// true <nil>
	// true
}

// The lease is certain until Since plus TTL; the token orders holders.
func ExampleGrant() {
	ctx, store := context.Background(), memory.NewStore().Open()
	defer store.Close()
	g, err := store.TryLock(ctx, "invoices", driver.Request{ID: "a", TTL: time.Minute})
	fmt.Println(g.Token > 0, g.TTL, err)
	// Output: true 1m0s <nil>
}

// A store that knows when the lease in the way ends says so, and still it is ErrLocked.
func ExampleLockedError() {
	var err error = &driver.LockedError{Remaining: 3 * time.Second}
	fmt.Println(errors.Is(err, driver.ErrLocked), driver.Definite(err))
	// Output: true true
}

// A store with a queue of its own is waited at. It tells who waits, and nobody who is granted the key at once.
func ExampleQueuer() {
	ctx, store := context.Background(), memory.NewStore().Open()
	defer store.Close()
	waiting := make(chan string, 1)
	lock := func(id string) error {
		_, err := store.Lock(ctx, "invoices", driver.Request{ID: id, TTL: time.Minute}, func() { waiting <- id })
		return err
	}
	fmt.Println(lock("a"))
	granted := make(chan error)
	go func() { granted <- lock("b") }()
	fmt.Println(<-waiting, "waits")
	fmt.Println(store.Unlock(ctx, "invoices", "a"), <-granted)
	// Output:
	// <nil>
	// b waits
	// <nil> <nil>
}

// MinHold at the store: unlocked, and yet not free.
func ExampleLocker_UnlockAfter() {
	ctx, store := context.Background(), memory.NewStore().Open()
	defer store.Close()
	if _, err := store.TryLock(ctx, "cron", driver.Request{ID: "a", TTL: time.Minute}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(store.UnlockAfter(ctx, "cron", "a", time.Hour))
	_, err := store.TryLock(ctx, "cron", driver.Request{ID: "b", TTL: time.Minute})
	fmt.Println(errors.Is(err, driver.ErrLocked))
	// Output:
	// <nil>
	// true
}

func ExampleOperator_Inspect() {
	ctx, store := context.Background(), memory.NewStore().Open()
	defer store.Close()
	id := driver.FormatID("worker-1", 4711, time.Unix(0, 0), [16]byte{})
	if _, err := store.TryLock(ctx, "invoices", driver.Request{ID: id, TTL: time.Minute}); err != nil {
		fmt.Println(err)
		return
	}
	h, err := store.Inspect(ctx, "invoices")
	fmt.Println(h.Name, h.PID, err)
	// Output: worker-1 4711 <nil>
}

func ExampleOperator_List() {
	ctx, store := context.Background(), memory.NewStore().Open()
	defer store.Close()
	if _, err := store.TryLock(ctx, "jobs/nightly", driver.Request{ID: "a", TTL: time.Minute}); err != nil {
		fmt.Println(err)
		return
	}
	for key, err := range store.List(ctx, "jobs/") {
		fmt.Println(key, err)
	}
	// Output: jobs/nightly <nil>
}

// A hold that is broken is not renewed any more, and the key stays taken.
func ExampleBreaker() {
	ctx, store := context.Background(), memory.NewStore().Open()
	defer store.Close()
	id := driver.FormatID("worker-1", 4711, time.Unix(0, 0), [16]byte{})
	if _, err := store.TryLock(ctx, "invoices", driver.Request{ID: id, TTL: time.Minute}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(store.Break(ctx, "invoices", id))
	_, err := store.Renew(ctx, "invoices", driver.Request{ID: id, TTL: time.Minute})
	fmt.Println(errors.Is(err, driver.ErrNotHeld))
	_, err = store.TryLock(ctx, "invoices", driver.Request{ID: "b", TTL: time.Minute})
	fmt.Println(errors.Is(err, driver.ErrLocked))
	// Output:
	// <nil>
	// true
	// true
}

// An adapter stores the id, and NewHolder reads from it what an operator wants to see.
func ExampleHolder() {
	id := driver.FormatID("worker-1", 4711, time.Unix(1795248902, 0), [16]byte{})
	h := driver.NewHolder(id, 7, 20*time.Second)
	fmt.Println(h.Name, h.PID, h.Since.UTC().Format(time.DateTime), h.TTL)
	// Output: worker-1 4711 2026-11-21 08:15:02 20s
}

func ExampleOperator_Ping() {
	ctx, store := context.Background(), memory.NewStore().Open()
	defer store.Close()
	fmt.Println(store.Ping(ctx))
	// Output: <nil>
}

// A token is a string in JSON, because many readers round large numbers.
func ExampleToken() {
	text, err := json.Marshal(driver.Token(1<<53 + 1))
	fmt.Println(string(text), err)
	var back driver.Token
	fmt.Println(json.Unmarshal(text, &back), back == 1<<53+1)
	// Output:
	// "9007199254740993" <nil>
	// <nil> true
}

// The core tries an Unlock under a context that ends by itself, whatever has become of the caller.
func ExampleBound() {
	caller, cancel := context.WithCancel(context.Background())
	cancel()
	b := driver.NewBound(caller, time.Minute)
	defer b.Stop()
	fmt.Println(caller.Err(), b.Err())
	// Output: context canceled <nil>
}

// A backend registers this under the scheme of its URLs.
func ExampleOpenFunc() {
	var open driver.OpenFunc = func(_ context.Context, u *url.URL) (driver.Backend, error) {
		for name := range u.Query() {
			return nil, fmt.Errorf("%w: parameter %q: want none", driver.ErrInvalid, name)
		}
		return memory.NewStore().Open(), nil
	}
	_, err := open(context.Background(), &url.URL{Scheme: "mystore", RawQuery: "colour=red"})
	fmt.Println(err)
	// Output: invalid argument: parameter "colour": want none
}

// A store that pushes tells of losses, as this one can be made to.
func ExampleLocker_NotifyLost() {
	s := &pushing{}
	s.NotifyLost(func(key, id string, cause error) { fmt.Println("lost", key, id, cause) })
	s.sessionEnded(errors.New("session expired"))
	// Output: lost invoices a session expired
}

// Many holds are renewed in one request; each has an answer of its own.
func ExampleLocker_RenewAll() {
	renewals := (&pushing{}).RenewAll(context.Background(), []driver.Hold{
		{Key: "invoices", Request: driver.Request{ID: "a", TTL: time.Minute}},
		{Key: "prices", Request: driver.Request{ID: "b", TTL: time.Minute}},
	})
	for _, r := range renewals {
		fmt.Println(r.Grant.TTL, r.Err)
	}
	// Output:
	// 1m0s <nil>
	// 0s not held
}

func ExampleRenewal() {
	renewals := (&pushing{}).RenewAll(context.Background(), []driver.Hold{
		{Key: "invoices", Request: driver.Request{ID: "a", TTL: time.Minute}},
		{Key: "prices", Request: driver.Request{ID: "b", TTL: time.Minute}},
	})
	fmt.Println(errors.Is(renewals[1].Err, driver.ErrNotHeld))
	// Output: true
}

func ExampleHold() {
	h := driver.Hold{Key: "invoices", Request: driver.Request{ID: "a", TTL: time.Minute}}
	fmt.Println(h.Key, h.ID, h.TTL)
	// Output: invoices a 1m0s
}

// A store of two servers: a call on one never waits for the other.
func ExampleBackend_Partition() {
	p := servers{"10.0.0.1:11211", "10.0.0.2:11211"}
	fmt.Println(p.Partition("invoices"), p.Partition("price"))
	// Output: 10.0.0.1:11211 10.0.0.2:11211
}

type servers []string

func (s servers) Partition(key string) string { return s[len(key)%len(s)] }

func ExampleOperator_Describe() {
	var d driver.Operator = &pushing{}
	fmt.Println(d.Describe(context.Background()))
	// Output: map[maxmemory-policy:noeviction topology:one server] <nil>
}
