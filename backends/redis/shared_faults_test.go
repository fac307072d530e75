package redis

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

// TestSharedLostReply: each step whose reply is lost is run once, has an unknown outcome, and can be repeated.
func TestSharedLostReply(t *testing.T) {
	t.Parallel()
	srv, direct := open(t)
	p := proxyTo(t, srv)
	o := clientOptions(p.Addr())
	o.MaxRetries = 3
	l, seen := connectWith(t, o).Shared(), direct.Shared()
	ctx := t.Context()
	for _, s := range direct.shared.all() {
		if err := direct.client.ScriptLoad(ctx, s.source).Err(); err != nil {
			t.Fatal(err)
		}
	}
	lose := func(what string, op func() error) {
		t.Helper()
		_, _ = l.Holders(ctx, "k") // there is a connection
		before := srv.Commands()["evalsha"]
		p.DropReply()
		if err := op(); err == nil || driver.Definite(err) {
			t.Fatalf("%s: %v, want an unknown outcome", what, err)
		}
		if n := srv.Commands()["evalsha"] - before; n != 1 {
			t.Errorf("%s: sent %d times", what, n)
		}
	}
	r := shares("a", permits(3, 4))
	lose("take", func() error { _, err := l.TryLock(ctx, "k", r); return err })
	first := must[[]driver.Holder](t)(seen.Holders(ctx, "k"))
	again := must[driver.Grant](t)(l.TryLock(ctx, "k", r))
	if len(first) != 1 || int64(first[0].Token) != again.Token || again.Slot != 0 || again.Of != 4 {
		t.Errorf("%+v, then %+v, want one hold", first, again)
	}
	must[driver.Grant](t)(seen.TryLock(ctx, "k", shares("beside", permits(1, 4)))) // counted once

	smaller := r
	smaller.Share = permits(1, 4)
	lose("renew", func() error { _, err := l.Renew(ctx, "k", smaller); return err })
	if g := must[driver.Grant](t)(l.Renew(ctx, "k", smaller)); g.Token != again.Token {
		t.Errorf("token %d after %d", g.Token, again.Token)
	}
	must[driver.Grant](t)(seen.TryLock(ctx, "k", shares("beside", permits(2, 4))))

	lose("unlock", func() error { return l.Unlock(ctx, "k", r.ID) })
	next := shares("next", permits(1, 4))
	must[driver.Grant](t)(seen.TryLock(ctx, "k", next))
	if err := l.Unlock(ctx, "k", r.ID); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("repeated unlock: %v, want ErrNotHeld", err)
	}
	must[driver.Grant](t)(seen.Renew(ctx, "k", next))
}

// TestNightlySharedFailover: the master dies. The hold that its replicas have goes on, with its token and slot, and still counts.
// One that they do not have is lost, and no renewal brings it back.
func TestNightlySharedFailover(t *testing.T) {
	t.Parallel()
	r := overSentinels(t)
	l := connectTo(t, r.client()).Shared()
	waits := connectTo(t, r.client(), WithWaitReplicas(len(r.replicas), time.Second)).Shared()
	ctx := t.Context()
	kept, lost := shares("kept", permits(1, 2)), shares("lost", permits(1, 2))
	var held driver.Grant
	// A replica that has just started may still be busy with its files.
	if err := settled(t, func(ctx context.Context) (err error) { held, err = waits.TryLock(ctx, "k", kept); return err }); err != nil {
		t.Fatal(err)
	}
	first := r.master()
	r.cutOff(t)
	gone := must[driver.Grant](t)(l.TryLock(ctx, "k", lost))
	first.Kill()
	for _, s := range r.replicas {
		s.Resume()
	}
	if err := settled(t, func(ctx context.Context) error { return second(l.Renew(ctx, "k", lost)) }); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("the lost hold was renewed: %v, want ErrNotHeld", err)
	}
	if g := must[driver.Grant](t)(l.Renew(ctx, "k", kept)); g.Token != held.Token || g.Slot != held.Slot {
		t.Errorf("renewed with %+v, want token and slot of %+v", g, held)
	}
	if g := must[driver.Grant](t)(l.TryLock(ctx, "k", shares("next", permits(1, 2)))); g.Token <= gone.Token {
		t.Errorf("token %d after %d, which was lost", g.Token, gone.Token)
	}
	if _, err := l.TryLock(ctx, "k", shares("third", permits(1, 2))); !errors.Is(err, driver.ErrLocked) {
		t.Errorf("a third of two: %v, want ErrLocked", err)
	}
}

// holdMany has n goroutines of the clients hold one of most permits, each rounds times, and fails if more hold one at once.
func holdMany(t *testing.T, clients []*coord.Client, n, most, rounds int) {
	t.Helper()
	var inside atomic.Int64
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for range rounds {
				l, err := clients[i%len(clients)].Semaphore(most).Lock(t.Context(), "k")
				if err != nil {
					t.Errorf("Lock: %v", err)
					return
				}
				if now := inside.Add(1); now > int64(most) && l.Err() == nil {
					t.Errorf("%d hold one of %d permits", now, most)
				}
				inside.Add(-1)
				// One that is not confirmed in time is made in the background.
				if err := l.Unlock(t.Context()); err != nil && !errors.Is(err, coord.ErrUnavailable) {
					t.Errorf("Unlock: %v", err)
				}
			}
		})
	}
	wg.Wait()
}

// TestNightlySharedManyCallers: 64 goroutines of 4 clients at a semaphore of 16, and then five thousand callers at once. All are served,
// never more than 16 hold a permit, and nobody is left.
func TestNightlySharedManyCallers(t *testing.T) {
	t.Parallel()
	b := shared(t)
	clients := make([]*coord.Client, 4)
	for i := range clients {
		o := optionsOf(b)
		o.ReadTimeout, o.WriteTimeout = hung, hung // of thousands of requests at once
		clients[i] = coordOver(t, connectWith(t, o))
	}
	holdMany(t, clients, 64, 16, 20)
	holdMany(t, clients, 5000, 16, 1)
	eventually(t, "that all permits are free", func() bool {
		_, err := b.Shared().TryLock(t.Context(), "k\x00s", shares("all", permits(16, 16)))
		return err == nil
	})
}

// coordOver gives a client of coord over b, closed with the test.
func coordOver(t testing.TB, b driver.Backend, opts ...coord.Option) *coord.Client {
	t.Helper()
	c, err := coord.New(b, append(opts, coord.WithLogger(slog.New(slog.DiscardHandler)))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}
