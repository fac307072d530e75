package memcached

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/cas"
	"github.com/coordgo/coord/internal/testserver"
)

// shared makes a request for a shared hold.
func shared(name string, s driver.Share) driver.Request {
	r := request(name, time.Minute)
	r.Share = s
	return r
}

var (
	reader = driver.Share{Mode: driver.Read}
	writer = driver.Share{Mode: driver.Write}
)

func sharedItem(key string) string { return nameOf(key).key(sharedKind) }

// sharedCalls makes each call on a key that changes something.
func sharedCalls(ctx context.Context, l driver.SharedLocker, key string, r driver.Request) map[string]error {
	_, renewed := l.Renew(ctx, key, r)
	return map[string]error{
		"Renew":  renewed,
		"Break":  l.Break(ctx, key, r.ID),
		"Unlock": l.Unlock(ctx, key, r.ID),
	}
}

// Each step takes two commands, and one where it changes nothing.
func TestSharedRoundTrips(t *testing.T) {
	t.Parallel()
	srv, b := open(t, "-M")
	l, ctx := b.Shared(), t.Context()
	one, two, three, head := shared("one", reader), shared("two", reader), shared("three", writer), shared("head", writer)
	head.Share.Head = true
	try := func(r driver.Request, want error) func() error {
		return func() error {
			if _, err := l.TryLock(ctx, "k", r); !errors.Is(err, want) {
				return err
			}
			return nil
		}
	}
	unlock := func(r driver.Request) func() error {
		return func() error { return l.Unlock(ctx, "k", r.ID) }
	}
	for _, step := range []struct {
		name string
		want int64
		do   func() error
	}{
		{"TryLock, first", 2, try(one, nil)},
		{"TryLock beside it", 2, try(two, nil)},
		{"TryLock that is refused", 1, try(three, driver.ErrLocked)},
		{"Renew", 2, func() error { _, err := l.Renew(ctx, "k", one); return err }},
		{"Break", 2, func() error { return l.Break(ctx, "k", two.ID) }},
		{"Holders", 1, func() error { _, err := l.Holders(ctx, "k"); return err }},
		{"Unlock", 2, unlock(one)},
		{"TryLock of the head that is refused", 2, try(head, driver.ErrLocked)},
		{"Unlock of the head", 2, unlock(head)},
	} {
		if got := roundTrips(t, srv, step.do); got != step.want {
			t.Errorf("%s: %d commands, want %d", step.name, got, step.want)
		}
	}
}

// What is there and is not the record of this key is told, and left as it is.
func TestSharedForeignItems(t *testing.T) {
	t.Parallel()
	_, b := open(t, "-M")
	l, ctx, r := b.Shared(), t.Context(), shared("a", reader)
	long := strings.Repeat("n", 300)
	for _, key := range []string{"good", long} {
		must[driver.Grant](t)(l.TryLock(ctx, key, r))
	}
	text := func(key string) string { return string(must[*memcache.Item](t)(b.client.Get(sharedItem(key))).Value) }
	good, named := text("good"), text(long)
	if !strings.HasPrefix(good, "coord-shared 1 token=") || !strings.HasPrefix(named, "coord-shared 1 token=") || !strings.HasSuffix(named, "\nkey="+long+"\n") {
		t.Errorf("the items are %q and %q", good, named)
	}
	foreign := map[string][]string{
		"k": {
			"", "\n", "mine", good + "\n", good[:len(good)-1], strings.Replace(good, "coord-shared 1", "coord-shared 2", 1),
			strings.Replace(good, "held", "lent", 1), named,
		},
		strings.Repeat("k", 300): {"", "mine", good, named, "key=" + strings.Repeat("k", 300) + "\n"},
	}
	for key, texts := range foreign {
		for _, want := range texts {
			if err := b.client.Set(&memcache.Item{Key: sharedItem(key), Value: []byte(want)}); err != nil {
				t.Fatal(err)
			}
			calls := sharedCalls(ctx, l, key, r)
			_, calls["TryLock"] = l.TryLock(ctx, key, shared("b", reader))
			_, calls["Holders"] = l.Holders(ctx, key)
			for what, err := range calls {
				if !errors.Is(err, driver.ErrCorrupt) {
					t.Errorf("%s over %.60q: %v, want ErrCorrupt", what, want, err)
				}
			}
			if got := text(key); got != want {
				t.Errorf("%q became %q", want, got)
			}
		}
	}
}

// A full server refuses what needs a new item, and that is every change. Nothing of it is left behind, and what is there
// stays: it can be looked at, and ends with its lease.
func TestSharedFullServer(t *testing.T) {
	t.Parallel()
	for what, connect := range map[string]func(addr string) *backend{
		"own":           func(addr string) *backend { return must[*backend](t)(openURL(t, "memcached://"+addr)) },
		"application's": func(addr string) *backend { return connect(t, addr) },
	} {
		t.Run(what, func(t *testing.T) {
			srv := testserver.Memcached(t, testserver.WithFlags("-m", "2", "-M"))
			l, ctx, r := connect(srv.Addr).Shared(), t.Context(), shared("a", reader)
			r.TTL = time.Hour // to fill the server takes a while
			must[driver.Grant](t)(l.TryLock(ctx, "k", r))
			must[driver.Grant](t)(l.TryLock(ctx, "0", r))
			if err := l.Unlock(ctx, "0", r.ID); err != nil {
				t.Fatal(err)
			}
			fillUp(t, srv, sharedItem("k"))
			fillUp(t, srv, sharedItem("0")) // which has the size that the other one has after Unlock
			calls := sharedCalls(ctx, l, "k", r)
			_, calls["TryLock"] = l.TryLock(ctx, "other", shared("b", reader))
			for call, err := range calls {
				if !errors.Is(err, driver.ErrNotSent) {
					t.Errorf("%s: %v, want ErrNotSent", call, err)
				}
			}
			if all := must[[]driver.Holder](t)(l.Holders(ctx, "k")); len(all) != 1 || all[0].ID != r.ID || all[0].Released {
				t.Errorf("held by %+v", all)
			}
			if all := must[[]driver.Holder](t)(l.Holders(ctx, "other")); len(all) != 0 {
				t.Errorf("a refused TryLock has left %+v", all)
			}
			srv.Text("delete " + sharedItem("0"))
			if err := l.Unlock(ctx, "k", r.ID); err != nil {
				t.Errorf("Unlock when there is room again: %v", err)
			}
		})
	}
}

// A full server ends a shared hold: its holder is told when its lease is over, and nobody is granted the key before there
// is room again.
func TestSharedHoldOnAFullServer(t *testing.T) {
	t.Parallel()
	srv := testserver.Memcached(t, testserver.WithFlags("-m", "2", "-M"))
	client := func() *coord.Client {
		b := must[*backend](t)(openURL(t, "memcached://"+srv.Addr))
		c := must[*coord.Client](t)(coord.New(b, coord.WithLogger(slog.New(slog.DiscardHandler))))
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	holder, rival := client().ReadWrite().Read(), client().ReadWrite().Write()
	l := must[*coord.Lock](t)(holder.Lock(t.Context(), "k", coord.TTL(3*time.Second)))
	item := sharedItem("k\x00r")
	fillUp(t, srv, item)
	<-l.Done()
	if !errors.Is(l.Err(), coord.ErrLost) {
		t.Errorf("the hold ended with %v, want ErrLost", l.Err())
	}
	next, err := rival.TryLock(t.Context(), "k")
	if err != nil { // else the record has lapsed meanwhile, which makes room for one
		if !errors.Is(err, coord.ErrUnavailable) && !errors.Is(err, coord.ErrLocked) {
			t.Errorf("a writer on the full server: %v, want a refusal", err)
		}
		srv.Text("delete " + filler(item, 0))
		next = must[*coord.Lock](t)(rival.Lock(t.Context(), "k"))
	}
	if next.Token() <= l.Token() {
		t.Errorf("token %d after %d", next.Token(), l.Token())
	}
}

// An item that is evicted, flushed or lost in a restart takes its holds with it. No renewal brings them back, and tokens go
// on rising.
func TestSharedLost(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, srv *testserver.Server, connect func(string) *backend) {
		l, ctx, last := connect(srv.Addr).Shared(), t.Context(), int64(0)
		for what, lose := range map[string]func(){
			"eviction":  func() { srv.Text("delete " + sharedItem("k")) },
			"flush_all": func() { srv.Text("flush_all") },
			"restart":   srv.Restart,
		} {
			r, next := shared("a", writer), shared("b", writer)
			g := must[driver.Grant](t)(l.TryLock(ctx, "k", r))
			lose()
			if _, err := eventually(func() (driver.Grant, error) { return l.Renew(ctx, "k", r) }); !errors.Is(err, driver.ErrNotHeld) {
				t.Errorf("Renew after %s: %v", what, err)
			}
			again, err := eventually(func() (driver.Grant, error) { return l.TryLock(ctx, "k", next) })
			if err != nil || again.Token <= g.Token || g.Token <= last {
				t.Errorf("tokens %d, %d, and %d after %s: %v", last, g.Token, again.Token, what, err)
			}
			last = again.Token
			for call, err := range sharedCalls(ctx, l, "k", r) {
				if !errors.Is(err, driver.ErrNotHeld) {
					t.Errorf("%s of the lost hold: %v", call, err)
				}
			}
			if err := l.Unlock(ctx, "k", next.ID); err != nil {
				t.Error(err)
			}
		}
	})
}

// Clocks that are apart by no more than clockSkew end no lease early, whoever is ahead. What they are apart beyond it is
// missing at the end of a lease, as doc.go says.
func TestSharedClocksThatDiffer(t *testing.T) {
	t.Parallel()
	srv := testserver.Memcached(t, testserver.WithFlags("-M"))
	one, other := connect(t, srv.Addr), connect(t, srv.Addr)
	start := time.Now().Truncate(time.Microsecond)
	for apart, free := range map[time.Duration]time.Duration{
		0:                        time.Minute + clockSkew,
		clockSkew:                time.Minute,
		-clockSkew:               time.Minute + 2*clockSkew,
		clockSkew + time.Second:  time.Minute - time.Second,
		-clockSkew - time.Second: time.Minute + 2*clockSkew + time.Second,
	} {
		var passed time.Duration
		one.clock = func() time.Time { return start.Add(passed) }
		other.clock = func() time.Time { return start.Add(passed + apart) }
		key, ctx := apart.String(), t.Context()
		g := must[driver.Grant](t)(one.Shared().TryLock(ctx, key, shared("a", writer)))
		if g.TTL != time.Minute {
			t.Errorf("granted for %v", g.TTL)
		}
		next := shared("b", writer)
		passed = free - time.Microsecond
		if _, err := other.Shared().TryLock(ctx, key, next); !errors.Is(err, driver.ErrLocked) {
			t.Errorf("a client %v ahead, %v after the grant: %v, want ErrLocked", apart, passed, err)
		}
		passed = free
		h, err := other.Shared().TryLock(ctx, key, next)
		if err != nil || h.Token <= g.Token {
			t.Errorf("a client %v ahead, %v after the grant: token %d after %d, %v", apart, passed, h.Token, g.Token, err)
		}
	}
}

// Who is told by a token that another clock is too far ahead says so, once.
func TestSharedClockAheadIsWarnedOf(t *testing.T) {
	t.Parallel()
	srv := testserver.Memcached(t, testserver.WithFlags("-M"))
	log, text := textLogger()
	b, other, ctx := connect(t, srv.Addr, WithLogger(log)), connect(t, srv.Addr), t.Context()
	start := time.Now()
	b.clock = func() time.Time { return start }
	for i, ahead := range []time.Duration{-time.Hour, clockSkew - time.Millisecond, clockSkew + time.Second, time.Hour} {
		other.clock = func() time.Time { return start.Add(ahead) }
		key := fmt.Sprint("k", i)
		must[driver.Grant](t)(other.Shared().TryLock(ctx, key, shared("a", reader)))
		must[driver.Grant](t)(b.Shared().TryLock(ctx, key, shared("b", reader)))
		if warned := strings.Contains(text.String(), "clock is ahead"); warned != (ahead > clockSkew) {
			t.Errorf("warned of a client %v ahead: %v: %q", ahead, warned, text)
		}
	}
	if warned := strings.Count(text.String(), "\n"); warned != 1 {
		t.Errorf("warned %d times: %q", warned, text)
	}
}

// The item is there for longer than the leases in it, and not for ever.
func TestSharedItemsOutliveTheirLeases(t *testing.T) {
	t.Parallel()
	srv, b := open(t, "-M")
	for key, ttl := range map[string]time.Duration{"short": time.Second, "long": 29 * 24 * time.Hour, "longest": maxTTL} {
		r := shared("a", reader)
		r.TTL = ttl
		must[driver.Grant](t)(b.Shared().TryLock(t.Context(), key, r))
		line := srv.Text("mg " + sharedItem(key) + " t")[0]
		var left int64
		if _, err := fmt.Sscanf(line, "HD t%d", &left); err != nil {
			t.Fatalf("%s: %q", key, line)
		}
		if least := ceilSeconds(ttl + clockSkew + cas.TokenMemory - hung); left < least || left > least+2*int64(clockMargin) {
			t.Errorf("%s: a lease of %v is in an item that expires in %ds", key, ttl, left)
		}
	}
}

// While a server of ours has another list, nothing is granted, and what is held is kept and given up.
func TestSharedOfAnotherList(t *testing.T) {
	t.Parallel()
	srv := testserver.Memcached(t, testserver.WithFlags("-M"))
	b := must[*backend](t)(openURL(t, "memcached://"+srv.Addr))
	l, ctx, r := b.Shared(), t.Context(), shared("a", reader)
	must[driver.Grant](t)(l.TryLock(ctx, "k", r))
	b.pools.byAddr[srv.Addr].seen.set(&ServersError{Server: srv.Addr}, time.Now().Add(hung))
	var other *ServersError
	if _, err := l.TryLock(ctx, "k", shared("b", reader)); !errors.As(err, &other) || !driver.Definite(err) {
		t.Errorf("TryLock: %v, want a ServersError", err)
	}
	must[[]driver.Holder](t)(l.Holders(ctx, "k"))
	must[driver.Grant](t)(l.Renew(ctx, "k", r))
	if err := l.Unlock(ctx, "k", r.ID); err != nil {
		t.Error(err)
	}
}

// A server that restarts counts cas ids again. A record that was read from the one before is not swapped for one that now
// has its id.
func TestSharedOnARestartedServer(t *testing.T) {
	t.Parallel()
	srv := testserver.Memcached(t, testserver.WithFlags("-M"))
	b := must[*backend](t)(openURL(t, "memcached://"+srv.Addr))
	ctx, r := t.Context(), shared("a", writer)
	must[driver.Grant](t)(b.Shared().TryLock(ctx, "k", r))
	item := func() *memcache.Item {
		client := newClient(srv.Addr)
		defer client.Close()
		return must[*memcache.Item](t)(client.Get(sharedItem("k")))
	}
	next, restarted := shared("next", writer), false
	cells := sharedCells{b: b}
	err := cells.Update(ctx, cas.Name{Kind: cas.Shared, Key: "k"}, func(old []byte, _ time.Time) (cas.Change, error) {
		if restarted {
			return cas.Change{}, driver.ErrNotHeld
		}
		was := item()
		srv.Restart()
		restarted = true
		rival := must[*backend](t)(openURL(t, "memcached://"+srv.Addr)).Shared()
		must[driver.Grant](t)(rival.TryLock(ctx, "k", next))
		for item().CasID < was.CasID {
			must[driver.Grant](t)(rival.Renew(ctx, "k", next))
		}
		return cas.Change{Write: true, Value: old, Keep: time.Hour}, nil
	})
	if err == nil {
		t.Error("the swap was made on the restarted server")
	}
	if text := string(item().Value); !strings.Contains(text, next.ID) || strings.Contains(text, r.ID) {
		t.Errorf("the other's hold is now %q", text)
	}
}

// Many that change one key over few connections all come through, each in a slot of its own.
func TestSharedContention(t *testing.T) {
	t.Parallel()
	srv := testserver.Memcached(t, testserver.WithFlags("-M"))
	clients := []driver.SharedLocker{
		patient(t, srv.Addr, listLife, 1).Shared(), patient(t, srv.Addr, listLife, 2).Shared(), connect(t, srv.Addr).Shared(),
	}
	type granted struct {
		slot int
		err  error
	}
	all := make(chan granted)
	for i := range cas.MaxHolders {
		go func() {
			g, err := clients[i%len(clients)].TryLock(t.Context(), "k", shared(fmt.Sprint("client", i), reader))
			all <- granted{g.Slot, err}
		}()
	}
	slots := make(map[int]bool)
	for range cas.MaxHolders {
		g := <-all
		if g.err != nil {
			t.Error(g.err)
		}
		slots[g.slot] = true
	}
	for i := range cas.MaxHolders {
		if !slots[i] {
			t.Errorf("nobody is in slot %d", i)
		}
	}
	if _, err := clients[0].TryLock(t.Context(), "k", shared("more", reader)); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("one more: %v, want ErrUnsupported", err)
	}
}

// The holds of a client on one key are renewed together, and its takes do not defeat each other: two commands each time.
func TestSharedHoldsOfOneClient(t *testing.T) {
	t.Parallel()
	srv, b := open(t, "-M")
	l, ctx := b.Shared(), t.Context()
	batch := make([]driver.Hold, cas.MaxHolders)
	for i := range batch {
		batch[i] = driver.Hold{Key: "k", Request: shared("one", reader)}
	}
	took := roundTrips(t, srv, func() error {
		var wg sync.WaitGroup
		for _, h := range batch {
			wg.Go(func() {
				if _, err := l.TryLock(ctx, h.Key, h.Request); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		return nil
	})
	if want := int64(2 * len(batch)); took != want {
		t.Errorf("%d takes at the same time: %d commands, want %d", len(batch), took, want)
	}
	renewed := roundTrips(t, srv, func() error {
		for i, r := range l.RenewAll(ctx, batch) {
			if r.Err != nil {
				t.Errorf("hold %d: %v", i, r.Err)
			}
		}
		return nil
	})
	if renewed != 2 {
		t.Errorf("%d renewals: %d commands, want 2", len(batch), renewed)
	}
}

// crowdOfPermits has so many clients take a permit each of one key and renew it again and again, all at the same time. None loses
// its hold.
func crowdOfPermits(t *testing.T, clients, renewals int) {
	t.Helper()
	srv := testserver.Memcached(t, testserver.WithFlags("-M"))
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	start := make(chan struct{})
	var wg sync.WaitGroup
	locker := func() driver.SharedLocker { return must[*backend](t)(openURL(t, "memcached://"+srv.Addr)).Shared() }
	for range clients {
		l, r := locker(), shared("client", driver.Share{Mode: driver.Permits, Weight: 1, Of: int64(clients)})
		wg.Go(func() {
			<-start
			g, err := l.TryLock(ctx, "k", r)
			for n := 0; err == nil && n < renewals; n++ {
				var again driver.Grant
				if again, err = l.Renew(ctx, "k", r); err == nil && again.Token != g.Token {
					t.Errorf("renewed as %+v, granted as %+v", again, g)
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	commands := roundTrips(t, srv, func() error {
		close(start)
		wg.Wait()
		return nil
	})
	if live, err := locker().Holders(ctx, "k"); err != nil || len(live) != clients {
		t.Errorf("%d holders, %v, want %d", len(live), err, clients)
	}
	t.Logf("%d clients: %.1f commands for each take and renewal", clients, float64(commands)/float64(clients*(renewals+1)))
}

func TestCrowdOfPermits(t *testing.T) {
	t.Parallel()
	crowdOfPermits(t, 16, 5)
}

func TestNightlyCrowdOfPermits(t *testing.T) { crowdOfPermits(t, cas.MaxHolders, 50) }
