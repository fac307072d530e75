package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

// TestHandOverCostsTwoScripts: that of the release, which offers the lock, and that by which the waiter takes
// it: with the whole of its lease.
func TestHandOverCostsTwoScripts(t *testing.T) {
	t.Parallel()
	srv, b := open(t)
	ctx := t.Context()
	clients := []*backend{pushed(t, b), pushed(t, b)}
	scripts := func() int64 { c := srv.Commands(); return c["evalsha"] + c["eval"] }
	held := request("h", time.Minute)
	must[driver.Grant](t)(b.TryLock(ctx, "k", held))
	if err := b.Unlock(ctx, "k", "nobody"); !errors.Is(err, driver.ErrNotHeld) { // the server learns the script
		t.Fatal(err)
	}
	var waits []<-chan answer
	var requests []driver.Request
	for i := range 10 {
		r := request(fmt.Sprint("w", i), time.Minute)
		requests, waits = append(requests, r), append(waits, waitFor(t, clients[i%2], "k", r, i+1))
	}
	for _, c := range clients {
		eventually(t, "that it listens", c.waiters.isUp)
	}
	settleCommands(t, srv)
	before := scripts()
	id := held.ID
	for i, w := range waits {
		if err := b.Unlock(ctx, "k", id); err != nil {
			t.Fatal(err)
		}
		g := grantOf(t, w)
		if g.TTL != time.Minute {
			t.Errorf("waiter %d: %+v", i, g)
		}
		id = requests[i].ID
	}
	// One that is told too late asks twice, and others are told that they are next for good.
	if n := scripts() - before; n < int64(2*len(waits)) || n > int64(3*len(waits)) {
		t.Errorf("%d scripts for %d hand-overs", n, len(waits))
	}
}

// TestMessagesThatAreNotTrue: a waiter that is told of an offer that has lapsed, or was never made, asks,
// and waits on.
func TestMessagesThatAreNotTrue(t *testing.T) {
	t.Parallel()
	srv, b := open(t)
	ctx := t.Context()
	waiting := pushed(t, b)
	held, r := request("h", time.Minute), request("w", time.Minute)
	must[driver.Grant](t)(b.TryLock(ctx, "k", held))
	w := waitFor(t, waiting, "k", r, 1)
	eventually(t, "that it listens", waiting.waiters.isUp)
	settleCommands(t, srv)
	scripts := func() int64 { c := srv.Commands(); return c["evalsha"] + c["eval"] }
	for _, message := range []string{"1", "1 x y z", "1 0", "1 -5"} {
		before := scripts()
		if n := b.client.Publish(ctx, waiting.waiters.only.channel, message).Val(); n != 1 {
			t.Fatalf("%d have heard", n)
		}
		eventually(t, message+": that it asks", func() bool { return scripts() > before })
	}
	for _, message := range []string{"", "x", "2", "1 3600000"} { // and nonsense
		b.client.Publish(ctx, waiting.waiters.only.channel, message)
	}
	select {
	case a := <-w:
		t.Fatalf("%+v, and another holds", a)
	case <-time.After(50 * time.Millisecond):
	}
	holderIs(t, b, "k", held.ID)
	if err := b.Unlock(ctx, "k", held.ID); err != nil {
		t.Fatal(err)
	}
	grantOf(t, w)
}

// slow makes connections that deliver everything to subscribers late.
type slow struct {
	tapped
	by atomic.Int64
}

func (s *slow) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return s.tapped.dial(ctx, network, addr, func(read func([]byte) (int, error), p []byte) (int, error) {
		n, err := read(p)
		time.Sleep(time.Duration(s.by.Load()))
		return n, err
	})
}

// TestLateMessage: a waiter that is told of its offer when that is over, as one that was frozen, has the
// lock all the same when nobody else has taken it.
func TestLateMessage(t *testing.T) {
	t.Parallel()
	srv, b := open(t)
	var s slow
	o := clientOptions(srv.Addr)
	o.Dialer = s.dial
	waiting := connectWith(t, o)
	waiting.waiters.every = time.Hour
	held, r := request("h", time.Minute), request("w", time.Minute)
	first := must[driver.Grant](t)(b.TryLock(t.Context(), "k", held)).Token
	w := waitFor(t, waiting, "k", r, 1)
	eventually(t, "that it listens", waiting.waiters.isUp)
	settleCommands(t, srv)
	s.by.Store(int64(300 * time.Millisecond))
	if err := b.Unlock(t.Context(), "k", held.ID); err != nil {
		t.Fatal(err)
	}
	g := grantOf(t, w)
	if g.Token <= first || g.TTL != r.TTL {
		t.Errorf("%+v after token %d", g, first)
	}
	if left := b.client.PTTL(t.Context(), lockKey("k")).Val() + time.Millisecond; time.Until(g.Since.Add(g.TTL)) > left {
		t.Errorf("said to end in %v, ends in %v", time.Until(g.Since.Add(g.TTL)), left)
	}
}

// TestPatience: a lock is offered to a client for as long as its answers take twice, and some more. One
// that is frozen once does not make others wait for it from then on.
func TestPatience(t *testing.T) {
	l := &waiters{least: offerLeast}
	if p := l.offerTime(); p != 250*time.Millisecond {
		t.Errorf("%v, and nothing is known", p)
	}
	for _, tt := range []struct{ took, want time.Duration }{
		{200 * time.Millisecond, 450 * time.Millisecond},
		{time.Millisecond, 52 * time.Millisecond},
		{401 * time.Millisecond, 152 * time.Millisecond},
		{time.Millisecond, 52 * time.Millisecond},
		{time.Minute, offerLeast + offerMost},
	} {
		l.measured(tt.took)
		if p := l.offerTime(); p != tt.want {
			t.Errorf("%v after an answer that took %v, want %v", p, tt.took, tt.want)
		}
	}
}
