package redis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// shares makes a request for a shared hold.
func shares(name string, s driver.Share) driver.Request {
	return driver.Request{ID: newID(name), TTL: time.Minute, Share: s}
}

var (
	reader = driver.Share{Mode: driver.Read}
	writer = driver.Share{Mode: driver.Write}
)

func permits(weight, of int64) driver.Share {
	return driver.Share{Mode: driver.Permits, Weight: weight, Of: of}
}

// TestSharedOfAnotherVersion: what is in the place of shared holds and is not ours, or of a later version, is told, and
// left.
func TestSharedOfAnotherVersion(t *testing.T) {
	t.Parallel()
	b := shared(t)
	l, ctx := b.Shared(), t.Context()
	r := shares("a", reader)
	must[driver.Grant](t)(l.TryLock(ctx, "k", r))
	good := b.client.HGetAll(ctx, sharedKey("k")).Val()
	for what, spoil := range map[string]func(h map[string]string) (own bool){
		"a hold of version 1":    func(h map[string]string) bool { h[r.ID] = "\x01" + h[r.ID][1:]; return true },
		"a hold cut short":       func(h map[string]string) bool { h[r.ID] = h[r.ID][:20]; return true },
		"a hold of another mode": func(h map[string]string) bool { h[r.ID] = "\x02\x04" + h[r.ID][2:]; return true },
		"an empty hold":          func(h map[string]string) bool { h[r.ID] = ""; return true },
		"another's hold":         func(h map[string]string) bool { h["x"] = "\x01"; return false },
		"a token of version 1":   func(h map[string]string) bool { h[" token"] = "\x01" + h[" token"][1:]; return false },
		"a token that is none":   func(h map[string]string) bool { h[" token"] = "\x02"; return false },
		"a head of version 1":    func(h map[string]string) bool { h[" head"] = "\x0123456789x"; return false },
		"sums of version 1":      func(h map[string]string) bool { h[" sums"] = "\x01" + strings.Repeat("x", 48); return false },
		"an unknown field":       func(h map[string]string) bool { h[" tomorrow"] = "\x02"; return false },
		"somebody's":             func(h map[string]string) bool { clear(h); h["color"] = "red"; return false },
	} {
		hash := maps.Clone(good)
		own := spoil(hash)
		b.client.Del(ctx, sharedKey("k"))
		if err := b.client.HSet(ctx, sharedKey("k"), hash).Err(); err != nil {
			t.Fatal(err)
		}
		for op, err := range map[string]error{
			"TryLock":     second(l.TryLock(ctx, "k", shares("b", reader))),
			"own TryLock": second(l.TryLock(ctx, "k", r)),
			"Holders":     second(l.Holders(ctx, "k")),
		} {
			if !errors.Is(err, driver.ErrCorrupt) && !(op == "Holders" && what == "a token that is none") {
				t.Errorf("%s beside %s: %v, want ErrCorrupt", op, what, err)
			}
		}
		if own {
			for op, err := range map[string]error{
				"Renew":  second(l.Renew(ctx, "k", r)),
				"Unlock": l.Unlock(ctx, "k", r.ID),
				"Break":  l.Break(ctx, "k", r.ID),
			} {
				if !errors.Is(err, driver.ErrCorrupt) {
					t.Errorf("%s of %s: %v, want ErrCorrupt", op, what, err)
				}
			}
		}
		if got := b.client.HGetAll(ctx, sharedKey("k")).Val(); !maps.Equal(got, hash) {
			t.Errorf("%s: %q is left of %q", what, got, hash)
		}
	}
	b.client.Del(ctx, sharedKey("k"))
	b.client.Set(ctx, sharedKey("k"), "x", 0)
	for op, err := range map[string]error{
		"TryLock": second(l.TryLock(ctx, "k", r)), "Renew": second(l.Renew(ctx, "k", r)), "Unlock": l.Unlock(ctx, "k", r.ID),
		"Break": l.Break(ctx, "k", r.ID), "Holders": second(l.Holders(ctx, "k")),
	} {
		if !errors.Is(err, driver.ErrCorrupt) {
			t.Errorf("%s of a string: %v, want ErrCorrupt", op, err)
		}
	}
}

// TestSharedAfterTheFormerVersion: all refuse what version 1 has left, and leave it. When it is removed, tokens go on above
// a floor.
func TestSharedAfterTheFormerVersion(t *testing.T) {
	t.Parallel()
	b := shared(t)
	l, ctx := b.Shared(), t.Context()
	last := driver.Token(time.Now().Add(time.Hour).UnixMicro())
	token := "\x01" + string(packed(nil).append(int64(last)))
	if err := b.client.HSet(ctx, sharedKey("k"), " token", token).Err(); err != nil {
		t.Fatal(err)
	}
	_, err := l.TryLock(ctx, "k", shares("a", reader))
	if !errors.Is(err, driver.ErrCorrupt) || !strings.Contains(err.Error(), "another version than 2: stop the clients of the other version") {
		t.Errorf("%v, want ErrCorrupt that says what to do", err)
	}
	if got := b.client.HGetAll(ctx, sharedKey("k")).Val(); !maps.Equal(got, map[string]string{" token": token}) {
		t.Errorf("%q is left", got)
	}
	b.client.Del(ctx, sharedKey("k"))
	held, err := coordOver(t, b, coord.WithTokenFloor(last)).ReadWrite().Write().TryLock(ctx, "k")
	if err != nil || held.Token() <= last {
		t.Errorf("token %v, %v, want one above %d", held, err, last)
	}
}

// TestSharedRefusedLooksOnce: of attempts that are refused the first alone looks at all holds, until one of them is given
// up. Renewals do not make it look again.
func TestSharedRefusedLooksOnce(t *testing.T) {
	t.Parallel()
	srv, b := open(t)
	l, ctx := b.Shared(), t.Context()
	held := make([]driver.Request, 5)
	for i := range held {
		held[i] = shares("a", permits(1, 5))
		must[driver.Grant](t)(l.TryLock(ctx, "k", held[i]))
	}
	looks := func(what string, want int64) {
		t.Helper()
		before := srv.Commands()["hgetall"]
		for _, r := range held {
			for _, share := range []driver.Share{permits(1, 5), permits(4, 8), writer} {
				if _, err := l.TryLock(ctx, "k", shares("b", share)); !errors.Is(err, driver.ErrLocked) {
					t.Errorf("%s: %v, want ErrLocked", what, err)
				}
			}
			must[driver.Grant](t)(l.Renew(ctx, "k", r))
		}
		if n := srv.Commands()["hgetall"] - before; n != want {
			t.Errorf("%s: %d looks at all holds, want %d", what, n, want)
		}
	}
	looks("all taken", 1)
	looks("the same", 0)
	first := held[0]
	held = held[1:]
	if err := l.Unlock(ctx, "k", first.ID); err != nil {
		t.Fatal(err)
	}
	must[driver.Grant](t)(l.TryLock(ctx, "k", shares("c", permits(1, 5))))
	looks("one passed on", 1)
}

// TestSharedRefused: a renewal that no shared hold can be made for, by itself and in a batch, and a fair one.
func TestSharedRefused(t *testing.T) {
	t.Parallel()
	b := shared(t)
	fair := shares("a", reader)
	fair.Fair = true
	for r, want := range map[driver.Request]error{shares("a", permits(4, 3)): driver.ErrInvalid, fair: driver.ErrUnsupported} {
		_, err := b.Shared().TryLock(t.Context(), "k", r)
		_, renewal := b.Shared().Renew(t.Context(), "k", r)
		all := b.Shared().RenewAll(t.Context(), []driver.Hold{{Key: "k", Request: r}})[0].Err
		if !errors.Is(err, want) || !errors.Is(renewal, want) || !errors.Is(all, want) {
			t.Errorf("%+v: %v, %v and %v, want %v", r, err, renewal, all, want)
		}
	}
}

// TestNightlySharedWhileTheSlotMoves: every step goes on while the slot of its key moves to another master, and a watcher is
// told of changes. The next one listens to the new master.
func TestNightlySharedWhileTheSlotMoves(t *testing.T) {
	t.Parallel()
	c := testserver.RedisCluster(t, 0, silently)
	b, watcher := connectTo(t, clusterClient(c, nil)), connectTo(t, clusterClient(c, nil))
	watcher.waiters.every = time.Hour // no registration is repeated
	l, ctx := b.Shared(), t.Context()
	old := shares("old", permits(2, 100))
	first := must[driver.Grant](t)(l.TryLock(ctx, "k", old))
	last := first.Token
	w := watchOf(t, watcher, "k")
	w.told(t, "that it listens")
	slot := c.RedisSlot(sharedKey("k"))
	target := otherMaster(c, slot)
	if n := listeners(t, c.RedisMaster(slot)); n != 1 {
		t.Errorf("%d connections listen to the master of the key", n)
	}
	taken := func(stage string) (unlock func() error) {
		t.Helper()
		r := shares("new", permits(1, 100))
		g, err := l.TryLock(ctx, "k", r)
		if err != nil || g.Token <= last {
			t.Errorf("%s: take: %+v, %v, want a token above %d", stage, g, err, last)
		}
		last = g.Token
		return func() error { return l.Unlock(ctx, "k", r.ID) }
	}
	check := func(stage string) {
		t.Helper()
		w.toldBy(t, "an unlock "+stage, taken(stage))
		if g, err := l.Renew(ctx, "k", old); err != nil || g.Token != first.Token {
			t.Errorf("%s: renew: %+v, %v, want token %d", stage, g, err, first.Token)
		}
		if r := l.RenewAll(ctx, []driver.Hold{{Key: "k", Request: old}})[0]; r.Err != nil || r.Grant.Token != first.Token {
			t.Errorf("%s: renew all: %+v", stage, r)
		}
		if held, err := l.Holders(ctx, "k"); err != nil || len(held) != 1 || held[0].ID != old.ID {
			t.Errorf("%s: held by %+v, %v", stage, held, err)
		}
	}
	check("before")
	move := c.BeginRedisMove(slot, target)
	check("when it begins")
	move.Keys()
	check("on its way")
	move.End()
	check("after it")
	w.end(t)
	eventually(t, "that its client knows the new master", func() bool {
		watcher.cluster.ReloadState(ctx)
		return watcher.part(sharedKey("k")) == target.Addr
	})
	w = watchOf(t, watcher, "k")
	w.told(t, "that it listens to the new master")
	if n := listeners(t, target); n != 1 {
		t.Errorf("%d connections listen to the new master", n)
	}
	check("by the new master")
	w.end(t)

	b.client.Del(ctx, sharedKey("k"))
	fresh := func(stage string) {
		t.Helper()
		if err := taken(stage)(); err != nil {
			t.Errorf("%s: unlock: %v", stage, err)
		}
	}
	move = c.BeginRedisMove(slot, otherMaster(c, slot))
	fresh("a new key when it begins")
	move.Keys()
	fresh("a new key on its way")
	move.End()
	fresh("a new key after it")
}

// TestSharedWait: with replicas to wait for, a hold that does not reach them is given back.
func TestSharedWait(t *testing.T) {
	t.Parallel()
	srv := testserver.Redis(t)
	plain := connect(t, srv.Addr).Shared()
	l := connectTo(t, redis.NewClient(clientOptions(srv.Addr)), WithWaitReplicas(1, 20*time.Millisecond)).Shared()
	ctx := t.Context()
	if _, err := l.TryLock(ctx, "k", shares("a", writer)); !errors.Is(err, driver.ErrNotSent) {
		t.Errorf("TryLock without a replica: %v, want ErrNotSent", err)
	}
	if held := must[[]driver.Holder](t)(plain.Holders(ctx, "k")); len(held) != 0 {
		t.Errorf("held by %+v, want it given back", held)
	}
	r := shares("b", writer)
	must[driver.Grant](t)(plain.TryLock(ctx, "k", r))
	if _, err := l.TryLock(ctx, "k", shares("c", reader)); !errors.Is(err, driver.ErrLocked) {
		t.Errorf("%v, want ErrLocked", err)
	}
	for what, err := range map[string]error{
		"Renew":    second(l.Renew(ctx, "k", r)),
		"RenewAll": l.RenewAll(ctx, []driver.Hold{{Key: "k", Request: r}})[0].Err,
	} {
		if err == nil || driver.Definite(err) {
			t.Errorf("%s without a replica: %v, want an unknown outcome", what, err)
		}
	}
}

// TestSharedRenewAll: the holds of many keys are renewed in few round trips, each with its own answer.
func TestSharedRenewAll(t *testing.T) {
	t.Parallel()
	b := shared(t)
	l, ctx := b.Shared(), t.Context()
	const n = maxBatch + 100
	holds := make([]driver.Hold, n)
	tokens := make([]int64, n)
	for i := range holds {
		holds[i] = driver.Hold{Key: fmt.Sprint("k", i/2), Request: shares("a", permits(2, 4))}
		if i%100 == 99 {
			continue // never taken
		}
		tokens[i] = must[driver.Grant](t)(l.TryLock(ctx, holds[i].Key, holds[i].Request)).Token
		if i%100 == 50 {
			holds[i].Share = permits(1, 4)
		}
	}
	trips := new(pipelineCounter)
	b.client.AddHook(trips)
	for i, r := range l.RenewAll(ctx, holds) {
		if i%100 == 99 {
			if !errors.Is(r.Err, driver.ErrNotHeld) {
				t.Errorf("hold %d: %+v, want ErrNotHeld", i, r)
			}
		} else if r.Err != nil || r.Grant.Token != tokens[i] || r.Grant.TTL < time.Minute || r.Grant.Of != 4 {
			t.Errorf("hold %d: %+v, want token %d", i, r, tokens[i])
		}
	}
	if trips.n > 4 { // two, and as many again for the script that the server does not know
		t.Errorf("%d round trips", trips.n)
	}
	for _, h := range must[[]driver.Holder](t)(l.Holders(ctx, "k25")) {
		if want := map[bool]int64{true: 1, false: 2}[h.ID == holds[50].ID]; h.Weight != want {
			t.Errorf("%s has weight %d, want %d", h.ID, h.Weight, want)
		}
	}
}

// pipelineCounter counts pipelines of scripts: not those that a new connection begins with.
type pipelineCounter struct{ n int }

func (p *pipelineCounter) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (p *pipelineCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (p *pipelineCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if strings.HasPrefix(cmds[0].Name(), "eval") {
			p.n++
		}
		return next(ctx, cmds)
	}
}

// TestSharedExpiry: the hash outlives the last lease by an hour at least, whatever comes after a long lease, and goes
// then. Who is refused does not prolong it.
func TestSharedExpiry(t *testing.T) {
	t.Parallel()
	b := shared(t)
	l, ctx := b.Shared(), t.Context()
	within := func(what string, least, most time.Duration) {
		t.Helper()
		if left := b.client.PTTL(ctx, sharedKey("k")).Val(); left < least || left > most {
			t.Errorf("%s: expires in %v, want %v to %v", what, left, least, most)
		}
	}
	short := shares("short", reader)
	must[driver.Grant](t)(l.TryLock(ctx, "k", short))
	within("a minute's lease", time.Hour+time.Minute, 3*time.Hour)
	long := shares("long", reader)
	long.TTL = 10 * time.Hour
	must[driver.Grant](t)(l.TryLock(ctx, "k", long))
	must[driver.Grant](t)(l.Renew(ctx, "k", short))
	must[driver.Grant](t)(l.TryLock(ctx, "k", shares("third", reader)))
	within("beside a lease of 10 hours", 10*time.Hour+50*time.Minute, 13*time.Hour)
	long.TTL = 20 * time.Hour
	must[driver.Grant](t)(l.Renew(ctx, "k", long))
	within("renewed for 20 hours", 20*time.Hour+50*time.Minute, 23*time.Hour)
	if err := b.client.PExpire(ctx, sharedKey("k"), 22*time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.TryLock(ctx, "k", shares("writer", writer)); !errors.Is(err, driver.ErrLocked) {
		t.Errorf("%v, want ErrLocked", err)
	}
	within("after a refusal", 21*time.Hour, 22*time.Hour)
}

// TestSharedWithoutPermission: a user who lacks a command is told, Check says so, and nothing is left.
func TestSharedWithoutPermission(t *testing.T) {
	t.Parallel()
	srv, admin := open(t)
	ctx := t.Context()
	for _, command := range []string{"hgetall", "hset", "pexpire"} {
		rules := []any{"ACL", "SETUSER", command, "on", ">p", "~*", "&*", "+@all", "-" + command}
		if err := admin.client.Do(ctx, rules...).Err(); err != nil {
			t.Fatal(err)
		}
		o := clientOptions(srv.Addr)
		o.Username, o.Password = command, "p"
		b := connectWith(t, o)
		_, err := b.Shared().TryLock(ctx, "k", shares("a", reader))
		if !errors.Is(err, driver.ErrNotSent) || !strings.Contains(err.Error(), "ACL SETUSER") {
			t.Errorf("without %s: %v, want ErrNotSent and the remedy", command, err)
		}
		if held := must[[]driver.Holder](t)(admin.Shared().Holders(ctx, "k")); len(held) != 0 {
			t.Errorf("without %s: %+v holds", command, held)
		}
		admin.client.Del(ctx, sharedKey("k"))
		for _, f := range must[[]driver.Finding](t)(b.Check(ctx)) {
			if f.Name == "permissions" && strings.Contains(f.Remedy, "+hgetall") != (command == "hgetall") {
				t.Errorf("without %s: %+v", command, f)
			}
		}
	}
}
