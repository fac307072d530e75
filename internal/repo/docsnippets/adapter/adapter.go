// Package adapter is the adapter that docs/writing-an-adapter.md writes.
package adapter

import (
	"context"
	"fmt"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/cas"
	"github.com/coordgo/coord/internal/repo/docsnippets/adapter/kv"
)

// Claims are what the store promises.
var Claims = driver.Claims{
	driver.PerHoldTTL, driver.Inspect, driver.Break, driver.Shared, driver.MinHoldAfterExit,
	driver.TokenProcess, driver.TokenClockSeeded,
	driver.NoEviction, driver.ServerClock, driver.Reserve, driver.ScopeHosts,
}

// New opens the store at addr.
func New(addr string) driver.Backend {
	return cas.New(driver.Info{
		Name:    "kv",
		MinTTL:  10 * time.Millisecond,
		TTLStep: time.Millisecond,
		MaxTTL:  driver.MaxPer,
		Claims:  Claims,
	}, cas.Optimistic(versions{newClient(addr)}))
}

// versions is the store as package cas wants it: cas.Versions[uint64].
type versions struct{ c *client }

// key names a cell: different names have different keys. The state has no slash, so the
// second slash ends it, and whatever follows is the application's key.
func key(n cas.Name) string { return n.Kind.String() + "/" + n.State + "/" + n.Key }

// Load reads a cell.
func (v versions) Load(ctx context.Context, n cas.Name) (cas.Loaded[uint64], error) {
	r, err := v.get(ctx, key(n))
	return cas.Loaded[uint64]{Value: r.Value, Version: r.Revision, Now: r.Now}, err
}

// get may be repeated, as it changes nothing: a connection may have died while it was idle.
func (v versions) get(ctx context.Context, key string) (kv.Reply, error) {
	r, err := v.c.call(ctx, kv.Request{Op: "get", Key: key})
	if err != nil && ctx.Err() == nil {
		r, err = v.c.call(ctx, kv.Request{Op: "get", Key: key})
	}
	return r, err
}

// CompareAndSwap is never repeated: if its reply is lost, nobody knows whether it was made, and
// the error says so by being none of driver's.
func (v versions) CompareAndSwap(ctx context.Context, n cas.Name, revision uint64, c cas.Change) (bool, error) {
	r, err := v.c.call(ctx, kv.Request{Op: "swap", Key: key(n), Value: c.Value, Revision: revision, TTL: c.Keep})
	return r.Swapped, err
}

// Ping makes a round trip.
func (v versions) Ping(ctx context.Context) error {
	if _, err := v.get(ctx, "ping"); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	return nil
}

// Close ends calls under way and gives the connections back.
func (v versions) Close() error {
	v.c.close()
	return nil
}
