package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// scriptsRun counts the scripts that all nodes have run.
func scriptsRun(c *testserver.Cluster) (n int64) {
	for _, s := range c.Nodes {
		counts := s.Commands()
		n += counts["evalsha"] + counts["eval"]
	}
	return n
}

// other gives a master that is not s.
func other(c *testserver.Cluster, s *testserver.Server) *testserver.Server {
	for _, o := range c.Nodes {
		if o != s {
			return o
		}
	}
	return nil
}

// TestNightlyTrap01LostReplyOnACluster: the client of a cluster, which sends commands again
// where they were redirected, sends none again whose reply was lost: not a single one,
// not one of a batch, and not one that it followed an ASK for.
func TestNightlyTrap01LostReplyOnACluster(t *testing.T) {
	t.Parallel()
	c := testserver.RedisCluster(t, 0, silently)
	w := newWire(t)
	o := clusterOptions(c, w)
	o.MaxRetries, o.MaxRedirects = 3, 8
	b, direct := connectTo(t, redis.NewClusterClient(o)), connectTo(t, clusterClient(c, nil))
	ctx := t.Context()
	key := "k"
	lost := func(what string, op func() error) {
		t.Helper()
		before := scriptsRun(c)
		w.proxy.DropReply()
		if err := op(); err == nil || driver.Definite(err) {
			t.Errorf("%s: %v, want an unknown outcome", what, err)
		}
		w.proxy.Heal()
		if n := scriptsRun(c) - before; n != 1 {
			t.Errorf("%s: run %d times, want once", what, n)
		}
	}
	r := request("a", time.Minute)
	must[driver.Grant](t)(b.TryLock(ctx, key, r)) // the script is known, the connection there
	if err := b.Unlock(ctx, key, r.ID); err != nil {
		t.Fatal(err)
	}
	lost("TryLock", func() error { _, err := b.TryLock(ctx, key, r); return err })
	first := must[driver.Grant](t)(direct.TryLock(ctx, key, r))
	if again := must[driver.Grant](t)(b.TryLock(ctx, key, r)); again.Token != first.Token {
		t.Errorf("tokens %d and %d for one hold", first.Token, again.Token)
	}
	batch := func() error { return b.RenewAll(ctx, []driver.Hold{{Key: key, Request: r}})[0].Err }
	if err := batch(); err != nil { // batches have connections of their own
		t.Fatal(err)
	}
	lost("RenewAll", batch)
	lost("Renew, in the caller's goroutine", func() error {
		bound := driver.NewBound(ctx, 500*time.Millisecond)
		defer bound.Stop()
		_, err := b.Renew(bound, key, r)
		return err
	})
	must[driver.Grant](t)(b.Renew(ctx, key, r))
	lost("Unlock", func() error { return b.Unlock(ctx, key, r.ID) })
	if err := b.Unlock(ctx, key, r.ID); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("repeated Unlock: %v", err)
	}

	// Both keys of a hold have moved, the slot has not: ASK.
	must[driver.Grant](t)(b.TryLock(ctx, key, r))
	slot := c.RedisSlot(lockKey(key))
	target := other(c, c.RedisMaster(slot))
	move := c.BeginRedisMove(slot, target)
	move.Keys()
	must[driver.Grant](t)(b.Renew(ctx, key, r)) // there is a connection to the target
	before := target.Commands()["evalsha"] + target.Commands()["eval"]
	w.loseFrom(target)
	if _, err := b.Renew(ctx, key, r); err == nil || driver.Definite(err) {
		t.Errorf("after ASK: %v, want an unknown outcome", err)
	}
	if n := target.Commands()["evalsha"] + target.Commands()["eval"] - before; n != 1 {
		t.Errorf("after ASK: run %d times, want once", n)
	}
	move.End()
	must[driver.Grant](t)(b.Renew(ctx, key, r))
}

// TestNightlyTrap03ScriptFlushOnACluster: each node that has forgotten the script learns it
// within a batch over all of them.
func TestNightlyTrap03ScriptFlushOnACluster(t *testing.T) {
	t.Parallel()
	c := testserver.RedisCluster(t, 0, silently)
	b := connectTo(t, clusterClient(c, nil))
	ctx := t.Context()
	var holds []driver.Hold
	masters := map[*testserver.Server]bool{}
	for i := range 30 {
		h := driver.Hold{Key: fmt.Sprint("k", i), Request: request("a", time.Minute)}
		must[driver.Grant](t)(b.TryLock(ctx, h.Key, h.Request))
		holds = append(holds, h)
		masters[c.RedisMaster(c.RedisSlot(lockKey(h.Key)))] = true
	}
	if len(masters) != 3 {
		t.Fatalf("the holds are on %d masters", len(masters))
	}
	if err := b.cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return node.ScriptFlush(ctx).Err() }); err != nil {
		t.Fatal(err)
	}
	for i, r := range b.RenewAll(ctx, holds) {
		if r.Err != nil || r.Grant.Token <= 0 {
			t.Errorf("%s: %+v", holds[i].Key, r)
		}
	}
	// From now on one round trip to each master, and one run of each renewal.
	before := scriptsRun(c)
	for i, r := range b.RenewAll(ctx, holds) {
		if r.Err != nil {
			t.Errorf("%s: %v", holds[i].Key, r.Err)
		}
	}
	if n := scriptsRun(c) - before; n != 30 {
		t.Errorf("%d renewals were run, want 30", n)
	}
}

// TestTrap04OneSlot: on a cluster the keys of a name are in one slot, and several limits
// can be taken at once of one name only.
func TestTrap04OneSlot(t *testing.T) {
	t.Parallel()
	c := testserver.RedisCluster(t, 0, silently)
	b := connectTo(t, clusterClient(c, nil))
	ctx := t.Context()
	for _, name := range []string{"a", "{a}b", "a}", "{", "{}", "x{y}z", strings.Repeat("n", 1300)} {
		r := request("a", time.Minute)
		must[driver.Grant](t)(b.TryLock(ctx, name, r))
		must[driver.Grant](t)(b.Renew(ctx, name, r))
		if err := b.Unlock(ctx, name, r.ID); err != nil {
			t.Error(err)
		}
	}
	second, minute := limitOf(t, "10/1s"), limitOf(t, "20/1m burst=20")
	taken := must[[]driver.Taken](t)(b.TakeAll(ctx, []driver.Demand{{Key: "k", Limit: second, N: 3}, {Key: "k", Limit: minute, N: 4}}))
	if taken[0].Remaining != 7 || taken[1].Remaining != 16 {
		t.Errorf("%+v", taken)
	}
	_, err := b.TakeAll(ctx, []driver.Demand{{Key: "k", Limit: second, N: 1}, {Key: "other", Limit: second, N: 1}})
	if !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("two slots: %v, want ErrUnsupported", err)
	}
	if info := b.Info(); info.Claims.Has(driver.AtomicMulti) || !strings.HasSuffix(info.Server, " cluster") {
		t.Errorf("%+v", info)
	}
}

// TestNightlyTrap05Redirected: MOVED and ASK in the middle of an acquisition come to one
// acquisition. A slot whose keys are on both sides is TRYAGAIN, which passes or is told
// as not done.
func TestNightlyTrap05Redirected(t *testing.T) {
	t.Parallel()
	c := testserver.RedisCluster(t, 0, silently)
	ctx := t.Context()
	slot := c.RedisSlot(lockKey("k"))
	r := request("a", time.Minute)

	// Both clients learn where the slot is, and then it moves.
	stale, staleToo := connectTo(t, clusterClient(c, nil)), connectTo(t, clusterClient(c, nil))
	c.BeginRedisMove(slot, other(c, c.RedisMaster(slot))).End()
	first := must[driver.Grant](t)(stale.TryLock(ctx, "k", r))
	if _, err := staleToo.TryLock(ctx, "k", request("b", time.Minute)); !errors.Is(err, driver.ErrLocked) {
		t.Errorf("MOVED: %v, want ErrLocked", err)
	}

	c.BeginRedisMove(slot, other(c, c.RedisMaster(slot))).End()
	bound := driver.NewBound(ctx, 500*time.Millisecond)
	defer bound.Stop()
	if g := must[driver.Grant](t)(stale.Renew(bound, "k", r)); g.Token != first.Token {
		t.Errorf("MOVED, in the caller's goroutine: token %d, want %d", g.Token, first.Token)
	}

	// On its way: the hold is on the one side or the other, and never on both.
	source := c.RedisMaster(slot)
	move := c.BeginRedisMove(slot, other(c, source))
	if again := must[driver.Grant](t)(stale.TryLock(ctx, "k", r)); again.Token != first.Token {
		t.Errorf("before its keys move: token %d, want %d", again.Token, first.Token)
	}
	move.Keys()
	if again := must[driver.Grant](t)(stale.TryLock(ctx, "k", r)); again.Token != first.Token {
		t.Errorf("ASK: token %d, want %d", again.Token, first.Token)
	}
	if _, err := staleToo.TryLock(ctx, "k", request("b", time.Minute)); !errors.Is(err, driver.ErrLocked) {
		t.Errorf("ASK: %v, want ErrLocked", err)
	}
	if err := stale.Unlock(ctx, "k", r.ID); err != nil {
		t.Errorf("ASK: Unlock: %v", err)
	}
	// Of a free lock the new master has one key of two.
	if _, err := stale.TryLock(ctx, "k", r); !errors.Is(err, driver.ErrNotSent) || !redis.IsTryAgainError(err) {
		t.Errorf("TRYAGAIN: %v, want ErrNotSent", err)
	}
	// A ctx that ends meanwhile ends the tries, between two of them or within one.
	promptly(t, func() error {
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		_, err := stale.TryLock(short, "k", r)
		return err
	})
	done := make(chan error, 1)
	go func() { _, err := stale.TryLock(ctx, "k", r); done <- err }()
	move.End()
	if err := <-done; err != nil {
		t.Errorf("TRYAGAIN, until the move ended: %v", err)
	}
	if g := must[driver.Grant](t)(staleToo.Renew(ctx, "k", r)); g.Token <= first.Token {
		t.Errorf("token %d after %d", g.Token, first.Token)
	}
}
