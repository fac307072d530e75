package redis

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// TestRenewalSeedsTheFenceWhole: the token of a renewal that finds the fence deleted is the one
// that it has put there.
func TestRenewalSeedsTheFenceWhole(t *testing.T) {
	t.Parallel()
	b := shared(t)
	ctx := t.Context()
	r := request("h", time.Minute)
	first := must[driver.Grant](t)(b.TryLock(ctx, "k", r))
	b.client.Del(ctx, "coord:{k}:fence")
	g := must[driver.Grant](t)(b.Renew(ctx, "k", r))
	stored, err := b.client.Get(ctx, "coord:{k}:fence").Int64()
	if err != nil || g.Token != stored || g.Token <= first.Token {
		t.Errorf("renewed with token %d, %d is stored (%v), granted %d", g.Token, stored, err, first.Token)
	}
}

// subscriptions counts those that a client is asked for.
type subscriptions struct {
	*redis.Client
	n atomic.Int64
}

func (s *subscriptions) Subscribe(ctx context.Context, channels ...string) *redis.PubSub {
	s.n.Add(1)
	return s.Client.Subscribe(ctx, channels...)
}

// TestClosedClientIsLeftAlone: an application that closes its client before the store does not
// make the store ask it for a subscription all the time.
func TestClosedClientIsLeftAlone(t *testing.T) {
	t.Parallel()
	b := shared(t)
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", request("h", time.Minute)))
	client := &subscriptions{Client: redis.NewClient(optionsOf(b))}
	made, err := New(client)
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	waiting := made.(*backend)
	waitFor(t, waiting, "k", request("w", time.Minute), 1)
	eventually(t, "that it listens", waiting.waiters.isUp)
	before := client.n.Load()
	client.Close()
	eventually(t, "that it gets no messages", func() bool { return !waiting.waiters.isUp() })
	time.Sleep(200 * time.Millisecond) // what is counted is what happens while nothing does
	if n := client.n.Load() - before; n > 20 {
		t.Errorf("%d subscriptions asked of a closed client in 200ms", n)
	}
}

// TestNightlyRepeatedAttemptWhileTheSlotMoves: an attempt that finds its own hold, with others in
// line, has it also on a node that is giving the slot away, where keys that are not there
// cannot be looked at.
func TestNightlyRepeatedAttemptWhileTheSlotMoves(t *testing.T) {
	t.Parallel()
	c := testserver.RedisCluster(t, 0, silently)
	b, other := connectTo(t, clusterClient(c, nil)), connectTo(t, clusterClient(c, nil))
	ctx := t.Context()
	held := request("h", time.Minute)
	first := must[driver.Grant](t)(b.TryLock(ctx, "k", held))
	waitFor(t, other, "k", request("w", time.Minute), 1)
	slot := c.RedisSlot(lockKey("k"))
	c.BeginRedisMove(slot, otherMaster(c, slot))
	for name, lock := range map[string]func(context.Context, string, driver.Request) (driver.Grant, error){"TryLock": b.TryLock, "Lock": lockOf(b)} {
		if g, err := lock(ctx, "k", held); err != nil || g.Token != first.Token {
			t.Errorf("%s: %+v, %v, want token %d", name, g, err, first.Token)
		}
	}
}

func otherMaster(c *testserver.Cluster, slot int) *testserver.Server {
	return other(c, c.RedisMaster(slot))
}

// TestForeignPartsOfAQueue: what is not ours beside a queue, that has not begun, makes a wait fail
// and leaves nothing, and not a key without an end.
func TestForeignPartsOfAQueue(t *testing.T) {
	t.Parallel()
	for part, ours := range map[string]string{"waiters": "queue", "queue": "waiters"} {
		t.Run(part, func(t *testing.T) {
			b := shared(t)
			ctx := t.Context()
			must[driver.Grant](t)(b.TryLock(ctx, "k", request("h", time.Minute)))
			b.client.Set(ctx, "coord:{k}:"+part, "x", time.Hour)
			r := request("w", time.Minute)
			r.Fair = true
			if _, err := b.Lock(ctx, "k", r, func() {}); !errors.Is(err, driver.ErrCorrupt) {
				t.Errorf("Lock: %v, want ErrCorrupt", err)
			}
			if n := b.client.Exists(ctx, "coord:{k}:"+ours).Val(); n != 0 {
				t.Errorf("coord:{k}:%s is left, and the wait has failed", ours)
			}
		})
	}
}

// TestForeignFence: so does what is in place of a fence, also of a number after which there is no
// token, whether or not the lock is free and others wait.
func TestForeignFence(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for name, spoil := range map[string]func(*backend){
		"of another type": func(b *backend) { b.client.LPush(ctx, "coord:{k}:fence", "x") },
		"out of range":    func(b *backend) { b.client.Set(ctx, "coord:{k}:fence", int64(driver.MaxToken), 0) },
	} {
		t.Run(name, func(t *testing.T) {
			b := shared(t)
			untouched := func(what string, err error, want string) {
				t.Helper()
				if !errors.Is(err, driver.ErrCorrupt) {
					t.Errorf("%s: %v, want ErrCorrupt", what, err)
				}
				if got := b.client.Get(ctx, "coord:{k}").Val(); got != want {
					t.Errorf("%s: the lock has %q, want %q", what, got, want)
				}
				if n := b.client.Exists(ctx, "coord:{k}:queue", "coord:{k}:waiters").Val(); n != 0 {
					t.Errorf("%s: %d keys of a queue are left", what, n)
				}
			}
			spoil(b)
			_, err := b.TryLock(ctx, "k", request("t", time.Minute))
			untouched("TryLock", err, "")
			_, err = b.Lock(ctx, "k", request("l", time.Minute), func() {})
			untouched("Lock", err, "")

			b.client.Del(ctx, "coord:{k}:fence")
			held := request("h", time.Minute)
			must[driver.Grant](t)(b.TryLock(ctx, "k", held))
			w := waitFor(t, another(t, b), "k", request("w", time.Minute), 1)
			b.client.Del(ctx, "coord:{k}:fence")
			spoil(b)
			if err := b.Unlock(ctx, "k", held.ID); err != nil {
				t.Fatal(err)
			}
			untouched("Lock in the queue", (<-w).err, "")
		})
	}
}

// TestForeignFenceOfAHeldLock: a wait that begins beside one fails, and leaves no queue.
func TestForeignFenceOfAHeldLock(t *testing.T) {
	t.Parallel()
	b := shared(t)
	ctx := t.Context()
	must[driver.Grant](t)(b.TryLock(ctx, "k", request("h", time.Minute)))
	b.client.Del(ctx, "coord:{k}:fence")
	b.client.LPush(ctx, "coord:{k}:fence", "x")
	for _, fair := range []bool{false, true} {
		r := request("w", time.Minute)
		r.Fair = fair
		if _, err := b.Lock(ctx, "k", r, func() {}); !errors.Is(err, driver.ErrCorrupt) {
			t.Errorf("Lock: %v, want ErrCorrupt", err)
		}
		for _, part := range []string{"coord:{k}:queue", "coord:{k}:waiters"} {
			if ttl := b.client.PTTL(ctx, part).Val(); ttl != -2 {
				t.Errorf("%s is left, and expires in %v", part, ttl)
			}
		}
	}
}

// TestLostQueue: those who wait find out that their places are lost, as by an eviction, have the lock
// all the same, and are not overtaken from then on.
func TestLostQueue(t *testing.T) {
	t.Parallel()
	b := shared(t)
	ctx := t.Context()
	g := must[driver.Grant](t)(b.TryLock(ctx, "k", request("h", time.Minute)))
	waits := []driver.Request{request("1", time.Minute), request("2", time.Minute)}
	clients := []*backend{another(t, b), another(t, b)}
	results := []<-chan answer{waitFor(t, clients[0], "k", waits[0], 1), waitFor(t, clients[1], "k", waits[1], 2)}
	lose := b.client.TxPipeline()
	lose.Set(ctx, "coord:{k}:fence", g.Token, time.Hour) // as after a hold with nobody in the queue
	lose.Del(ctx, "coord:{k}:queue")
	if _, err := lose.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	wantQueued(t, b, "k", 2)
	b.client.Del(ctx, "coord:{k}") // as if the lease had run out
	if g, err := b.TryLock(ctx, "k", request("late", time.Minute)); !errors.Is(err, driver.ErrLocked) {
		t.Fatalf("past the queue: %+v, %v, want ErrLocked", g, err)
	}
	for range waits {
		var i int
		var a answer
		select {
		case a = <-results[0]:
		case a = <-results[1]:
			i = 1
		case <-time.After(hung):
			t.Fatalf("still waits after %v", hung)
		}
		if a.err != nil {
			t.Fatal(a.err)
		}
		if err := clients[i].Unlock(ctx, "k", waits[i].ID); err != nil {
			t.Fatal(err)
		}
	}
}

// TestForeignWaiters: a release that cannot tell who waits ends the hold, and leaves the queue as it is.
func TestForeignWaiters(t *testing.T) {
	t.Parallel()
	b := shared(t)
	ctx := t.Context()
	held, r := request("h", time.Minute), request("w", time.Minute)
	must[driver.Grant](t)(b.TryLock(ctx, "k", held))
	waitFor(t, pushed(t, b), "k", r, 1)
	b.client.Set(ctx, "coord:{k}:waiters", "x", time.Hour)
	if err := b.Unlock(ctx, "k", held.ID); err != nil {
		t.Fatal(err)
	}
	if n := b.client.Exists(ctx, "coord:{k}").Val(); n != 0 {
		t.Error("the lock is still held")
	}
	if queue := b.client.ZRange(ctx, "coord:{k}:queue", 0, -1).Val(); len(queue) != 1 || queue[0] != r.ID {
		t.Errorf("%q in the queue, want %q", queue, r.ID)
	}
	if ttl := b.client.PTTL(ctx, "coord:{k}:queue").Val(); ttl <= 0 {
		t.Errorf("the queue expires in %v", ttl)
	}
}

// TestNightlyWaitersOfASlowReplica: a waiter waits for its replica for as long as it was told to, also
// when it is granted from the queue.
func TestNightlyWaitersOfASlowReplica(t *testing.T) {
	t.Parallel()
	srv, b := open(t)
	replica, there := open(t)
	ctx := t.Context()
	host, port, err := net.SplitHostPort(srv.Addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := there.client.SlaveOf(ctx, host, port).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the replica", func() bool { return b.client.Do(ctx, "WAIT", 1, 100).Val() == int64(1) })
	client := redis.NewClient(clientOptions(srv.Addr))
	defer client.Close()
	made, err := New(client, WithWaitReplicas(1, 1900*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	held := request("h", time.Minute)
	must[driver.Grant](t)(b.TryLock(ctx, "k", held))
	w := waitFor(t, made.(*backend), "k", request("w", time.Minute), 1)
	eventually(t, "that it listens", made.(*backend).waiters.isUp)
	replica.Pause()
	time.AfterFunc(300*time.Millisecond, replica.Resume)
	if err := b.Unlock(ctx, "k", held.ID); err != nil {
		t.Fatal(err)
	}
	grantOf(t, w)
}

// late keeps back the first question of a waiter that it is armed for, which its caller gives up.
type late struct {
	armed atomic.Bool
	kept  chan []any
}

func (l *late) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *late) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (l *late) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if name := cmd.Name(); (name == "evalsha" || name == "eval") && l.armed.CompareAndSwap(true, false) {
			l.kept <- slices.Clone(cmd.Args())
			err := context.DeadlineExceeded
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

// TestLateConfirmation: a confirmation that is given up and asked again may reach the server when the
// hold is over. It takes no lock then, and no place in the queue, of which nobody would know.
func TestLateConfirmation(t *testing.T) {
	t.Parallel()
	srv, b := open(t)
	ctx := t.Context()
	waiting := connect(t, srv.Addr)
	l := &late{kept: make(chan []any, 1)}
	waiting.client.AddHook(l)
	held, r := request("h", time.Minute), request("w", time.Minute)
	r.Whole = true // is what has to be confirmed
	must[driver.Grant](t)(b.TryLock(ctx, "k", held))
	w := waitFor(t, waiting, "k", r, 1)
	eventually(t, "that it listens", waiting.waiters.isUp)
	settleCommands(t, srv)
	l.armed.Store(true)
	if err := b.Unlock(ctx, "k", held.ID); err != nil {
		t.Fatal(err)
	}
	if g := grantOf(t, w); g.TTL != r.TTL {
		t.Errorf("%+v", g)
	}
	question := <-l.kept
	for _, s := range []*script{waitScript, confirmScript} { // whichever it was
		if err := b.client.ScriptLoad(ctx, s.source).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := waiting.Unlock(ctx, "k", r.ID); err != nil {
		t.Fatal(err)
	}
	takesNothing(t, b, question)
}

// takesNothing asks a question that is late, whose waiter has left: while nobody holds the key, and while another does.
func takesNothing(t *testing.T, b *backend, question []any) {
	t.Helper()
	ctx := t.Context()
	if err := b.client.Do(ctx, question...).Err(); err != nil {
		t.Fatal(err)
	}
	if h, err := b.Inspect(ctx, "k"); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("%+v, %v: want that nobody holds", h, err)
	}
	other := request("o", time.Minute)
	must[driver.Grant](t)(b.TryLock(ctx, "k", other))
	if err := b.client.Do(ctx, question...).Err(); err != nil {
		t.Fatal(err)
	}
	if h := must[driver.Holder](t)(b.Inspect(ctx, "k")); h.ID != other.ID || h.Waiters != 0 {
		t.Errorf("%+v: want that nobody waits", h)
	}
}

// lateAgain keeps each question of who asks again, and fails it.
type lateAgain struct {
	late
}

func (l *lateAgain) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		args := cmd.Args()
		if args[len(args)-1] != "again" {
			return next(ctx, cmd)
		}
		l.kept <- slices.Clone(args)
		cmd.SetErr(context.DeadlineExceeded)
		return context.DeadlineExceeded
	}
}

// TestLateQuestion: a waiter that is in the queue asks again when the lease in its way is over. A question that was given up
// may reach the server when the waiter has left. It takes nothing then, neither the lock nor a place, of which nobody would
// know until the lease is over.
func TestLateQuestion(t *testing.T) {
	t.Parallel()
	srv, b := open(t)
	ctx := t.Context()
	waiting := connect(t, srv.Addr)
	l := &lateAgain{late{kept: make(chan []any, 1)}}
	waiting.client.AddHook(l)
	r := request("w", time.Minute)
	for ttl := 500 * time.Millisecond; len(l.kept) == 0; ttl *= 2 { // on a busy machine it may be over before somebody waits
		holder := request("h", ttl)
		must[driver.Grant](t)(b.TryLock(ctx, "k", holder))
		if _, err := waiting.Lock(ctx, "k", r, func() {}); err != nil && driver.Definite(err) {
			t.Fatalf("a question without an answer: %v, want an unknown outcome", err)
		}
		if err := waiting.Unlock(ctx, "k", r.ID); err != nil {
			t.Fatal(err)
		}
		if err := b.Unlock(ctx, "k", holder.ID); err != nil && !errors.Is(err, driver.ErrNotHeld) { // it may ask before
			t.Fatal(err)
		}
	}
	question := <-l.kept
	if err := b.client.ScriptLoad(ctx, waitScript.source).Err(); err != nil {
		t.Fatal(err)
	}
	takesNothing(t, b, question)
}
