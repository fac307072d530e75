package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// dropper makes connections that drop all messages to subscribers while dropping is set.
type dropper struct {
	tapped
	dropping atomic.Bool
}

func (d *dropper) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return d.tapped.dial(ctx, network, addr, func(read func([]byte) (int, error), p []byte) (int, error) {
		for {
			if n, err := read(p); err != nil || !d.dropping.Load() {
				return n, err
			}
		}
	})
}

// TestTrap13GrantBeforeSubscription: a grant that is told before the server has the
// subscription is not heard. When the subscription is there, the waiter looks for itself.
func TestTrap13GrantBeforeSubscription(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	ctx := t.Context()
	if err := b.client.Do(ctx, "ACL", "SETUSER", "default", "-subscribe").Err(); err != nil {
		t.Fatal(err) // nobody hears for now
	}
	waiting := pushed(t, b)
	l := &waiting.waiters
	held, r := request("h", time.Minute), request("w", time.Minute)
	must[driver.Grant](t)(b.TryLock(ctx, "k", held))
	listensNotYet(l)
	w := waitFor(t, waiting, "k", r, 1)
	eventually(t, "that it waits", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.byNumber[1] != nil && l.byNumber[1].queued
	})
	if err := b.Unlock(ctx, "k", held.ID); err != nil {
		t.Fatal(err)
	}
	holderIs(t, b, "k", r.ID)
	select {
	case a := <-w:
		t.Fatalf("granted without being told: %+v", a)
	default:
	}
	// Now the answer comes.
	listens(t, l)
	grantOf(t, w)
}

// TestTrap13NoSubscription: waiters that the server never answers about their subscription
// are granted all the same.
func TestTrap13NoSubscription(t *testing.T) {
	t.Parallel()
	b := shared(t)
	var d dropper
	d.dropping.Store(true)
	o := optionsOf(b)
	o.Dialer = d.dial
	waiting := connectWith(t, o)
	held, r := request("h", time.Minute), request("w", time.Minute)
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", held))
	w := waitFor(t, waiting, "k", r, 1)
	if err := b.Unlock(t.Context(), "k", held.ID); err != nil {
		t.Fatal(err)
	}
	grantOf(t, w)
}

// TestLostMessage: the connection that listens is ended, again and again, at the moment of
// the grant. A client that nothing but messages tells of grants learns of it when it hears
// again.
func TestLostMessage(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	ctx := t.Context()
	waiting := pushed(t, b)
	for range 30 {
		held, r := request("h", time.Minute), request("w", time.Minute)
		must[driver.Grant](t)(b.TryLock(ctx, "k", held))
		w := waitFor(t, waiting, "k", r, 1)
		pipe := b.client.Pipeline()
		pipe.Do(ctx, "CLIENT", "KILL", "TYPE", "pubsub")
		_ = pipe.Process(ctx, unlockScript.command(ctx, lockKey("k"), held.ID))
		if _, err := pipe.Exec(ctx); err != nil && !noScript(err) {
			t.Fatal(err)
		} else if err != nil { // the first time
			if err := b.Unlock(ctx, "k", held.ID); err != nil {
				t.Fatal(err)
			}
		}
		grantOf(t, w)
		if err := b.Unlock(ctx, "k", r.ID); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWaitingIsQuiet: two hundred who wait cost the server a few commands, and each that is
// granted two: the release before it, and its confirmation.
func TestWaitingIsQuiet(t *testing.T) {
	t.Parallel()
	srv, holder := open(t)
	ctx := t.Context()
	const clients, each = 4, 50
	const n = clients * each
	held := request("h", time.Minute)
	must[driver.Grant](t)(holder.TryLock(ctx, "k", held))
	var wg sync.WaitGroup
	for range clients {
		b := connect(t, srv.Addr)
		for range each {
			wg.Go(func() {
				r := request("w", time.Minute)
				if _, err := b.Lock(ctx, "k", r, func() {}); err != nil {
					t.Error(err)
					return
				}
				if err := b.Unlock(ctx, "k", r.ID); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wantQueued(t, holder, "k", n)
	settleCommands(t, srv)
	sent := func() int64 { c := srv.Commands(); return c["evalsha"] + c["eval"] + c["script"] + c["subscribe"] }
	everything := func() (sum int64) {
		for name, n := range srv.Commands() {
			if name != "info" {
				sum += n
			}
		}
		return sum
	}
	start, before, all := time.Now(), sent(), everything()
	time.Sleep(2 * time.Second) // what is measured is what happens while nothing does
	took, quiet := time.Since(start), sent()-before
	if most := int64(10 * took.Seconds()); quiet > most {
		t.Errorf("%d commands in %v while %d wait, want at most %d", quiet, took, n, most)
	}
	inside := everything() - all
	if most := 9 * (quiet + 2); inside > most { // a script at either end is counted after what is in it
		t.Errorf("%d commands with those in scripts, want at most %d", inside, most)
	}
	t.Logf("%d commands in %v while %d wait, %d with those in scripts", quiet, took, n, inside)
	start, before = time.Now(), sent()
	if err := holder.Unlock(ctx, "k", held.ID); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	took, busy := time.Since(start), sent()-before
	// A hand-over takes three commands, and three more for each offer that lapses, as to a waiter that the machine does not
	// run. If all who wait asked at each, it would take two hundred.
	if most := int64(10 * n); busy > most {
		t.Errorf("%d commands for %d hand-overs, want at most %d", busy, n, most)
	}
	t.Logf("%d commands for %d hand-overs in %v", busy, n, took)
}

// settleCommands waits until clients that have begun to wait have subscribed.
func settleCommands(t *testing.T, srv *testserver.Server) {
	t.Helper()
	last := int64(-1)
	eventually(t, "that the clients only wait", func() bool {
		time.Sleep(200 * time.Millisecond)
		now := srv.Commands()["evalsha"]
		quiet := now-last <= 1
		last = now
		return quiet
	})
}

// TestWaitersOverARestart: a server that has forgotten the queue is asked for a place again.
func TestWaitersOverARestart(t *testing.T) {
	t.Parallel()
	srv, b := open(t)
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", request("h", time.Minute)))
	waiting := connect(t, srv.Addr)
	result := make(chan answer, 1)
	r := request("w", time.Minute)
	go func() {
		g, err := lockAsTheCore(t.Context(), waiting, "k", r)
		result <- answer{g, err}
	}()
	wantQueued(t, b, "k", 1)
	srv.Restart() // the lock is gone, too
	grantOf(t, result)
}

// TestWaitersOverAWipe: so is one that was made to forget everything while it is up.
func TestWaitersOverAWipe(t *testing.T) {
	t.Parallel()
	srv, b := open(t)
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", request("h", time.Minute)))
	w := waitFor(t, connect(t, srv.Addr), "k", request("w", time.Minute), 1)
	if err := b.client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	grantOf(t, w)
}

// TestNightlyWaitersOverAFailover: waiters get the lock from the master that comes after.
func TestNightlyWaitersOverAFailover(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, r replicated) {
		holder, waiting := connectTo(t, r.client()), connectTo(t, r.client())
		held, next := request("h", time.Second), request("w", time.Minute)
		must[driver.Grant](t)(holder.TryLock(t.Context(), "k", held))
		result := make(chan answer, 1)
		go func() {
			g, err := lockAsTheCore(t.Context(), waiting, "k", next)
			result <- answer{g, err}
		}()
		wantQueued(t, holder, "k", 1)
		r.master().Kill()
		select {
		case a := <-result:
			if a.err != nil {
				t.Fatal(a.err)
			}
		case <-time.After(time.Minute):
			t.Fatal("still waits a minute after the failover")
		}
	})
}

// TestNightlyTopologiesPushWakeUps: on a cluster, in the slots of each node, and behind sentinels, a
// client that nothing but messages tells of grants hears of all.
func TestNightlyTopologiesPushWakeUps(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, r replicated) {
		holder, waiting := connectTo(t, r.client()), connectTo(t, r.client())
		waiting.waiters.every, waiting.waiters.least = time.Hour, hung
		ctx := t.Context()
		for i := range 12 {
			key := fmt.Sprint("key", i)
			held, next := request("h", time.Minute), request("w", time.Minute)
			must[driver.Grant](t)(holder.TryLock(ctx, key, held))
			w := waitFor(t, waiting, key, next, 1)
			if err := holder.Unlock(ctx, key, held.ID); err != nil {
				t.Fatal(err)
			}
			holderIs(t, holder, key, next.ID)
			grantOf(t, w)
		}
	})
}

// lockAsTheCore waits on after errors that may pass.
func lockAsTheCore(ctx context.Context, b *backend, key string, r driver.Request) (driver.Grant, error) {
	for {
		g, err := b.Lock(ctx, key, r, func() {})
		if err == nil || ctx.Err() != nil || driver.Definite(err) && !errors.Is(err, driver.ErrNotSent) {
			return g, err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestSilentSubscription: a connection that gives no sign of life is replaced, and one that
// does is not.
func TestSilentSubscription(t *testing.T) {
	t.Parallel()
	srv, b := open(t)
	var d dropper
	o := clientOptions(srv.Addr)
	o.Dialer = d.dial
	waiting := connectWith(t, o)
	waiting.waiters.silence = 100 * time.Millisecond
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", request("h", time.Minute)))
	waitFor(t, waiting, "k", request("w", time.Minute), 1)
	eventually(t, "that it listens", waiting.waiters.isUp)
	pings := func() (n int64) {
		stats := b.client.Info(t.Context(), "commandstats").Val()
		_, rest, _ := strings.Cut(stats, "cmdstat_ping:calls=")
		_, _ = fmt.Sscan(rest, &n)
		return n
	}
	before := pings()
	eventually(t, "pings", func() bool { return pings() > before+2 })
	if n := d.subscriptions.Load(); n != 1 {
		t.Errorf("%d subscriptions while the server answers, want 1", n)
	}
	d.dropping.Store(true)
	eventually(t, "another subscription", func() bool { return d.subscriptions.Load() > 1 })
	d.dropping.Store(false)
	eventually(t, "that it listens again", waiting.waiters.isUp)
}

// TestTrap07GrantWithoutReplicas: a waiter whose grant no replica has gives it back, and the
// next in the queue has it.
func TestTrap07GrantWithoutReplicas(t *testing.T) {
	t.Parallel()
	b := shared(t)
	ctx := t.Context()
	client := redis.NewClient(optionsOf(b))
	defer client.Close()
	made, err := New(client, WithWaitReplicas(1, 10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	alone := made.(*backend)
	alone.waiters.least = hung // no offer lapses
	if _, err := alone.Lock(ctx, "free", request("w", time.Minute), func() {}); !errors.Is(err, driver.ErrNotSent) {
		t.Errorf("Lock of a free key: %v, want ErrNotSent", err)
	}
	must[driver.Grant](t)(b.TryLock(ctx, "free", request("h", time.Minute)))

	held, next := request("h", time.Minute), request("next", time.Minute)
	must[driver.Grant](t)(b.TryLock(ctx, "k", held))
	short := waitFor(t, alone, "k", request("w", time.Minute), 1)
	w := waitFor(t, pushed(t, b), "k", next, 2)
	if err := b.Unlock(ctx, "k", held.ID); err != nil {
		t.Fatal(err)
	}
	if a := <-short; !errors.Is(a.err, driver.ErrNotSent) {
		t.Errorf("a grant that no replica has: %+v, want ErrNotSent", a)
	}
	grantOf(t, w)
	holderIs(t, b, "k", next.ID)
}

// TestWaitOfAServerThatIsGone: a waiter that cannot ask any more does not say that nothing is
// left of it, for its place may be.
func TestWaitOfAServerThatIsGone(t *testing.T) {
	t.Parallel()
	srv, b := open(t)
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", request("h", time.Minute)))
	w := waitFor(t, connect(t, srv.Addr), "k", request("w", time.Minute), 1)
	srv.Kill()
	select {
	case a := <-w:
		if a.err == nil || driver.Definite(a.err) {
			t.Errorf("%v, want an unknown outcome", a.err)
		}
	case <-time.After(hung):
		t.Fatalf("still waits after %v", hung)
	}
}
