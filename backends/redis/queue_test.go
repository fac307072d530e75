package redis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
)

// answer is what a call of Lock has come to.
type answer struct {
	grant driver.Grant
	err   error
}

// waitFor calls Lock in a goroutine, and returns when it is the nth in the queue.
func waitFor(t *testing.T, b *backend, key string, r driver.Request, n int) <-chan answer {
	t.Helper()
	return waitUnder(t, t.Context(), b, key, r, n)
}

func waitUnder(t *testing.T, ctx context.Context, b *backend, key string, r driver.Request, n int) <-chan answer {
	t.Helper()
	result := make(chan answer, 1)
	go func() {
		g, err := b.Lock(ctx, key, r, func() {})
		result <- answer{g, err}
	}()
	wantQueued(t, b, key, n)
	return result
}

func wantQueued(t *testing.T, b *backend, key string, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d in the queue", n), func() bool {
		h, err := b.Inspect(t.Context(), key)
		return err == nil && h.Waiters == n
	})
}

// lockOf is Lock in the form of TryLock.
func lockOf(b *backend) func(context.Context, string, driver.Request) (driver.Grant, error) {
	return func(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
		return b.Lock(ctx, key, r, func() {})
	}
}

// eventually waits for an event.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(hung); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not seen in %v: %s", hung, what)
		}
	}
}

func grantOf(t *testing.T, result <-chan answer) driver.Grant {
	t.Helper()
	select {
	case a := <-result:
		if a.err != nil {
			t.Fatal(a.err)
		}
		return a.grant
	case <-time.After(hung):
		t.Fatalf("still waits after %v", hung)
		return driver.Grant{}
	}
}

// holderIs checks who has the key, or is offered it, at the server, now.
func holderIs(t *testing.T, b *backend, key, id string) {
	t.Helper()
	if got := b.client.Get(t.Context(), lockKey(key)).Val(); strings.TrimPrefix(strings.TrimPrefix(got, offered), held) != id {
		t.Fatalf("the lock has %q, want %q", got, id)
	}
}

// pushed makes another client that learns of offers by messages alone, once it hears any, and is never too late.
func pushed(t *testing.T, b *backend) *backend {
	t.Helper()
	waiting := another(t, b)
	waiting.waiters.every, waiting.waiters.least = time.Hour, hung
	return waiting
}

// TestLine: waiters of several clients are granted in the order in which they came, each
// by the release before it; nobody overtakes them, and tokens rise.
func TestLine(t *testing.T) {
	t.Parallel()
	holder := shared(t)
	ctx := t.Context()
	clients := []*backend{pushed(t, holder), pushed(t, holder), pushed(t, holder)}
	first := request("first", time.Minute)
	last := must[driver.Grant](t)(holder.TryLock(ctx, "k", first)).Token
	const n = 9
	var waits [n]<-chan answer
	var requests [n]driver.Request
	for i := range n {
		requests[i] = request(fmt.Sprint("w", i), time.Minute)
		requests[i].Fair = i%2 == 0
		waits[i] = waitFor(t, clients[i%3], "k", requests[i], i+1)
	}
	before := holder
	id := first.ID
	for i, w := range waits {
		if err := before.Unlock(ctx, "k", id); err != nil {
			t.Fatal(err)
		}
		holderIs(t, holder, "k", requests[i].ID)
		if _, err := holder.TryLock(ctx, "k", request("newcomer", time.Second)); !errors.Is(err, driver.ErrLocked) {
			t.Errorf("a newcomer: %v", err)
		}
		g := grantOf(t, w)
		if g.Token <= last || g.Since.IsZero() {
			t.Errorf("waiter %d: %+v after token %d", i, g, last)
		}
		if left := holder.client.PTTL(ctx, lockKey("k")).Val(); left < 50*time.Second {
			t.Errorf("waiter %d: its lease ends in %v", i, left)
		}
		last, before, id = g.Token, clients[i%3], requests[i].ID
	}
	if err := before.Unlock(ctx, "k", id); err != nil {
		t.Fatal(err)
	}
	must[driver.Grant](t)(holder.TryLock(ctx, "k", request("newcomer", time.Second)))
}

// TestQueueExpires: every key that a queue consists of has an end.
func TestQueueExpires(t *testing.T) {
	t.Parallel()
	b := shared(t)
	ctx := t.Context()
	must[driver.Grant](t)(b.TryLock(ctx, "k", request("holder", time.Minute)))
	other := another(t, b)
	r := request("w", time.Minute)
	r.Fair = true
	waitFor(t, other, "k", r, 1)
	keys := b.client.Keys(ctx, "*").Val()
	if len(keys) != 4 {
		t.Errorf("keys %q, want lock, fence, queue and waiters", keys)
	}
	for _, k := range keys {
		if ttl := b.client.PTTL(ctx, k).Val(); ttl <= 0 || ttl > 2*time.Hour {
			t.Errorf("%s expires in %v", k, ttl)
		}
	}
}

// TestLockOfAFreeKey: it is granted at once, and again to the same id.
func TestLockOfAFreeKey(t *testing.T) {
	t.Parallel()
	b := shared(t)
	r := request("a", time.Minute)
	one := must[driver.Grant](t)(b.Lock(t.Context(), "k", r, func() {}))
	two := must[driver.Grant](t)(b.Lock(t.Context(), "k", r, func() {}))
	if one.Token != two.Token || one.Since.IsZero() {
		t.Errorf("%+v, then %+v", one, two)
	}
	if err := b.Unlock(t.Context(), "k", r.ID); err != nil {
		t.Fatal(err)
	}
	if n := b.client.Exists(t.Context(), "coord:{k}", "coord:{k}:queue").Val(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

// frozenWaiter makes a client that does not answer be offered the key, with alive behind it.
func frozenWaiter(t *testing.T, patience time.Duration) (b *backend, frozen string, alive driver.Request, w <-chan answer) {
	srv, b := open(t)
	var d dropper
	o := clientOptions(srv.Addr)
	o.Dialer = d.dial
	client := connectWith(t, o)
	client.waiters.every, client.waiters.least = time.Hour, patience
	held, r := request("h", time.Minute), request("frozen", time.Minute)
	alive = request("alive", time.Minute)
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", held))
	waitFor(t, client, "k", r, 1)
	eventually(t, "that it listens", client.waiters.isUp)
	settleCommands(t, srv)
	d.dropping.Store(true)
	w = waitFor(t, pushed(t, b), "k", alive, 2)
	if err := b.Unlock(t.Context(), "k", held.ID); err != nil {
		t.Fatal(err)
	}
	return b, r.ID, alive, w
}

// TestFrozenWaiter: an offer that is not taken ends soon, and the next in the queue, who was told
// so, takes the key.
func TestFrozenWaiter(t *testing.T) {
	t.Parallel()
	b, frozen, alive, w := frozenWaiter(t, 2*time.Second)
	grantOf(t, w)
	holderIs(t, b, "k", alive.ID)
	if place := must[float64](t)(b.client.ZScore(t.Context(), "coord:{k}:queue", frozen).Result()); place < 4e15 {
		t.Errorf("its place is %v, want it behind all others", place)
	}
}

// TestCancelledWaiterPassesOn: an offer that is given back goes to the next in the queue in that step.
func TestCancelledWaiterPassesOn(t *testing.T) {
	t.Parallel()
	b, frozen, alive, w := frozenWaiter(t, hung)
	holderIs(t, b, "k", frozen)
	if err := b.Unlock(t.Context(), "k", frozen); err != nil {
		t.Fatal(err)
	}
	holderIs(t, b, "k", alive.ID)
	grantOf(t, w)
}

// TestWithdrawal: a waiter that leaves frees its place, and the next is told that it is the
// first: it takes the key when the lease before it lapses.
func TestWithdrawal(t *testing.T) {
	t.Parallel()
	b := shared(t)
	ctx := t.Context()
	held, leaver, next := request("h", time.Minute), request("leaver", time.Minute), request("next", time.Minute)
	must[driver.Grant](t)(b.TryLock(ctx, "k", held))
	leaving, leave := context.WithCancel(ctx)
	one, two := pushed(t, b), pushed(t, b)
	gone := waitUnder(t, leaving, one, "k", leaver, 1)
	w := waitFor(t, two, "k", next, 2)
	b.client.PExpire(ctx, lockKey("k"), 500*time.Millisecond) // its holder died long ago
	leave()
	if a := <-gone; !errors.Is(a.err, context.Canceled) {
		t.Errorf("cancelled: %v", a.err)
	}
	if err := one.Unlock(ctx, "k", leaver.ID); err != nil {
		t.Errorf("withdrawal: %v", err)
	}
	if err := one.Unlock(ctx, "k", leaver.ID); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("second withdrawal: %v", err)
	}
	grantOf(t, w)
	holderIs(t, b, "k", next.ID)
}

// TestWaitersAndDelayedUnlock: the first in the queue is told until when the key stays taken.
func TestWaitersAndDelayedUnlock(t *testing.T) {
	t.Parallel()
	b := shared(t)
	ctx := t.Context()
	held, next := request("h", time.Minute), request("next", time.Minute)
	must[driver.Grant](t)(b.TryLock(ctx, "k", held))
	w := waitFor(t, pushed(t, b), "k", next, 1)
	const delay = 200 * time.Millisecond
	start := time.Now()
	if err := b.UnlockAfter(ctx, "k", held.ID, delay); err != nil {
		t.Fatal(err)
	}
	grantOf(t, w)
	if took := time.Since(start); took < delay {
		t.Errorf("granted after %v, want after %v at the earliest", took, delay)
	}
}

// TestWaitersAndBreak: the key of a hold that was broken goes to the first in the queue, but
// only when its lease is over.
func TestWaitersAndBreak(t *testing.T) {
	t.Parallel()
	b := shared(t)
	ctx := t.Context()
	const lease = 3 * time.Second
	held, next := request("h", lease), request("next", time.Minute)
	start := time.Now()
	must[driver.Grant](t)(b.TryLock(ctx, "k", held))
	w := waitFor(t, pushed(t, b), "k", next, 1)
	if err := b.Break(ctx, "k", held.ID); err != nil && !errors.Is(err, driver.ErrNotHeld) {
		t.Fatal(err)
	}
	grantOf(t, w)
	if took := time.Since(start); took < lease-2*time.Millisecond {
		t.Errorf("granted after %v, want after %v at the earliest", took, lease)
	}
}

// TestForeignLine: what is not ours in place of a line is left as it is, a hold ends all the
// same, and who need not look for a line has the lock.
func TestForeignLine(t *testing.T) {
	t.Parallel()
	b := shared(t)
	ctx := t.Context()
	held := request("h", time.Minute)
	must[driver.Grant](t)(b.TryLock(ctx, "k", held))
	b.client.Set(ctx, "coord:{k}:queue", "x", time.Hour)
	if _, err := b.Lock(ctx, "k", request("w", time.Minute), func() {}); !errors.Is(err, driver.ErrCorrupt) {
		t.Errorf("Lock: %v, want ErrCorrupt", err)
	}
	if h := must[driver.Holder](t)(b.Inspect(ctx, "k")); h.Waiters != -1 {
		t.Errorf("%d waiters, want -1", h.Waiters)
	}
	if err := b.Unlock(ctx, "k", held.ID); err != nil {
		t.Errorf("Unlock: %v", err)
	}
	must[driver.Grant](t)(b.TryLock(ctx, "k", held))
	if err := b.Unlock(ctx, "k", held.ID); err != nil {
		t.Errorf("Unlock: %v", err)
	}
	b.client.Del(ctx, "coord:{k}:fence") // now it has to
	if _, err := b.TryLock(ctx, "k", held); !errors.Is(err, driver.ErrCorrupt) {
		t.Errorf("TryLock: %v, want ErrCorrupt", err)
	}
	if _, err := b.Inspect(ctx, "k"); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("after a refusal: %v, want ErrNotHeld", err)
	}
	if got := b.client.Get(ctx, "coord:{k}:queue").Val(); got != "x" {
		t.Errorf("changed to %q", got)
	}
}

// TestNightlyNoLostWakeUps: clients contend and cancel while their subscriptions are ended all the
// time. Nobody is left waiting for a key that is free.
func TestNightlyNoLostWakeUps(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	const runs, clients, goroutines, turns = 100, 3, 3, 4
	var bs []*backend
	for range clients {
		bs = append(bs, pushed(t, b))
	}
	stop := make(chan struct{})
	var killer sync.WaitGroup
	killer.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(rand.N(20 * time.Millisecond)):
				b.client.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub")
			}
		}
	})
	defer killer.Wait()
	defer close(stop)
	for run := range runs {
		key := fmt.Sprint("k", run)
		var inside sync.Mutex
		var wg sync.WaitGroup
		for _, b := range bs {
			for range goroutines {
				wg.Go(func() {
					for range turns {
						contend(t, b, key, &inside)
					}
				})
			}
		}
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Fatalf("run %d: stuck: lock %q", run, b.client.Get(t.Context(), lockKey(key)).Val())
		}
	}
}

// contend takes the key and gives it back, or cancels its wait at some moment, and then
// withdraws as the core does.
func contend(t *testing.T, b *backend, key string, inside *sync.Mutex) {
	r := request("w", time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if rand.N(3) == 0 {
		time.AfterFunc(rand.N(3*time.Millisecond), cancel)
	}
	_, err := b.Lock(ctx, key, r, func() {})
	if err == nil {
		if !inside.TryLock() {
			t.Error("two hold one key")
			return
		}
		inside.Unlock()
	} else if ctx.Err() == nil {
		t.Errorf("Lock: %v", err)
	}
	for range 20 { // what was cancelled may be applied late
		err = b.Unlock(t.Context(), key, r.ID)
		if ctx.Err() == nil || err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err != nil && ctx.Err() == nil {
		t.Errorf("Unlock: %v", err)
	}
}

// TestSubscriptionIsLazy: a client that does not wait has no connection for it, one that does
// has one, until it is closed.
func TestSubscriptionIsLazy(t *testing.T) {
	t.Parallel()
	srv, holder := open(t)
	listeners := func() int {
		list := holder.client.Do(t.Context(), "CLIENT", "LIST", "TYPE", "pubsub").String()
		return strings.Count(list, " addr=")
	}
	b := connect(t, srv.Addr)
	held := request("h", time.Minute)
	must[driver.Grant](t)(holder.TryLock(t.Context(), "k", held))
	if _, err := b.TryLock(t.Context(), "k", request("w", time.Minute)); !errors.Is(err, driver.ErrLocked) {
		t.Fatal(err)
	}
	if n := listeners(); n != 0 {
		t.Errorf("%d connections listen, and nobody waits", n)
	}
	waitFor(t, b, "k", request("w1", time.Minute), 1)
	waitFor(t, b, "k", request("w2", time.Minute), 2)
	eventually(t, "one connection that listens", func() bool { return listeners() == 1 })
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	eventually(t, "none after Close", func() bool { return listeners() == 0 })
}

// TestWithoutPush: where the user may not publish, or not subscribe, waiters poll.
func TestWithoutPush(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		rules []any
		wake  bool
		says  string
	}{
		"no channels":   {[]any{"resetchannels"}, false, "may not publish"},
		"no PUBLISH":    {[]any{"-publish"}, false, "may not publish"},
		"no SUBSCRIBE":  {[]any{"-subscribe"}, true, "may not subscribe"},
		"all it needs":  {[]any{"resetchannels", "&coord:wake:*"}, true, ""},
		"only the keys": {[]any{"resetkeys", "~coord:*"}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			srv, holder := open(t)
			ctx := t.Context()
			rules := append([]any{"ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all"}, tt.rules...)
			if err := holder.client.Do(ctx, rules...).Err(); err != nil {
				t.Fatal(err)
			}
			o := clientOptions(srv.Addr)
			o.Username, o.Password = "u", "p"
			client := redis.NewClient(o)
			defer client.Close()
			log, text := textLogger()
			made, err := New(client, WithLogger(log))
			if err != nil {
				t.Fatal(err)
			}
			b := made.(*backend)
			held := request("h", time.Minute)
			must[driver.Grant](t)(b.TryLock(ctx, "k", held))
			w := waitFor(t, b, "k", request("w", time.Minute), 1)
			if err := b.Unlock(ctx, "k", held.ID); err != nil {
				t.Fatal(err)
			}
			grantOf(t, w)
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			if got := b.Info().Claims.Has(driver.Wake); got != tt.wake || !b.Info().Claims.Has(driver.Fair) {
				t.Errorf("wake is claimed: %v, want %v", got, tt.wake)
			}
			if got := text.String(); (tt.says == "") != (got == "") || !strings.Contains(got, tt.says) {
				t.Errorf("logged %q, want %q", got, tt.says)
			}
		})
	}
}

// TestCancelledRequestForAPlaceLands: a call of Lock that is cancelled before the server has
// answered leaves no place that is taken after its withdrawal.
func TestCancelledRequestForAPlaceLands(t *testing.T) {
	t.Parallel()
	b := shared(t)
	ctx := t.Context()
	must[driver.Grant](t)(b.TryLock(ctx, "k", request("h", time.Minute)))
	waiting := another(t, b)
	for range 300 {
		r := request("w", time.Minute)
		start := time.Now()
		doomed, cancel := context.WithCancel(ctx)
		time.AfterFunc(rand.N(300*time.Microsecond), cancel)
		_, err := waiting.Lock(doomed, "k", r, func() {})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("Lock: %v", err)
		}
		if err := waiting.Unlock(ctx, "k", r.ID); err != nil && !errors.Is(err, driver.ErrNotHeld) {
			t.Fatal(err)
		}
		if time.Since(start) > finishWithin {
			continue // the request may have been left behind
		}
		if err := b.client.ZScore(ctx, "coord:{k}:queue", r.ID).Err(); !errors.Is(err, redis.Nil) {
			t.Fatalf("in the queue after the withdrawal: %v", err)
		}
	}
}

// TestMessagesShortenTheWait: a message about the lease in the way can be older than what the
// waiter knows. Then the wait does not become longer.
func TestMessagesShortenTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &waiters{}
		w := &waiter{waiters: l, notified: make(chan struct{}, 1)}
		tell := func(first time.Duration) {
			l.mu.Lock()
			defer l.mu.Unlock()
			w.notify(false, first)
		}
		for name, order := range map[string][]time.Duration{
			"one after the other": {time.Second, time.Minute}, "both at once": {time.Minute, time.Second},
		} {
			start := time.Now()
			timer := time.NewTimer(time.Hour)
			waited := make(chan bool)
			go func() {
				n, err := w.await(t.Context(), timer, time.Hour, nil)
				waited <- n.ask || err != nil
			}()
			for _, first := range order {
				tell(first)
				if name == "one after the other" {
					synctest.Wait()
				}
			}
			if <-waited || time.Since(start) != time.Second {
				t.Errorf("%s: waited %v, want 1s", name, time.Since(start))
			}
		}
	})
}
