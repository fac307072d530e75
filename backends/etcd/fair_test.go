package etcd

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

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

// rungAt is the last ring that the client heard for a key.
func (b *backend) rungAt(key string) int64 {
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
		r := request("first", 20*time.Second)
		must[driver.Grant](t)(b.TryLock(t.Context(), "first", r))
		if err := b.Unlock(t.Context(), "first", r.ID); err != nil {
			t.Fatal(err)
		}
	}
	until(t, 10*time.Second, "the doorbell to be watched", b.listens)
	return n
}

func fairly(name string) driver.Request {
	r := request(name, 20*time.Second)
	r.Fair = true
	return r
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
	until(t, 10*time.Second, "the doorbell to be watched", b.listens)
	return c
}

// Goroutines of one client hand a hold on, and the store hears nothing of it.
func TestHandOverCostsNoRequests(t *testing.T) {
	srv := testserver.Etcd(t)
	cfg, count := counting(clientConfig(srv.Addr))
	c := client(t, connectWith(t, cfg))
	count.take()
	var locks atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 200 {
				if err := coord.Do(t.Context(), c, "k", func(context.Context) error { locks.Add(1); return nil }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	calls := count.take()
	if n := int64(calls[methodTxn]); n*5 > locks.Load() {
		t.Errorf("%d locks: %v, want far fewer transactions", locks.Load(), calls)
	}
}

// A fair waiter of another client ends the hand-over, and is granted next.
func TestFairWaiterEndsHandOver(t *testing.T) {
	srv := testserver.Etcd(t)
	b, other := connect(t, srv.Addr), connect(t, srv.Addr)
	c := client(t, b)
	for range 20 {
		l := must[*coord.Lock](t)(c.Lock(t.Context(), "k"))
		fair := fairly("fair")
		granted := waitInLine(t, t.Context(), other, "k", fair, 2)
		until(t, 5*time.Second, "the ring to be heard", func() bool { return b.rungAt("k") > 0 })
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
		g := soonResult(t, granted, 10*time.Second, "the fair waiter")
		if g.err != nil {
			t.Fatal(g.err)
		}
		select {
		case err := <-next:
			t.Fatalf("the fair waiter was overtaken: %v", err)
		default:
		}
		if err := other.Unlock(t.Context(), "k", fair.ID); err != nil {
			t.Fatal(err)
		}
		if err := <-next; err != nil {
			t.Fatal(err)
		}
		b.mu.Lock()
		b.bell.rings = nil // for the next round
		b.mu.Unlock()
	}
}

// Everyone before a fair waiter is told of it: who holds by a notice, and who waits by the grant. Who
// comes later is not. What the fair one leaves behind is ended with its lease.
func TestFairWaiterTellsAllBefore(t *testing.T) {
	srv := testserver.Etcd(t)
	first, second, other := connect(t, srv.Addr), connect(t, srv.Addr), connect(t, srv.Addr)
	news := listening(t, first)
	listening(t, second)
	listening(t, other)
	r1, r2, fair := request("1", 20*time.Second), request("2", 20*time.Second), fairly("fair")
	if g := must[driver.Grant](t)(first.TryLock(t.Context(), "k", r1)); g.FairWaiting {
		t.Error("the first grant: somebody fair, in an empty line")
	}
	waits := waitInLine(t, t.Context(), second, "k", r2, 2)
	if g := must[driver.Grant](t)(first.Renew(t.Context(), "k", r1)); g.FairWaiting || news.of("k") != 0 {
		t.Error("a waiter that is not fair was told of")
	}
	waitsFairly := waitInLine(t, t.Context(), other, "k", fair, 3)
	until(t, 5*time.Second, "the holder to be told", func() bool { return news.of("k") > 0 })
	until(t, 5*time.Second, "the waiter to be told", func() bool { return second.rungAt("k") > 0 })
	if g := must[driver.Grant](t)(first.Renew(t.Context(), "k", r1)); !g.FairWaiting {
		t.Error("a renewal does not tell")
	}
	if err := first.Unlock(t.Context(), "k", r1.ID); err != nil {
		t.Fatal(err)
	}
	if g := soonResult(t, waits, 10*time.Second, "the waiter"); g.err != nil || !g.FairWaiting {
		t.Errorf("%+v: want it to tell of the fair waiter", g)
	}
	r3 := request("3", 20*time.Second)
	waitsBehind := waitInLine(t, t.Context(), first, "k", r3, 3)
	if err := second.Unlock(t.Context(), "k", r2.ID); err != nil {
		t.Fatal(err)
	}
	if g := soonResult(t, waitsFairly, 10*time.Second, "the fair waiter"); g.err != nil || g.FairWaiting {
		t.Errorf("%+v: want nobody fair behind it", g)
	}
	if err := other.Unlock(t.Context(), "k", fair.ID); err != nil {
		t.Fatal(err)
	}
	if g := soonResult(t, waitsBehind, 10*time.Second, "who came later"); g.err != nil || g.FairWaiting {
		t.Errorf("%+v: want nobody fair behind it", g)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if left := entriesOf(t, first.client, first.names.base+"fair/"); left.Count != 0 {
		t.Errorf("left behind: %v", left.Kvs)
	}
}

// A fair waiter is told to its own client's holds as well, without the store.
func TestFairWaiterOfTheSameClient(t *testing.T) {
	_, b := open(t)
	news := listening(t, b)
	r := request("a", 20*time.Second)
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", r))
	ctx, cancel := context.WithCancel(t.Context())
	done := waitInLine(t, ctx, b, "k", fairly("fair"), 2)
	until(t, 5*time.Second, "the notice", func() bool { return news.of("k") == 1 })
	cancel()
	soonResult(t, done, 5*time.Second, "the end of the wait")
	if left := entriesOf(t, b.client, b.names.base+"fair/"); left.Count != 0 {
		t.Errorf("rung at the store: %v", left.Kvs)
	}
}

// A fair wait is one request more, however many are before it; one behind a fair one is none more.
func TestRoundTripsOfAFairWait(t *testing.T) {
	srv := testserver.Etcd(t)
	cfg, count := counting(clientConfig(srv.Addr))
	b := connectWith(t, cfg)
	before := []*backend{connect(t, srv.Addr), connect(t, srv.Addr), connect(t, srv.Addr)}
	listening(t, b)
	for name, first := range map[string]driver.Request{"plain": request("1", 20*time.Second), "fair": fairly("1")} {
		for _, test := range []struct {
			r    driver.Request
			more int
		}{{request("a", 20*time.Second), 0}, {fairly("a"), 1}} {
			want := 2 + test.more // in line, and a look once it watches
			if name == "fair" {
				want = 2
			}
			key := fmt.Sprint(name, test.r.Fair)
			ctx, cancel := context.WithCancel(t.Context())
			if name == "plain" {
				must[driver.Grant](t)(before[0].TryLock(ctx, key, first))
			} else {
				must[driver.Grant](t)(before[0].Lock(ctx, key, first))
			}
			waits := []<-chan result{
				waitInLine(t, ctx, before[1], key, driver.Request{ID: newID("2"), TTL: first.TTL, Fair: first.Fair}, 2),
				waitInLine(t, ctx, before[2], key, driver.Request{ID: newID("3"), TTL: first.TTL, Fair: first.Fair}, 3),
			}
			mine := make(chan result, 1)
			waits = append(waits, mine)
			must[driver.Grant](t)(b.TryLock(ctx, "other", test.r)) // the lease is there
			if err := b.Unlock(ctx, "other", test.r.ID); err != nil {
				t.Fatal(err)
			}
			count.take()
			go func() {
				g, err := b.Lock(ctx, key, test.r)
				mine <- result{g, err, time.Now()}
			}()
			calls := 0
			until(t, 5*time.Second, "the waiter to watch", func() bool {
				calls += count.take()[methodTxn]
				return calls >= want
			})
			time.Sleep(50 * time.Millisecond) // for what should not come
			if calls += count.take()[methodTxn]; calls != want {
				t.Errorf("%s before, fair %v: %d transactions, want %d", name, test.r.Fair, calls, want)
			}
			cancel()
			for _, w := range waits {
				soonResult(t, w, 5*time.Second, "the end of a wait")
			}
			if err := before[0].Unlock(t.Context(), key, first.ID); err != nil {
				t.Error(err)
			}
		}
	}
}

// breakable has streams of watches that the test breaks, and refuses new ones while it is off.
type breakable struct {
	mu     sync.Mutex
	off    bool
	silent bool
	breaks []context.CancelFunc
}

func (s *breakable) intercept(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if !strings.HasSuffix(method, "/Watch") {
		return streamer(ctx, desc, cc, method, opts...)
	}
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	off, silent := s.off, s.silent
	s.breaks = append(s.breaks, cancel)
	s.mu.Unlock()
	if off {
		cancel()
		return nil, errLost
	}
	stream, err := streamer(ctx, desc, cc, method, opts...)
	if err == nil && silent {
		stream = silentAfter{stream, new(atomic.Int32)}
	}
	return stream, err
}

// silentAfter is a stream that hears the first message, and no more.
type silentAfter struct {
	grpc.ClientStream
	n *atomic.Int32
}

func (s silentAfter) RecvMsg(m any) error {
	if s.n.Add(1) > 1 {
		<-s.Context().Done()
		return s.Context().Err()
	}
	return s.ClientStream.RecvMsg(m)
}

// set turns watching on or off; off ends what is there.
func (s *breakable) set(off, silent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.off, s.silent = off, silent
	for _, end := range s.breaks {
		end()
	}
	s.breaks = nil
}

// While its doorbell is not watched, a client believes that somebody fair waits; so does every
// hold from before it is watched again.
func TestNothingIsHandedOverUnheard(t *testing.T) {
	srv := testserver.Etcd(t)
	s := &breakable{}
	b := streamed(t, s.intercept, srv.Addr)
	news := listening(t, b)
	r := request("a", 20*time.Second)
	if g := must[driver.Grant](t)(b.TryLock(t.Context(), "k", r)); g.FairWaiting {
		t.Fatal("somebody fair, in an empty line")
	}
	s.set(true, false)
	until(t, 5*time.Second, "the holder to be told", func() bool { return news.of("k") > 0 })
	if g := must[driver.Grant](t)(b.TryLock(t.Context(), "unheard", request("b", 20*time.Second))); !g.FairWaiting {
		t.Error("nobody fair, as far as an unheard doorbell tells")
	}
	s.set(false, false)
	until(t, 10*time.Second, "the doorbell to be watched again", b.listens)
	if g := must[driver.Grant](t)(b.Renew(t.Context(), "k", r)); !g.FairWaiting {
		t.Error("nobody fair, though a ring may have been lost")
	}
	if g := must[driver.Grant](t)(b.TryLock(t.Context(), "later", request("c", 20*time.Second))); g.FairWaiting {
		t.Error("it does not resume")
	}
}

// A watch that keeps silent is ended, and begun anew.
func TestSilentDoorbellIsFoundOut(t *testing.T) {
	srv := testserver.Etcd(t)
	s := &breakable{silent: true}
	b := streamed(t, s.intercept, srv.Addr)
	b.bell.pulse = 50 * time.Millisecond
	news := listening(t, b)
	r := request("a", 20*time.Second)
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", r))
	until(t, 10*time.Second, "the holder to be told", func() bool { return news.of("k") > 0 })
	b.mu.Lock()
	b.bell.pulse = time.Second
	b.mu.Unlock()
	s.set(false, false)
	until(t, 20*time.Second, "the doorbell to be watched again", func() bool {
		other := request("b", 20*time.Second)
		g := must[driver.Grant](t)(b.TryLock(t.Context(), "l", other))
		if err := b.Unlock(t.Context(), "l", other.ID); err != nil {
			t.Fatal(err)
		}
		return !g.FairWaiting
	})
}

// A ring whose request is lost is repeated; the waiter keeps its place.
func TestRingIsRepeated(t *testing.T) {
	srv := testserver.Etcd(t)
	holder := connect(t, srv.Addr)
	news := listening(t, holder)
	b, m := meddled(t, srv.Addr)
	must[driver.Grant](t)(holder.TryLock(t.Context(), "k", request("holder", 20*time.Second)))
	var lost atomic.Int32
	m.on(func(_ string, req any, send func() error) error {
		if strings.Contains(fmt.Sprint(req), "coord/fair/") && lost.Add(1) <= 2 {
			return errLost
		}
		return send()
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := waitInLine(t, ctx, b, "k", fairly("fair"), 2)
	until(t, 10*time.Second, "the holder to be told", func() bool { return news.of("k") > 0 })
	if lost.Load() < 3 {
		t.Errorf("rung %d times: the test shows nothing", lost.Load())
	}
	stillWaiting(t, done, "after lost rings")
	cancel()
	soonResult(t, done, 5*time.Second, "the end of the wait")
}

// What is at the doorbell and is no ring is taken for one that cannot be read.
func TestUnreadableRing(t *testing.T) {
	_, b := open(t)
	news := listening(t, b)
	r := request("a", 20*time.Second)
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", r))
	must[*clientv3.PutResponse](t)(b.client.Put(t.Context(), b.names.doorbell(b.box), "ding"))
	until(t, 5*time.Second, "the holder to be told", func() bool { return news.of("k") > 0 })
	if g := must[driver.Grant](t)(b.Renew(t.Context(), "k", r)); !g.FairWaiting {
		t.Error("nobody fair, though a ring could not be read")
	}
}

func TestReadRing(t *testing.T) {
	for _, key := range []string{"k", " key=", "a key=b", "ü/\n"} {
		got, revision, ok := readRing(ringValue(key, 7))
		if got != key || revision != 7 || !ok {
			t.Errorf("%q: %q, %d, %v", key, got, revision, ok)
		}
	}
	for _, value := range []string{"", "ding", ringHeader, ringHeader + "7", ringHeader + "7 key=", ringHeader + "x key=k", ringHeader + "-1 key=k"} {
		if key, revision, ok := readRing(value); ok {
			t.Errorf("%q: %q, %d", value, key, revision)
		}
	}
}

// What a client remembers of rings is bounded. Of what it forgot it takes the worst for granted.
func TestRingsAreBounded(t *testing.T) {
	b := &backend{entries: make(map[place]*entry)}
	b.bell.heard = true
	for i := range int64(10 * maxRings) {
		b.rung(fmt.Sprint("k", i), i+1)
		if len(b.bell.rings) > maxRings {
			t.Fatalf("%d rings", len(b.bell.rings))
		}
		for age := int64(0); age < i && i%97 == 0; age++ {
			e := &entry{place: place{key: fmt.Sprint("k", age)}, create: age}
			if !b.fairBehind(e) {
				t.Fatalf("ring %d is forgotten after %d", age, i)
			}
		}
		if b.fairBehind(&entry{place: place{key: fmt.Sprint("k", i)}, create: i + 2}) {
			t.Fatalf("ring %d counts for who came later", i)
		}
	}
}

// The ids of leases are not guessed by the server, and one that is taken is passed over.
func TestLeaseIDIsTaken(t *testing.T) {
	_, b := open(t)
	ctx := t.Context()
	taken := b.leaseID() + 1
	if _, err := b.pbLease.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: 60, ID: taken}); err != nil {
		t.Fatal(err)
	}
	must[driver.Grant](t)(b.TryLock(ctx, "k", request("a", 20*time.Second)))
	if got := entriesOf(t, b.client, b.names.line("k")).Kvs[0].Lease; got != taken+1 || got>>boxShift != b.box {
		t.Errorf("lease %x, want %x", got, taken+1)
	}
}
