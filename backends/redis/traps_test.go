package redis

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/call"
	"github.com/coordgo/coord/driver/limits"
	"github.com/coordgo/coord/internal/testserver"
)

// The traps of locks on Redis, by the numbers under which they are known here.
// Those about clusters and replicas, 1 and 5 to 7 among them, are in cluster_test.go,
// failover_test.go and unreachable_test.go; 13, about wake-ups that are lost, in queue_traps_test.go.

// TestTrap02ContextBounds: a call ends with its ctx, by deadline and by
// cancellation, when the server is stopped, does not answer, or is not there.
func TestTrap02ContextBounds(t *testing.T) {
	t.Parallel()
	srv := testserver.Redis(t)
	o := clientOptions(srv.Addr)
	o.ReadTimeout = 2 * hung
	b := connectWith(t, o)
	l := limitOf(t, "10/1s")
	r := request("a", time.Minute)
	calls := map[string]func(ctx context.Context) error{
		"TryLock": func(ctx context.Context) error { _, err := b.TryLock(ctx, "k", r); return err },
		"Renew":   func(ctx context.Context) error { _, err := b.Renew(ctx, "k", r); return err },
		"Unlock":  func(ctx context.Context) error { return b.Unlock(ctx, "k", r.ID) },
		"Break":   func(ctx context.Context) error { return b.Break(ctx, "k", r.ID) },
		"Inspect": func(ctx context.Context) error { _, err := b.Inspect(ctx, "k"); return err },
		"TakeOne": func(ctx context.Context) error { _, err := b.TakeOne(ctx, "k", l, driver.Ask{N: 1}); return err },
		"Refund":  func(ctx context.Context) error { return b.Refund(ctx, "k", l, "id", 1) },
		"Reset":   func(ctx context.Context) error { return b.Reset(ctx, "k", l) },
		"TakeAll": func(ctx context.Context) error {
			_, err := b.TakeAll(ctx, []driver.Demand{{Key: "k", Limit: l, N: 1}})
			return err
		},
		"Ping":     b.Ping,
		"RenewAll": func(ctx context.Context) error { return b.RenewAll(ctx, []driver.Hold{{Key: "k", Request: r}})[0].Err },
	}
	ctxs := map[string]func() (context.Context, func()){
		"a deadline": func() (context.Context, func()) { return context.WithTimeout(t.Context(), 50*time.Millisecond) },
		"a bound": func() (context.Context, func()) {
			bound := driver.NewBound(t.Context(), 50*time.Millisecond)
			return bound, bound.Stop
		},
		"a cancellation": func() (context.Context, func()) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(50*time.Millisecond, cancel)
			return ctx, cancel
		},
	}
	// bounded makes calls at once on a server that is silent.
	bounded := func(t *testing.T, calls map[string]func(ctx context.Context) error) {
		t.Helper()
		var wg sync.WaitGroup
		for name, call := range calls {
			for what, make := range ctxs {
				wg.Go(func() {
					promptly(t, func() error {
						ctx, stop := make()
						defer stop()
						err := call(ctx)
						if what == "a cancellation" && !errors.Is(err, context.Canceled) {
							t.Errorf("%s after a cancellation: %v", name, err)
						}
						return err
					})
				})
			}
			// A ctx that has ended does no I/O, and says so.
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := call(ctx); !errors.Is(err, driver.ErrNotSent) || !errors.Is(err, context.Canceled) {
				t.Errorf("%s with a ctx that has ended: %v", name, err)
			}
		}
		wg.Wait()
	}
	t.Run("stopped server", func(t *testing.T) {
		srv.Pause()
		bounded(t, calls)
		srv.Resume()
	})
	t.Run("black hole", func(t *testing.T) {
		hole, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer hole.Close()
		o := clientOptions(hole.Addr().String())
		o.ReadTimeout, o.PoolSize = 2*hung, 1
		client := redis.NewClient(o)
		defer client.Close()
		silent := &backend{client: client, calls: call.New(call.Options{ErrClosing: errClosing}), limits: productionLimits}
		bounded(t, map[string]func(ctx context.Context) error{"Ping": silent.Ping})
	})
}

// promptly checks that a call ends with its ctx, and fails. What would end a call that does not mind its ctx, the client's
// ReadTimeout, is beyond hung.
func promptly(t *testing.T, call func() error) error {
	t.Helper()
	began := time.Now()
	err := call()
	if err == nil {
		t.Error("no error although its ctx ended")
	}
	if took := time.Since(began); took > hung {
		t.Errorf("took %v, to end with its ctx", took)
	}
	return err
}

// TestTrap02NothingListens: a server that is not there is a definite error.
func TestTrap02NothingListens(t *testing.T) {
	t.Parallel()
	srv, b := open(t)
	srv.Kill()
	// The first calls may still find a connection of the pool to break.
	var err error
	for range 20 {
		if _, err = b.TryLock(t.Context(), "k", request("a", time.Second)); errors.Is(err, driver.ErrNotSent) {
			return
		}
	}
	t.Errorf("%v, want ErrNotSent", err)
}

// TestTrap03ScriptFlush: a server that has forgotten the scripts learns them
// within the call, for every script.
func TestTrap03ScriptFlush(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	ctx := t.Context()
	r := request("a", time.Minute)
	bucket, window := limitOf(t, "10/1s burst=10"), limitOf(t, "10/1s")
	for _, op := range []func() error{
		func() error { _, err := b.TryLock(ctx, "k", r); return err },
		func() error { _, err := b.Renew(ctx, "k", r); return err },
		func() error { _, err := b.Inspect(ctx, "k"); return err },
		func() error { return b.UnlockAfter(ctx, "k", r.ID, time.Millisecond) },
		func() error { awaitFree(t, b, "k"); return nil },
		func() error { _, err := b.TryLock(ctx, "k2", r); return err },
		func() error { return b.Unlock(ctx, "k2", r.ID) },
		func() error { _, err := b.Lock(ctx, "k3", r, func() {}); return err },
		func() error { return b.RenewAll(ctx, []driver.Hold{{Key: "k3", Request: r}})[0].Err },
		func() error { return b.Break(ctx, "k3", r.ID) },
		func() error { _, err := b.TakeOne(ctx, "k", bucket, driver.Ask{N: 1}); return err },
		func() error { _, err := b.TakeOne(ctx, "k", window, driver.Ask{N: 1}); return err },
		func() error { return b.Refund(ctx, "k", bucket, "x", 1) },
		func() error { return b.Refund(ctx, "k", window, "x", 1) },
		func() error { return b.Reset(ctx, "k", window) },
		func() error { _, err := b.TakeAll(ctx, []driver.Demand{{Key: "k", Limit: bucket, N: 1}}); return err },
	} {
		if err := b.client.ScriptFlush(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		if err := op(); err != nil {
			t.Error(err)
		}
	}
}

// TestTrap04OneTag: all keys of a name share the tag of that name, braces and
// all, and distinct names have distinct keys.
func TestTrap04OneTag(t *testing.T) {
	t.Parallel()
	names := []string{"a", "ab", "a/b", "A", "{a}", "a}", "}", "{", "a%7D", "a%", "%", "a b", "ü", "a}:fence", "a:fence", "{}", "\x00", strings.Repeat("n", 1300)}
	seen := map[string]string{}
	for _, name := range names {
		checkKeys(t, name)
		lock := lockKey(name)
		if other, dup := seen[lock]; dup {
			t.Errorf("%q and %q share %s", name, other, lock)
		}
		seen[lock] = name
	}
	b := shared(t)
	for _, name := range names {
		must[driver.Grant](t)(b.TryLock(t.Context(), name, request("a", time.Minute)))
	}
}

// checkKeys: every key of name has the same, whole hash tag.
func checkKeys(t *testing.T, name string) {
	t.Helper()
	lock := lockKey(name)
	state := limitKey(name, driver.Limit{Rate: 1, Per: time.Second, Algorithm: driver.SlidingWindow})
	lock2, fence := lockKeys(name)
	if lock2 != lock {
		t.Errorf("lock keys %q and %q", lock, lock2)
	}
	keys := []string{lock, fence, state, state + ":h"}
	for _, k := range keys {
		_, rest, _ := strings.Cut(k, "{")
		tag, _, closed := strings.Cut(rest, "}")
		if !closed || tag == "" || "coord:{"+tag+"}" != lock {
			t.Errorf("key %q of %q has the tag %q", k, name, tag)
		}
	}
	slices.Sort(keys)
	if len(slices.Compact(keys)) != 4 {
		t.Errorf("keys of %q are not distinct: %q", name, keys)
	}
}

func FuzzKeys(f *testing.F) {
	f.Add("a", "a}")
	f.Add("a%7D", "a}")
	f.Add("%25", "%")
	f.Fuzz(func(t *testing.T, a, b string) {
		if a == "" || b == "" {
			return
		}
		checkKeys(t, a)
		if (lockKey(a) == lockKey(b)) != (a == b) {
			t.Errorf("%q and %q: %q and %q", a, b, lockKey(a), lockKey(b))
		}
	})
}

// retryDial repeats op while it fails for lack of a connection.
func retryDial(b *backend, op func() error) error {
	for deadline := time.Now().Add(hung); ; time.Sleep(5 * time.Millisecond) {
		err := op()
		if err == nil || errors.Is(err, driver.ErrNotHeld) || errors.Is(err, driver.ErrLocked) || time.Now().After(deadline) {
			return err
		}
	}
}

// TestTrap09FenceLost: tokens rise when the counter was deleted, when Redis lost
// everything, and when its clock is behind the counter.
func TestTrap09FenceLost(t *testing.T) {
	t.Parallel()
	srv, b := open(t)
	ctx := t.Context()
	next := func() int64 {
		t.Helper()
		r := request("a", time.Minute)
		var g driver.Grant
		if err := retryDial(b, func() (err error) { g, err = b.TryLock(ctx, "k", r); return err }); err != nil {
			t.Fatal(err)
		}
		if err := b.Unlock(ctx, "k", r.ID); err != nil {
			t.Fatal(err)
		}
		return g.Token
	}
	last := next()
	for _, tt := range []struct {
		name string
		lose func()
	}{
		{"deleted", func() { b.client.Del(ctx, "coord:{k}:fence") }},
		{"flushed", func() { b.client.FlushAll(ctx) }},
		{"restart", srv.Restart},
		{"ahead", func() { last += 1e12; b.client.Set(ctx, "coord:{k}:fence", last, time.Hour) }},
	} {
		tt.lose()
		if token := next(); token <= last {
			t.Errorf("%s: token %d after %d", tt.name, token, last)
		} else {
			last = token
		}
	}
	// Deleted under a live hold, the hold goes on.
	r := request("a", time.Minute)
	must[driver.Grant](t)(b.TryLock(ctx, "k", r))
	b.client.Del(ctx, "coord:{k}:fence")
	if g := must[driver.Grant](t)(b.Renew(ctx, "k", r)); g.Token <= 0 {
		t.Errorf("%+v", g)
	}
	// A counter that is out of range or not a number is left alone.
	for _, bad := range []string{"9007199254740992", "x", "-1", ""} {
		b.client.Del(ctx, "coord:{k2}")
		b.client.Set(ctx, "coord:{k2}:fence", bad, time.Hour)
		if _, err := b.TryLock(ctx, "k2", r); !errors.Is(err, driver.ErrCorrupt) {
			t.Errorf("fence %q: %v", bad, err)
		}
	}
}

// TestTrap10Eviction: the probe warns of a server that may evict, and of one
// that it may not ask; a loss is seen at the next renewal.
func TestTrap10Eviction(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		flags []string
		want  string
	}{
		"evicting":   {[]string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}, "evicts keys"},
		"unbounded":  {[]string{"--maxmemory-policy", "allkeys-lru"}, ""},
		"noeviction": {[]string{"--maxmemory", "100mb", "--maxmemory-policy", "noeviction"}, ""},
		"no INFO":    {nil, "may not run INFO"},
	} {
		t.Run(name, func(t *testing.T) {
			srv := testserver.Redis(t, testserver.WithFlags(tt.flags...))
			client := redis.NewClient(clientOptions(srv.Addr))
			defer client.Close()
			if name == "no INFO" {
				if err := client.Do(t.Context(), "ACL", "SETUSER", "default", "-info").Err(); err != nil {
					t.Fatal(err)
				}
			}
			log, text := textLogger()
			b, err := New(client, WithLogger(log))
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			if got := text.String(); strings.Contains(got, "level=WARN") != (tt.want != "") || !strings.Contains(got, tt.want) {
				t.Errorf("logged %q, want %q", got, tt.want)
			}
			if server := b.Info().Server; (server == "") != (name == "no INFO") {
				t.Errorf("server %q", server)
			}
		})
	}
	_, b := open(t)
	r := request("a", time.Minute)
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", r))
	b.client.Del(t.Context(), "coord:{k}")
	if _, err := b.Renew(t.Context(), "k", r); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("%v", err)
	}
}

// TestTrap11RelativeTimes: no script is told the time of a client.
func TestTrap11RelativeTimes(t *testing.T) {
	for _, s := range []*script{acquireScript, waitScript, refreshScript, renewScript, unlockScript, unlockAfterScript, productionLimits.bucket, productionLimits.window} {
		own := "'PXAT', now + ms" // the server's own TIME, and no client's
		if source := strings.ReplaceAll(s.source, own, ""); strings.Contains(source, "PXAT") || strings.Contains(source, "EXPIREAT") {
			t.Errorf("absolute time in %s", source)
		}
	}
}

// TestTrap14Refusals: what the server refuses was not done, and is not "held by
// another".
func TestTrap14Refusals(t *testing.T) {
	t.Parallel()
	srv, b := open(t)
	ctx := t.Context()
	r := request("a", time.Minute)
	l := limitOf(t, "10/1s")
	refused := func(t *testing.T, want string) {
		t.Helper()
		for name, err := range map[string]error{
			"TryLock": func() error { _, err := b.TryLock(ctx, "k", r); return err }(),
			"TakeOne": func() error { _, err := b.TakeOne(ctx, "k", l, driver.Ask{Min: 1, N: 1}); return err }(),
		} {
			if !errors.Is(err, driver.ErrNotSent) || errors.Is(err, driver.ErrLocked) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	config := func(name, value string) {
		t.Helper()
		if err := b.client.ConfigSet(ctx, name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("OOM", func(t *testing.T) {
		config("maxmemory", "1")
		refused(t, "OOM")
		config("maxmemory", "0")
	})
	t.Run("READONLY", func(t *testing.T) {
		if err := b.client.Do(ctx, "REPLICAOF", "127.0.0.1", "1").Err(); err != nil {
			t.Fatal(err)
		}
		refused(t, "READONLY")
		if err := b.client.Do(ctx, "REPLICAOF", "NO", "ONE").Err(); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("NOREPLICAS", func(t *testing.T) {
		config("min-replicas-to-write", "1")
		refused(t, "NOREPLICAS")
		config("min-replicas-to-write", "0")
	})
	t.Run("NOPERM", func(t *testing.T) {
		if err := b.client.Do(ctx, "ACL", "SETUSER", "default", "-evalsha", "-eval").Err(); err != nil {
			t.Fatal(err)
		}
		refused(t, "NOPERM")
		if err := b.client.Do(ctx, "ACL", "SETUSER", "default", "+@all").Err(); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("NOAUTH", func(t *testing.T) {
		config("requirepass", "secret")
		client := redis.NewClient(clientOptions(srv.Addr))
		defer client.Close()
		if _, err := New(client); !errors.Is(err, driver.ErrNotSent) || !strings.Contains(err.Error(), "NOAUTH") {
			t.Errorf("%v", err)
		}
	})
	for _, reply := range []string{"LOADING Redis is loading", "MISCONF no disk", "CLUSTERDOWN slot", "BUSY script", "MASTERDOWN link"} {
		if err := classify(replyError(reply)); !errors.Is(err, driver.ErrNotSent) {
			t.Errorf("%s: %v", reply, err)
		}
	}
	if err := classify(io.EOF); driver.Definite(err) {
		t.Errorf("EOF: %v", err)
	}
}

type replyError string

func (e replyError) Error() string { return string(e) }
func (e replyError) RedisError()   {}

// TestTrap15ForeignKeys: what is not ours is left as it is.
func TestTrap15ForeignKeys(t *testing.T) {
	t.Parallel()
	b := shared(t)
	ctx := t.Context()
	r := request("a", time.Minute)
	bucket, window, long := limitOf(t, "10/1s burst=10"), limitOf(t, "10/1s"), limitOf(t, "10/24h")
	b.client.LPush(ctx, "coord:{list}", "x")
	b.client.Set(ctx, "coord:{string}", "x", 0)
	for _, l := range []driver.Limit{bucket, window} {
		state := limitKey("list", l)
		b.client.LPush(ctx, state, "x")
		state = limitKey("string", l)
		b.client.Set(ctx, state, strings.Repeat("\xff", 64), 0)
		state = limitKey("short", l)
		b.client.Set(ctx, state, "x", 0)
	}
	// A window that is sound up to an older sub-window, which is no number.
	width, _ := limits.Grid(long)
	last := time.Now().UnixMicro()
	damaged := packed("\x01").append(last, 3, last/width-1, 1, last+1e9)
	damaged = binary.LittleEndian.AppendUint64(damaged, math.Float64bits(math.NaN()))
	state := limitKey("damaged", long)
	b.client.Set(ctx, state, []byte(damaged), time.Hour)
	before := b.client.DBSize(ctx).Val()
	check := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, driver.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, key := range []string{"list", "string"} {
		_, err := b.TryLock(ctx, key, r)
		check("TryLock "+key, err)
		_, err = b.Inspect(ctx, key)
		check("Inspect "+key, err)
	}
	_, err := b.Renew(ctx, "list", r)
	check("Renew", err)
	check("Unlock", b.Unlock(ctx, "list", r.ID))
	check("UnlockAfter", b.UnlockAfter(ctx, "list", r.ID, time.Second))
	check("Break", b.Break(ctx, "list", r.ID))
	for _, l := range []driver.Limit{bucket, window} {
		for _, key := range []string{"list", "string", "short"} {
			_, err := b.TakeOne(ctx, key, l, driver.Ask{Min: 1, N: 1})
			check("TakeOne "+key, err)
			check("Refund "+key, b.Refund(ctx, key, l, "x", 1))
			check("Reset "+key, b.Reset(ctx, key, l))
			_, err = b.TakeAll(ctx, []driver.Demand{{Key: "sound", Limit: l, N: 1}, {Key: key, Limit: l, N: 1}})
			check("TakeAll "+key, err)
		}
	}
	_, err = b.TakeOne(ctx, "damaged", long, driver.Ask{Min: 1, N: 1})
	check("TakeOne damaged", err)
	if err := b.Unlock(ctx, "string", r.ID); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("Unlock: %v", err)
	}
	if after := b.client.DBSize(ctx).Val(); after != before {
		t.Errorf("%d keys, before %d", after, before)
	}
	if got := b.client.Get(ctx, "coord:{string}").Val(); got != "x" {
		t.Errorf("changed to %q", got)
	}
}
