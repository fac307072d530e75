package zookeeper

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// listens reports whether the doorbell is watched.
func (b *backend) listens() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bell.heard
}

// rungBy is the last ring that the client heard for a key.
func (b *backend) rungBy(key string) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bell.rings[key]
}

// told notes what NotifyFair tells.
type told struct {
	mu   sync.Mutex
	keys map[string]int
}

func (n *told) note(key string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.keys == nil {
		n.keys = make(map[string]int)
	}
	n.keys[key]++
}

func (n *told) of(key string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.keys[key]
}

// listening makes b a client that has locked before, and watches its doorbell.
func listening(t testing.TB, b *backend) *told {
	t.Helper()
	n := &told{}
	b.NotifyFair(n.note)
	for range listenFrom {
		isFree(t, b, "first")
	}
	eventually(t, "the doorbell to be watched", b.listens)
	return n
}

// client is a coord.Client whose doorbell is watched.
func client(t testing.TB, b *backend) *coord.Client {
	t.Helper()
	c := must[*coord.Client](t)(coord.New(b))
	t.Cleanup(func() { c.Close() })
	for range listenFrom {
		if err := coord.Do(t.Context(), c, "first", func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the doorbell to be watched", b.listens)
	return c
}

func fairly(name string) driver.Request {
	r := request(name, calmSession)
	r.Fair = true
	return r
}

type result struct {
	driver.Grant
	err error
}

// waitInLine starts a Lock, and returns when it watches what is before it.
func waitInLine(t testing.TB, ctx context.Context, b *backend, key string, r driver.Request) <-chan result {
	t.Helper()
	done := make(chan result, 1)
	go func() {
		g, err := b.Lock(ctx, key, r)
		done <- result{g, err}
	}()
	waiting(t, b, key, r.ID)
	return done
}

func soonResult(t testing.TB, done <-chan result, what string) result {
	t.Helper()
	select {
	case r := <-done:
		return r
	case <-time.After(hung):
		t.Fatalf("waited for %s", what)
		return result{}
	}
}

func unlock(t testing.TB, b *backend, key string, r driver.Request) {
	t.Helper()
	if err := b.Unlock(t.Context(), key, r.ID); err != nil {
		t.Fatal(err)
	}
}

// Goroutines of one client hand a hold on, and the store hears nothing of it.
func TestHandOverCostsNoRequests(t *testing.T) {
	p, b := openTapped(t)
	c := client(t, b)
	p.take()
	const goroutines, each = 16, 200
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range each {
				if err := coord.Do(t.Context(), c, "k", func(context.Context) error { return nil }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := len(p.take()); n*5 > goroutines*each {
		t.Errorf("%d requests for %d locks, want far fewer", n, goroutines*each)
	}
}

// A fair waiter of another client ends the hand-over, and is granted next.
func TestFairWaiterEndsHandOver(t *testing.T) {
	srv, b := open(t)
	other := connect(t, urlWith(srv.Addr, calmSession))
	c := client(t, b)
	for range 20 {
		l := must[*coord.Lock](t)(c.Lock(t.Context(), "k"))
		fair := fairly("fair")
		granted := waitInLine(t, t.Context(), other, "k", fair)
		eventually(t, "the ring to be heard", func() bool { return b.rungBy("k") > 0 })
		next := make(chan error, 1)
		go func() {
			second, err := c.Lock(t.Context(), "k")
			if err == nil {
				err = second.Unlock(t.Context())
			}
			next <- err
		}()
		if err := l.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		if g := soonResult(t, granted, "the fair waiter"); g.err != nil {
			t.Fatal(g.err)
		}
		select {
		case err := <-next:
			t.Fatalf("the fair waiter was overtaken: %v", err)
		default:
		}
		unlock(t, other, "k", fair)
		if err := <-next; err != nil {
			t.Fatal(err)
		}
		b.mu.Lock()
		b.bell.rings = nil // for the next round
		b.mu.Unlock()
	}
}

// Everyone before a fair waiter is told of it: who holds by a notice, and who waits by the grant. Who
// comes later is not. Nothing is left of it but the doorbells, which end with their clients.
func TestFairWaiterTellsAllBefore(t *testing.T) {
	srv, first := open(t)
	second, other := connect(t, urlWith(srv.Addr, calmSession)), connect(t, urlWith(srv.Addr, calmSession))
	news := listening(t, first)
	listening(t, second)
	r1, r2, fair := request("1", calmSession), request("2", calmSession), fairly("fair")
	if g := must[driver.Grant](t)(first.TryLock(t.Context(), "k", r1)); g.FairWaiting {
		t.Error("the first grant: somebody fair, in an empty line")
	}
	waits := waitInLine(t, t.Context(), second, "k", r2)
	if g := must[driver.Grant](t)(first.Renew(t.Context(), "k", r1)); g.FairWaiting || news.of("k") != 0 {
		t.Error("a waiter that is not fair was told of")
	}
	waitsFairly := waitInLine(t, t.Context(), other, "k", fair)
	eventually(t, "the holder to be told", func() bool { return news.of("k") > 0 })
	eventually(t, "the waiter to be told", func() bool { return second.rungBy("k") > 0 && second.listens() })
	if g := must[driver.Grant](t)(first.Renew(t.Context(), "k", r1)); !g.FairWaiting {
		t.Error("a renewal does not tell")
	}
	unlock(t, first, "k", r1)
	if g := soonResult(t, waits, "the waiter"); g.err != nil || !g.FairWaiting {
		t.Errorf("%+v: want it to tell of the fair waiter", g)
	}
	r3 := request("3", calmSession)
	waitsBehind := waitInLine(t, t.Context(), first, "k", r3)
	unlock(t, second, "k", r2)
	if g := soonResult(t, waitsFairly, "the fair waiter"); g.err != nil {
		t.Error(g.err)
	}
	unlock(t, other, "k", fair)
	if g := soonResult(t, waitsBehind, "who came later"); g.err != nil || g.FairWaiting {
		t.Errorf("%+v: want nobody fair behind it", g)
	}
	unlock(t, first, "k", r3)
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	bells, _, err := first.conn.Children(first.root + fairDir)
	if err != nil || !slices.Equal(bells, []string{first.box}) {
		t.Errorf("doorbells %v, %v: want that of the client that is left", bells, err)
	}
}

// A fair waiter is told to its own client's holds as well, without the store.
func TestFairWaiterOfTheSameClient(t *testing.T) {
	p, b := openTapped(t)
	news := listening(t, b)
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", request("a", calmSession)))
	p.take()
	ctx, cancel := context.WithCancel(t.Context())
	done := waitInLine(t, ctx, b, "k", fairly("fair"))
	if n := news.of("k"); n != 1 {
		t.Errorf("told %d times, want once", n)
	}
	if ops := p.take(); slices.Contains(ops, opSet) {
		t.Errorf("rung at the store: %v", ops)
	}
	cancel()
	soonResult(t, done, "the end of the wait")
}

// A fair wait is one request more for each other client before it; one behind fair ones is none more.
func TestRequestsOfAFairWait(t *testing.T) {
	p, b := openTapped(t)
	var others [3]*backend
	for i := range others {
		others[i] = connect(t, urlWith(p.target, calmSession))
		isFree(t, others[i], "warm")
	}
	isFree(t, b, "warm")
	for _, test := range []struct {
		before, r driver.Request
		rings     int
	}{
		{request("first", calmSession), request("a", calmSession), 0},
		{request("first", calmSession), fairly("a"), len(others)},
		{fairly("first"), fairly("a"), 0},
	} {
		key := fmt.Sprint("k", test.before.Fair, test.r.Fair)
		ctx, cancel := context.WithCancel(t.Context())
		must[driver.Grant](t)(others[0].Lock(ctx, key, test.before))
		var waits []<-chan result
		for _, other := range others[1:] {
			r := request("next", calmSession)
			r.Fair = test.before.Fair
			waits = append(waits, waitInLine(t, ctx, other, key, r))
		}
		isFree(t, b, "warm") // nothing else is asked for then
		must[string](t)(b.conn.Sync("/"))
		p.take()
		done := waitInLine(t, ctx, b, key, test.r)
		got := slices.DeleteFunc(p.take(), func(op int32) bool { return op == opMulti || op == opChildren || op == opGet })
		if len(got) != test.rings || slices.ContainsFunc(got, func(op int32) bool { return op != opSet }) {
			t.Errorf("fair %v behind fair %v: requests %v, want %d rings", test.r.Fair, test.before.Fair, got, test.rings)
		}
		cancel()
		for _, w := range append(waits, done) {
			soonResult(t, w, "the end of a wait")
		}
	}
}

// While its doorbell is not watched, a client believes that somebody fair waits; so does every
// hold from before it is watched again.
func TestNothingIsHandedOverUnheard(t *testing.T) {
	p, b := openTapped(t)
	news := listening(t, b)
	isFree(t, b, "unheard") // its parent is known
	r := request("a", calmSession)
	if g := must[driver.Grant](t)(b.TryLock(t.Context(), "k", r)); g.FairWaiting {
		t.Fatal("somebody fair, in an empty line")
	}
	// The connection breaks, and comes back: whoever rang meanwhile is heard.
	p.breakAll()
	eventually(t, "the holder to be told", func() bool { return news.of("k") > 0 })
	eventually(t, "the connection to be back", func() bool {
		g, err := b.Renew(t.Context(), "k", r)
		return err == nil && !g.FairWaiting
	})
	// The doorbell is gone, and is hung up again.
	n := news.of("k")
	p.disturb(func(op int32) deed {
		if op == opCreate || op == opGet {
			return refuse
		}
		return pass
	})
	if err := connect(t, urlWith(p.target, calmSession)).conn.Delete(b.doorbell(b.box), -1); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the holder to be told", func() bool { return news.of("k") > n })
	if g := must[driver.Grant](t)(b.TryLock(t.Context(), "unheard", request("b", calmSession))); !g.FairWaiting {
		t.Error("nobody fair, as far as an unheard doorbell tells")
	}
	p.disturb(nil)
	eventually(t, "the doorbell to be watched again", b.listens)
	if g := must[driver.Grant](t)(b.Renew(t.Context(), "k", r)); !g.FairWaiting {
		t.Error("nobody fair, though a ring may have been lost")
	}
	if g := must[driver.Grant](t)(b.TryLock(t.Context(), "later", request("c", calmSession))); g.FairWaiting {
		t.Error("it does not resume")
	}
}

// A session that ends takes the doorbell with it; the next one has another.
func TestDoorbellOfTheNextSession(t *testing.T) {
	p := newTap(t, testserver.ZooKeeper(t).Addr)
	b := connect(t, storeURL(p.addr()))
	listening(t, b)
	old := b.conn.SessionID()
	other := connect(t, urlWith(p.target, calmSession))
	p.disturb(func(int32) deed { return cut })
	p.breakAll()
	eventually(t, "the doorbell to go", func() bool {
		ok, _, err := other.conn.Exists(b.doorbell(b.box))
		return err == nil && !ok
	})
	p.disturb(nil)
	eventually(t, "another session", func() bool { return b.conn.SessionID() != old && b.conn.State() == zk.StateHasSession })
	eventually(t, "its doorbell", func() bool {
		_, stat, err := other.conn.Exists(b.doorbell(b.box))
		return err == nil && stat != nil && stat.EphemeralOwner == b.conn.SessionID() && b.listens()
	})
	r := request("a", testSession)
	eventually(t, "a grant that tells of nobody", func() bool {
		g, err := b.TryLock(t.Context(), "k", r)
		if err == nil {
			_ = b.Unlock(t.Context(), "k", r.ID)
		}
		return err == nil && !g.FairWaiting
	})
}

// Rings that come faster than they are read are not lost: of those that could not be read
// the worst is taken for granted.
func TestManyRings(t *testing.T) {
	srv, b := open(t)
	news := listening(t, b)
	other := connect(t, urlWith(srv.Addr, calmSession))
	var holds []driver.Hold
	for i := range 20 {
		h := driver.Hold{Key: fmt.Sprint("k", i), Request: request("a", calmSession)}
		if g := must[driver.Grant](t)(b.TryLock(t.Context(), h.Key, h.Request)); g.FairWaiting {
			t.Fatal("somebody fair, in an empty line")
		}
		holds = append(holds, h)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var waits sync.WaitGroup
	for _, h := range holds {
		waits.Go(func() { _, _ = other.Lock(ctx, h.Key, fairly("fair")) })
	}
	for _, h := range holds {
		eventually(t, "the holder to be told", func() bool { return news.of(h.Key) > 0 })
	}
	for i, r := range b.RenewAll(t.Context(), holds) {
		if r.Err != nil || !r.Grant.FairWaiting {
			t.Errorf("%s: %+v, want it to tell of the fair waiter", holds[i].Key, r)
		}
	}
	cancel()
	waits.Wait()
}

// A ring whose request is lost is repeated; the waiter keeps its place.
func TestRingIsRepeated(t *testing.T) {
	p, b := openTapped(t)
	isFree(t, b, "warm")
	holder := connect(t, urlWith(p.target, calmSession))
	news := listening(t, holder)
	must[driver.Grant](t)(holder.TryLock(t.Context(), "k", request("holder", calmSession)))
	lost := p.once(opSet, cut)
	ctx, cancel := context.WithCancel(t.Context())
	done := waitInLine(t, ctx, b, "k", fairly("fair"))
	eventually(t, "the holder to be told", func() bool { return news.of("k") > 0 })
	select {
	case <-lost:
	default:
		t.Error("no ring was lost: the test shows nothing")
	}
	cancel()
	soonResult(t, done, "the end of the wait")
}

// What is at the doorbell and is no ring is taken for one that cannot be read.
func TestUnreadableRing(t *testing.T) {
	_, b := open(t)
	news := listening(t, b)
	r := request("a", calmSession)
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", r))
	if _, err := b.conn.Set(b.doorbell(b.box), []byte("ding"), -1); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the holder to be told", func() bool { return news.of("k") > 0 })
	if g := must[driver.Grant](t)(b.Renew(t.Context(), "k", r)); !g.FairWaiting {
		t.Error("nobody fair, though a ring could not be read")
	}
}

func TestReadRing(t *testing.T) {
	for _, key := range []string{"k", " key=", "a key=b", "ü/\n"} {
		got, by, ok := readRing(ringData(key, 7))
		if got != key || by != 7 || !ok {
			t.Errorf("%q: %q, %d, %v", key, got, by, ok)
		}
	}
	for _, data := range []string{"", "ding", ringHeader, ringHeader + "7", ringHeader + "7 key=", ringHeader + "x key=k", ringHeader + "-1 key=k"} {
		if key, by, ok := readRing([]byte(data)); ok {
			t.Errorf("%q: %q, %d", data, key, by)
		}
	}
}

// What a client remembers of rings is bounded. Of what it forgot it takes the worst for granted.
func TestRingsAreBounded(t *testing.T) {
	f := bell{heard: true}
	for i := range int64(10 * maxRings) {
		f.note(fmt.Sprint("k", i), i+1)
		if len(f.rings) > maxRings {
			t.Fatalf("%d rings", len(f.rings))
		}
		for age := int64(0); age < i && i%97 == 0; age++ {
			if !f.mayHaveRung(fmt.Sprint("k", age), age) {
				t.Fatalf("ring %d is forgotten after %d", age, i)
			}
		}
		if f.mayHaveRung(fmt.Sprint("k", i), i+2) {
			t.Fatalf("ring %d counts for who came later", i)
		}
	}
}

// Boxes are found in names: each once, and none of a fair node or of one behind.
func TestBoxesBefore(t *testing.T) {
	name := func(box string, seq int) string {
		return fmt.Sprintf("%s%s-%010d", strings.Repeat("a", tagLen), box, seq)
	}
	a, b, c := "0000000a", "0000000b", "0000000c"
	own := name(c, 5)
	children := []string{name(a, 1), "foreign", own, name(fairBox, 2), name(a, 3), name(b, 4), name("0000000d", 6)}
	if got := boxesBefore(children, own); !slices.Equal(got, []string{a, b}) {
		t.Errorf("%v, want %v", got, []string{a, b})
	}
	for range 1000 {
		if box := newBox(); box == fairBox || len(box) != boxLen {
			t.Fatalf("box %q", box)
		}
	}
}

// A backend over an application's connection takes its doorbell down when it is closed.
func TestDoorbellOfAnApplicationsConnection(t *testing.T) {
	srv := testserver.ZooKeeper(t)
	conn := raw(t, srv.Addr)
	b := must[driver.Backend](t)(New(conn, WithSessionTimeout(calmSession), WithRoot("/coord-test"))).(*backend)
	listening(t, b)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the doorbell to be taken down", func() bool {
		ok, _, err := conn.Exists(b.doorbell(b.box))
		return err == nil && !ok
	})
}
