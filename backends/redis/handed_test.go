package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

// TestHandedGrant: what a waiter that was told of its grant knows for sure, by whatever its
// clock and the server's show.
func TestHandedGrant(t *testing.T) {
	now := time.Now()
	heard, other := hearing{ear: &ear{}, ups: 3}, hearing{ear: &ear{}, ups: 3}
	again := heard
	again.ups++
	asked := func(ago time.Duration, at int64) look {
		l := lookAt(now.Add(-ago), heard)
		l.at = at
		return l
	}
	elsewhere, before, slept := asked(time.Second, 1000), asked(time.Second, 1000), asked(time.Second, 1000)
	elsewhere.heard, before.heard = other, again
	slept.wall = slept.wall.Add(-time.Hour)
	told := func(at int64, lease time.Duration) handed {
		return handed{token: 7, lease: lease, at: at, heard: heard}
	}
	for name, tt := range map[string]struct {
		h     handed
		l     look
		asked time.Duration
		ok    bool
		since time.Duration // before now
	}{
		"a second ago, told at once":       {h: told(2000, time.Second), l: asked(time.Second, 1000), ok: true, since: 11 * time.Millisecond},
		"told late":                        {h: told(2000, time.Second), l: asked(1400*time.Millisecond, 1000), ok: true, since: 415 * time.Millisecond},
		"told so late that half is gone":   {h: told(2000, time.Second), l: asked(1500*time.Millisecond, 1000)},
		"told after it has lapsed":         {h: told(2000, time.Second), l: asked(10*time.Second, 1000)},
		"answered since that it waits":     {h: told(2000, time.Second), l: asked(0, 2001)},
		"in the millisecond of the answer": {h: told(2000, time.Second), l: asked(0, 2000), ok: true, since: time.Millisecond},
		"the server's clock was set on":    {h: told(2500, time.Second), l: asked(time.Second, 1000)},
		"the server's clock was set back":  {h: told(900, time.Second), l: asked(time.Second, 1000)},
		"no answer yet":                    {h: told(2000, time.Second)},
		"another subscription":             {h: told(2000, time.Second), l: before},
		"another node":                     {h: told(2000, time.Second), l: elsewhere},
		"this machine has slept":           {h: told(2000, time.Second), l: slept},
		"a whole lease":                    {h: told(2000, 300*time.Millisecond), l: asked(time.Second, 1000), asked: 300 * time.Millisecond, ok: true, since: 11 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.asked == 0 {
				tt.asked = time.Minute
			}
			g, ok := tt.h.grant(tt.l, now, tt.asked)
			if ok != tt.ok {
				t.Fatalf("certain: %v, want %v (%+v)", ok, tt.ok, g)
			}
			if !ok {
				return
			}
			if g.Token != 7 || g.TTL != tt.h.lease || g.Provisional != (tt.h.lease < tt.asked) {
				t.Errorf("%+v", g)
			}
			if ago := now.Sub(g.Since); ago != tt.since {
				t.Errorf("the lease began %v ago, want %v", ago, tt.since)
			}
		})
	}
}

func TestParseHanded(t *testing.T) {
	if h, ok := parseHanded("1795293537134371 1000 1795293537134"); !ok ||
		h != (handed{token: 1795293537134371, lease: time.Second, at: 1795293537134}) {
		t.Errorf("%+v, %v", h, ok)
	}
	for _, bad := range []string{
		"", "1000", "1 1000", "1 1000 5 9", "0 1000 5", "9007199254740992 1000 5", "1 0 5", "1 -1 5", "1 9999999999999 5", "x 1000 5", "1 1000 ",
	} {
		if h, ok := parseHanded(bad); ok {
			t.Errorf("%q: %+v", bad, h)
		}
	}
}

// wholeLease makes of g what the core does of it at once.
func wholeLease(t *testing.T, b *backend, key string, r driver.Request, g driver.Grant) driver.Grant {
	t.Helper()
	if !g.Provisional {
		t.Fatalf("%+v: want a provisional grant", g)
	}
	whole := must[driver.Grant](t)(b.Renew(t.Context(), key, r))
	if whole.Token != g.Token || whole.TTL != r.TTL || whole.Provisional {
		t.Errorf("renewed %+v, granted %+v", whole, g)
	}
	return whole
}

// TestHandOverCostsOneScript: that of the release. The waiter has the lock when it is told.
func TestHandOverCostsOneScript(t *testing.T) {
	srv, b := open(t)
	ctx := t.Context()
	clients := []*backend{pushed(t, srv), pushed(t, srv)}
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
		eventually(t, "that it listens", c.line.isUp)
	}
	settleCommands(t, srv)
	before := scripts()
	id := held.ID
	for i, w := range waits {
		if err := b.Unlock(ctx, "k", id); err != nil {
			t.Fatal(err)
		}
		g := grantOf(t, w)
		if !g.Provisional || g.TTL != time.Second || time.Since(g.Since) > 500*time.Millisecond {
			t.Errorf("waiter %d: %+v", i, g)
		}
		id = requests[i].ID
	}
	if n := scripts() - before; n != int64(len(waits)) {
		t.Errorf("%d scripts for %d hand-overs", n, len(waits))
	}
	wholeLease(t, clients[1], "k", requests[9], driver.Grant{Token: grantToken(t, b, "k"), Provisional: true})
}

func grantToken(t *testing.T, b *backend, key string) int64 {
	t.Helper()
	return int64(must[driver.Holder](t)(b.Inspect(t.Context(), key)).Token)
}

// TestWholeLeaseIsConfirmed: a waiter that needs the whole of its lease asks for it before it
// goes on, and one whose lease is shorter than what is granted provisionally has all of it.
func TestWholeLeaseIsConfirmed(t *testing.T) {
	srv, b := open(t)
	ctx := t.Context()
	waiting := pushed(t, srv)
	for name, tt := range map[string]struct {
		ttl         time.Duration
		whole       bool
		provisional bool
	}{
		"long": {time.Minute, false, true}, "long and whole": {time.Minute, true, false}, "short": {800 * time.Millisecond, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			held, r := request("h", time.Minute), request("w", tt.ttl)
			r.Whole = tt.whole
			must[driver.Grant](t)(b.TryLock(ctx, "k", held))
			w := waitFor(t, waiting, "k", r, 1)
			eventually(t, "that it listens", waiting.line.isUp)
			settleCommands(t, srv)
			start := time.Now()
			if err := b.Unlock(ctx, "k", held.ID); err != nil {
				t.Fatal(err)
			}
			g := grantOf(t, w)
			if told := time.Since(start); told < 200*time.Millisecond && g.Provisional != tt.provisional || !g.Provisional && g.TTL != tt.ttl {
				t.Errorf("%+v", g)
			}
			// The way to the server and back when its clock was seen, on a busy machine.
			if early := start.Sub(g.Since); early > 300*time.Millisecond {
				t.Errorf("the lease is said to have begun %v before the release", early)
			}
			if err := waiting.Unlock(ctx, "k", r.ID); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestMessagesThatAreNotTrue: a waiter that is told of a grant that has lapsed, was never made, or
// is dated by a clock that was set, asks, and waits on.
func TestMessagesThatAreNotTrue(t *testing.T) {
	srv, b := open(t)
	ctx := t.Context()
	waiting := pushed(t, srv)
	held, r := request("h", time.Minute), request("w", time.Minute)
	must[driver.Grant](t)(b.TryLock(ctx, "k", held))
	w := waitFor(t, waiting, "k", r, 1)
	eventually(t, "that it listens", waiting.line.isUp)
	settleCommands(t, srv)
	token := grantToken(t, b, "k") + 1
	now := must[time.Time](t)(b.client.Time(ctx).Result()).UnixMilli()
	scripts := func() int64 { c := srv.Commands(); return c["evalsha"] + c["eval"] }
	for what, at := range map[string]int64{"long ago": now - 60_000, "just lapsed": now - 1000, "half over": now - 500, "to come": now + 60_000} {
		before := scripts()
		if n := b.client.Publish(ctx, waiting.line.only.channel, fmt.Sprintf("1 %d 1000 %d", token, at)).Val(); n != 1 {
			t.Fatalf("%d have heard", n)
		}
		eventually(t, what+": that it asks", func() bool { return scripts() > before })
	}
	for range 3 { // and nonsense
		b.client.Publish(ctx, waiting.line.only.channel, "1 x y z")
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
	wholeLease(t, waiting, "k", r, grantOf(t, w))
}

// slow makes connections on which a client, once it listens, hears everything late.
type slow struct{ by atomic.Int64 }

func (s *slow) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	return &slowConn{Conn: conn, slow: s}, err
}

type slowConn struct {
	net.Conn
	slow    *slow
	listens atomic.Bool
}

func (c *slowConn) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "subscribe") {
		c.listens.Store(true)
	}
	return c.Conn.Write(p)
}

func (c *slowConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.listens.Load() {
		time.Sleep(time.Duration(c.slow.by.Load()))
	}
	return n, err
}

// TestLateMessage: a waiter that is told late, as one is that was frozen, has what is left for
// certain, or else asks first; and if its grant has lapsed, has a later one.
func TestLateMessage(t *testing.T) {
	for by, provisional := range map[time.Duration]bool{
		100 * time.Millisecond: true, 700 * time.Millisecond: false, 1300 * time.Millisecond: false,
	} {
		t.Run(by.String(), func(t *testing.T) {
			t.Parallel()
			srv, b := open(t)
			var s slow
			o := clientOptions(srv.Addr)
			o.Dialer = s.dial
			waiting := connectWith(t, o)
			waiting.line.every = time.Hour
			held, r := request("h", time.Minute), request("w", time.Minute)
			must[driver.Grant](t)(b.TryLock(t.Context(), "k", held))
			w := waitFor(t, waiting, "k", r, 1)
			eventually(t, "that it listens", waiting.line.isUp)
			settleCommands(t, srv)
			s.by.Store(int64(by))
			start := time.Now()
			if err := b.Unlock(t.Context(), "k", held.ID); err != nil {
				t.Fatal(err)
			}
			first := grantToken(t, b, "k")
			g := grantOf(t, w)
			late := time.Since(start)
			if late-by < 200*time.Millisecond && (g.Provisional != provisional || (g.Token == first) == (by > time.Second)) {
				t.Errorf("%+v, %v after token %d was given", g, late, first)
			}
			if left := b.client.PTTL(t.Context(), lockKey("k")).Val() + time.Millisecond; time.Until(g.Since.Add(g.TTL)) > left {
				t.Errorf("said to end in %v, ends in %v", time.Until(g.Since.Add(g.TTL)), left)
			}
		})
	}
}
