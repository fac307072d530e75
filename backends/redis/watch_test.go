package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
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
		w.ended <- b.Shared().NotifyChanges(ctx, key, func() { signal(w.changes) })
	}()
	return w
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
	t.Parallel()
	srv, b := open(t)
	l, ctx := b.Shared(), t.Context()
	published := func() int64 { return srv.Commands()["publish"] }
	take := func(s driver.Share) driver.Request {
		t.Helper()
		r := shares("h", s)
		must[driver.Grant](t)(l.TryLock(ctx, "k", r))
		return r
	}
	watcher := pushed(t, b)
	first, broken := take(permits(2, 4)), take(permits(1, 4))
	w := watchOf(t, watcher, "k")
	w.told(t, "that it listens")
	before := published()
	must[driver.Grant](t)(l.Renew(ctx, "k", first))
	if err := l.Break(ctx, "k", broken.ID); err != nil {
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

// TestNotifyChangesAfterReconnect: a watcher is told of changes on the next connection too, and registers again when its
// entry was lost with the data.
func TestNotifyChangesAfterReconnect(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	l, ctx := b.Shared(), t.Context()
	watcher := pushed(t, b) // no registration is repeated
	w := watchOf(t, watcher, "k")
	w.told(t, "that it listens")
	before := watcher.waiters.only.epoch()
	if err := b.client.Do(ctx, "CLIENT", "KILL", "TYPE", "pubsub").Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a new connection", func() bool { return watcher.waiters.only.epoch() != before })
	r := shares("h", writer)
	must[driver.Grant](t)(l.TryLock(ctx, "k", r))
	w.toldBy(t, "an unlock", func() error { return l.Unlock(ctx, "k", r.ID) })
	w.end(t)

	watcher.waiters.every = 20 * time.Millisecond
	again := watchOf(t, watcher, "k")
	again.told(t, "that it listens")
	if err := b.client.FlushDB(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "that it is registered", func() bool { return b.client.HExists(ctx, sharedKey("k"), " watch").Val() })
	again.end(t)
}

// TestNotifyChangesEnds: with the backend, and where the user may not publish or subscribe. Who may not publish unlocks
// all the same.
func TestNotifyChangesEnds(t *testing.T) {
	t.Parallel()
	srv, admin := open(t)
	ctx := t.Context()
	b := connect(t, srv.Addr)
	w := watchOf(t, b, "k")
	w.told(t, "that it listens")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-w.ended; !errors.Is(err, driver.ErrClosed) {
		t.Errorf("after Close: %v, want ErrClosed", err)
	}
	watched := watchOf(t, admin, "k")
	watched.told(t, "that it listens")
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
		deaf := watchOf(t, b, "k")
		if name == "subscribe" {
			deaf.stop()
		}
		if err := <-deaf.ended; !errors.Is(err, driver.ErrUnsupported) && name != "subscribe" || len(deaf.changes) > 0 {
			t.Errorf("without %s: %v, and told %d times, want ErrUnsupported", name, err, len(deaf.changes))
		}
		r := shares("h", writer)
		must[driver.Grant](t)(b.Shared().TryLock(ctx, "k", r))
		if err := b.Shared().Unlock(ctx, "k", r.ID); err != nil {
			t.Errorf("without %s: unlock: %v", name, err)
		}
	}
	watched.end(t)
}

// TestWatchEntries: an entry that is not renewed counts for 16 seconds, also where the clock was set back, and there are 64
// at most.
func TestWatchEntries(t *testing.T) {
	t.Parallel()
	srv, b := open(t)
	injectSharedClock(t, b)
	ctx, now := t.Context(), int64(1_790_000_000_000_000)
	note := func(n int, wants string) error {
		who := fmt.Sprint(n, " coord:wake:a")
		return b.run(ctx, at(ctx, b.shared.watch.command(ctx, sharedKey("k"), who, wants), now)).err
	}
	watch := func(n, want int) {
		t.Helper()
		if err := note(n, "true"); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(b.client.HGet(ctx, sharedKey("k"), " watch").Val(), "coord:wake:"); got != want {
			t.Errorf("%d entries with that of %d, want %d", got, n, want)
		}
	}
	watch(1, 1)
	now += 15_999_999
	watch(1, 1) // renewed
	now += 15_999_999
	watch(2, 2)
	now++
	watch(2, 1)
	now -= 3600_000_000
	watch(3, 1)
	for i := range 63 {
		watch(100+i, 2+i)
	}
	watch(4, 64)
	if entries := b.client.HGet(ctx, sharedKey("k"), " watch").Val(); strings.Contains(entries, " 3 coord:wake:a") {
		t.Errorf("%q, want it without the oldest", entries)
	}
	if left := b.client.PTTL(ctx, sharedKey("k")).Val(); left < 16*time.Second || left > time.Minute {
		t.Errorf("expires in %v", left)
	}
	told := func() int64 {
		r, before := shares("h", reader), srv.Commands()["publish"]
		must[packedReply](t)(b.run(ctx, at(ctx, b.shared.take.command(ctx, sharedKey("k"), r.ID, takeNumbers(r)), now)).packed(5))
		must[int64](t)(b.run(ctx, at(ctx, b.shared.unlock.command(ctx, sharedKey("k"), r.ID), now)).integer())
		return srv.Commands()["publish"] - before
	}
	if n := told(); n != 64 {
		t.Errorf("%d messages to 64", n)
	}
	now += 16_000_000
	if n := told(); n != 0 {
		t.Errorf("%d messages to entries that are over", n)
	}
	now -= 16_000_000
	for i := range 63 {
		_ = note(100+i, "false")
	}
	if err := note(4, "false"); err != nil || b.client.HExists(ctx, sharedKey("k"), " watch").Val() {
		t.Errorf("%v: something is left", err)
	}
	b.client.HSet(ctx, sharedKey("k"), " watch", "2 x")
	if err := note(6, "true"); !errors.Is(err, driver.ErrCorrupt) {
		t.Errorf("beside another version: %v, want ErrCorrupt", err)
	}
}
