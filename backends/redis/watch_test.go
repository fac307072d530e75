package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// watching is a call of NotifyChanges in another goroutine.
type watching struct {
	changes chan struct{}
	ended   chan error
	stop    context.CancelFunc
}

func watchOf(t *testing.T, b *backend, key string) *watching {
	ctx, cancel := context.WithCancel(t.Context())
	w := &watching{changes: make(chan struct{}, 1), ended: make(chan error, 1), stop: cancel}
	go func() {
		w.ended <- b.Shared().(driver.ChangeNotifier).NotifyChanges(ctx, key, func() { signal(w.changes) })
	}()
	return w
}

// listening returns when the watcher was told that it listens.
func (w *watching) listening(t *testing.T, b *backend) {
	t.Helper()
	hearing(t, b)
	w.told(t, "that it listens")
}

// hearing returns when a watcher of b has its subscription, and nothing unread.
func hearing(t *testing.T, b *backend) {
	t.Helper()
	eventually(t, "that it listens", func() bool {
		b.waiters.mu.Lock()
		defer b.waiters.mu.Unlock()
		for _, waiter := range b.waiters.byNumber {
			if waiter.watches && waiter.sub.up && len(waiter.notified) == 0 {
				return true
			}
		}
		return false
	})
}

// told waits for a change.
func (w *watching) told(t *testing.T, of string) {
	t.Helper()
	select {
	case <-w.changes:
	case err := <-w.ended:
		t.Fatalf("told of %s: ended: %v", of, err)
	case <-time.After(hung):
		t.Fatalf("not told of %s in %v", of, hung)
	}
}

// toldBy makes a change and waits until the watcher is told.
func (w *watching) toldBy(t *testing.T, of string, change func() error) {
	t.Helper()
	select {
	case <-w.changes:
	default:
	}
	if err := change(); err != nil {
		t.Fatal(err)
	}
	w.told(t, of)
}

// end ends the call, and waits for that.
func (w *watching) end(t *testing.T) {
	t.Helper()
	w.stop()
	select {
	case err := <-w.ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("ended: %v", err)
		}
	case <-time.After(hung):
		t.Fatalf("not ended in %v", hung)
	}
}

// TestNotifyChanges: a watcher is told of what lets somebody else be granted, and messages are sent only for that, and
// only while somebody watches.
func TestNotifyChanges(t *testing.T) {
	srv, b := open(t)
	l, ctx := b.Shared(), t.Context()
	published := func() int64 { return srv.Commands()["publish"] }
	take := func(s driver.Share) driver.Request {
		t.Helper()
		r := shares("h", s)
		must[driver.Grant](t)(l.TryLock(ctx, "k", r))
		return r
	}
	watcher := pushed(t, srv)
	first, broken := take(permits(2, 4)), take(permits(1, 4))
	w := watchOf(t, watcher, "k")
	w.listening(t, watcher)
	before := published()
	must[driver.Grant](t)(l.Renew(ctx, "k", first))
	if err := l.(driver.Breaker).Break(ctx, "k", broken.ID); err != nil {
		t.Fatal(err)
	}
	if n := published() - before; n != 0 {
		t.Errorf("%d messages for a renewal and a break", n)
	}
	smaller := first
	smaller.Share = permits(1, 4)
	w.toldBy(t, "fewer permits", func() error { return second(l.Renew(ctx, "k", smaller)) })
	w.toldBy(t, "an unlock", func() error { return l.Unlock(ctx, "k", first.ID) })
	head := shares("head", writer)
	head.Share.Head = true
	if _, err := l.TryLock(ctx, "k", head); !errors.Is(err, driver.ErrLocked) {
		t.Errorf("beside what was broken: %v, want ErrLocked", err)
	}
	w.toldBy(t, "a head that leaves", func() error { return l.Unlock(ctx, "k", head.ID) })
	if n := published() - before; n != 3 {
		t.Errorf("%d messages, want 3", n)
	}
	w.end(t)
	eventually(t, "that its entry is gone", func() bool { return !b.client.HExists(ctx, sharedKey("k"), " watch").Val() })
	before = published()
	r := take(permits(1, 4))
	if err := l.Unlock(ctx, "k", r.ID); err != nil {
		t.Fatal(err)
	}
	if n := published() - before; n != 0 {
		t.Errorf("%d messages that nobody wants", n)
	}
}

// TestNotifyChangesAfterReconnect: what happened while the connection was away is told when it is back, and so is what
// comes then.
func TestNotifyChangesAfterReconnect(t *testing.T) {
	srv, b := open(t)
	l, ctx := b.Shared(), t.Context()
	watcher := pushed(t, srv) // no registration is repeated
	w := watchOf(t, watcher, "k")
	w.listening(t, watcher)
	w.toldBy(t, "a new connection", func() error { return b.client.Do(ctx, "CLIENT", "KILL", "TYPE", "pubsub").Err() })
	hearing(t, watcher)
	r := shares("h", writer)
	must[driver.Grant](t)(l.TryLock(ctx, "k", r))
	w.toldBy(t, "an unlock", func() error { return l.Unlock(ctx, "k", r.ID) })

	// Its entry is lost with the data: it is made again with the next registration.
	watcher.waiters.every = 20 * time.Millisecond
	w.end(t)
	again := watchOf(t, watcher, "k")
	again.listening(t, watcher)
	again.toldBy(t, "a loss of the data", func() error { return b.client.FlushDB(ctx).Err() })
	must[driver.Grant](t)(l.TryLock(ctx, "k", r))
	again.toldBy(t, "an unlock", func() error { return l.Unlock(ctx, "k", r.ID) })
	again.end(t)
}

// TestNotifyChangesEnds: with the backend, and where the user may not publish or subscribe. Who may not publish unlocks
// all the same.
func TestNotifyChangesEnds(t *testing.T) {
	srv, admin := open(t)
	ctx := t.Context()
	b := connect(t, srv.Addr)
	w := watchOf(t, b, "k")
	w.listening(t, b)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-w.ended; !errors.Is(err, driver.ErrClosed) {
		t.Errorf("after Close: %v, want ErrClosed", err)
	}
	watched := watchOf(t, admin, "k")
	watched.listening(t, admin)
	for name, rules := range map[string][]any{
		"channels": {"resetchannels"}, "publish": {"-publish"}, "subscribe": {"-subscribe"},
	} {
		rules = append([]any{"ACL", "SETUSER", name, "on", ">p", "~*", "&*", "+@all"}, rules...)
		if err := admin.client.Do(ctx, rules...).Err(); err != nil {
			t.Fatal(err)
		}
		o := clientOptions(srv.Addr)
		o.Username, o.Password = name, "p"
		b := connectWith(t, o)
		if !b.Info().Claims.Has(driver.Shared) || b.Info().Claims.Has(driver.Wake) != (name == "subscribe") {
			t.Errorf("without %s: claims %v", name, b.Info().Claims)
		}
		if err := <-watchOf(t, b, "k").ended; !errors.Is(err, driver.ErrUnsupported) {
			t.Errorf("without %s: %v, want ErrUnsupported", name, err)
		}
		r := shares("h", writer)
		must[driver.Grant](t)(b.Shared().TryLock(ctx, "k", r))
		if err := b.Shared().Unlock(ctx, "k", r.ID); err != nil {
			t.Errorf("without %s: unlock: %v", name, err)
		}
	}
	watched.end(t)
}

// TestNotifyChangesOnACluster: a watcher is told by the master that has the key, and still after its slot has moved.
func TestNotifyChangesOnACluster(t *testing.T) {
	c := testserver.RedisCluster(t, 0, silently)
	holder, watcher := connectTo(t, clusterClient(c, nil)), connectTo(t, clusterClient(c, nil))
	l, ctx := holder.Shared(), t.Context()
	w := watchOf(t, watcher, "k")
	w.listening(t, watcher)
	slot := c.RedisSlot(sharedKey("k"))
	if n := listeners(t, c.RedisMaster(slot)); n != 1 {
		t.Errorf("%d connections listen to the master of the key", n)
	}
	r := shares("h", writer)
	told := func(stage string) {
		t.Helper()
		must[driver.Grant](t)(l.TryLock(ctx, "k", r))
		w.toldBy(t, "an unlock "+stage, func() error { return l.Unlock(ctx, "k", r.ID) })
	}
	told("before")
	target := otherMaster(c, slot)
	move := c.BeginRedisMove(slot, target)
	told("when its slot begins to move")
	move.Keys()
	told("on its way")
	move.End()
	told("after it moved")
	watcher.cluster.ReloadState(ctx)
	eventually(t, "that it listens to the new master", func() bool { return listeners(t, target) == 1 })
	told("by the new master")
	w.end(t)
}

// TestWatchEntries: an entry that is not renewed goes after 16 seconds, also where the clock was set back, and there are
// 64 at most.
func TestWatchEntries(t *testing.T) {
	_, b := open(t)
	injectSharedClock(t, b)
	ctx, now := t.Context(), int64(1_790_000_000_000_000)
	note := func(who, stays string) int64 {
		t.Helper()
		return must[int64](t)(b.run(ctx, at(ctx, b.shared.watch.command(ctx, sharedKey("k"), who, stays), now)).integer())
	}
	entries := func() int { return strings.Count(b.client.HGet(ctx, sharedKey("k"), " watch").Val(), "coord:wake:") }
	if n := note("1 coord:wake:a", "1"); n != 0 {
		t.Errorf("a new entry: %d", n)
	}
	now += 15_999_999
	if n := note("1 coord:wake:a", "1"); n != 1 {
		t.Errorf("one that was there: %d", n)
	}
	now += 15_999_999
	note("2 coord:wake:a", "1")
	if entries() != 2 {
		t.Errorf("%d entries, want 2", entries())
	}
	now++
	note("2 coord:wake:a", "1")
	if entries() != 1 {
		t.Errorf("%d entries, want the second alone", entries())
	}
	now -= 3600_000_000
	note("3 coord:wake:a", "1")
	now += 16_000_000
	note("4 coord:wake:a", "1")
	if entries() != 1 {
		t.Errorf("%d entries after the clock was set back, want the last alone", entries())
	}
	for i := range 63 {
		note(fmt.Sprint(100+i, " coord:wake:a"), "1")
	}
	if n := note("5 coord:wake:a", "1"); n != -1 || entries() != 64 {
		t.Errorf("the 65th: %d, %d entries", n, entries())
	}
	if n := note("4 coord:wake:a", "1"); n != 1 {
		t.Errorf("one of 64: %d", n)
	}
	for i := range 63 {
		note(fmt.Sprint(100+i, " coord:wake:a"), "0")
	}
	if note("4 coord:wake:a", "0"); b.client.Exists(ctx, sharedKey("k")).Val() != 0 {
		t.Error("something is left")
	}
	note("5 coord:wake:a", "1")
	if left := b.client.PTTL(ctx, sharedKey("k")).Val(); left < 16*time.Second || left > time.Minute {
		t.Errorf("expires in %v", left)
	}
	b.client.HSet(ctx, sharedKey("k"), " watch", "2 x")
	if _, err := b.run(ctx, at(ctx, b.shared.watch.command(ctx, sharedKey("k"), "6 coord:wake:a", "1"), now)).integer(); !errors.Is(err, driver.ErrCorrupt) {
		t.Errorf("beside another version: %v, want ErrCorrupt", err)
	}
}
