package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// What each step costs, counted on the way to the server.
func TestSharedRequests(t *testing.T) {
	p, b := openTapped(t)
	expect := func(what string, want ...int32) {
		t.Helper()
		if got := slices.DeleteFunc(p.take(), func(op int32) bool { return op == opGet }); !slices.Equal(got, want) {
			t.Errorf("%s: requests %v, want %v", what, got, want)
		}
	}
	a := sharedRequest("a", permits(2, 3))
	take(t, b, "k", a)
	release(t, b, "k", a.ID)
	p.take()
	take(t, b, "k", a)
	expect("a free key that was used before", opMulti)
	release(t, b, "k", a.ID)
	expect("a release", opDelete)
	take(t, b, "k", a)
	p.take()
	take(t, b, "k", sharedRequest("b", permits(1, 3)))
	expect("a key that others hold", opChildren, opMulti)
	isRefused(t, b, "k", permits(1, 3))
	expect("a refusal", opChildren)
	head := sharedRequest("head", heading(permits(3, 3)))
	for _, want := range [][]int32{{opChildren, opMulti}, {opChildren}} {
		if _, err := b.Shared().TryLock(t.Context(), "k", head); !errors.Is(err, driver.ErrLocked) {
			t.Fatal(err)
		}
		expect("a head", want...)
	}
	less := a
	less.Share = permits(1, 3)
	for _, what := range []string{"to give a permit back", "a renewal"} {
		must[driver.Grant](t)(b.Shared().Renew(t.Context(), "k", less))
		expect(what, opMulti)
	}
}

// 64 goroutines of four clients never hold more than there is: counted at the resource, whatever the weights, and while
// holds become smaller.
func TestSharedHoldsNeverExceedTheBound(t *testing.T) {
	srv := testserver.ZooKeeper(t)
	const bound, grants = 7, 600
	var used, most, left atomic.Int64
	left.Store(grants)
	var all sync.WaitGroup
	for range 4 {
		b := connect(t, urlWith(srv.Addr, calmSession))
		for range 16 {
			all.Go(func() {
				for left.Load() > 0 {
					r := sharedRequest("a", permits(1+rand.Int64N(4), bound))
					if _, err := b.Shared().TryLock(t.Context(), "k", r); errors.Is(err, driver.ErrLocked) {
						continue
					} else if err != nil {
						t.Error(err)
						return
					}
					left.Add(-1)
					now := used.Add(r.Share.Weight)
					if now > bound {
						t.Errorf("%d of %d permits are taken", now, bound)
					}
					if m := most.Load(); now > m {
						most.CompareAndSwap(m, now)
					}
					if r.Share.Weight > 1 && rand.IntN(2) == 0 {
						used.Add(1 - r.Share.Weight)
						r.Share.Weight = 1
					}
					for range 2 {
						if _, err := b.Shared().Renew(t.Context(), "k", r); err != nil {
							t.Error(err)
						}
					}
					used.Add(-r.Share.Weight)
					if err := b.Shared().Unlock(t.Context(), "k", r.ID); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	t.Logf("at most %d of %d permits were taken at once", most.Load(), bound)
	if most.Load() < 2 {
		t.Error("no two goroutines were beside one another")
	}
}

// A writer that becomes a reader lets readers in, and no writer in between. Its token stays.
func TestDowngradeLetsNoWriterIn(t *testing.T) {
	srv := testserver.ZooKeeper(t)
	b := connect(t, urlWith(srv.Addr, calmSession))
	rivals := []*backend{connect(t, urlWith(srv.Addr, calmSession)), connect(t, urlWith(srv.Addr, calmSession))}
	for i := range 20 {
		key := fmt.Sprint("k", i)
		w := sharedRequest("w", writing)
		g := take(t, b, key, w)
		stop := make(chan struct{})
		var all sync.WaitGroup
		for _, rival := range rivals {
			all.Go(func() {
				for r := sharedRequest("rival", writing); ; {
					if _, err := rival.Shared().TryLock(t.Context(), key, r); !errors.Is(err, driver.ErrLocked) {
						t.Errorf("a writer beside another, or a reader: %v", err)
						return
					}
					select {
					case <-stop:
						return
					default:
					}
				}
			})
		}
		isRefused(t, rivals[0], key, reading)
		w.Share = reading
		after := must[driver.Grant](t)(b.Shared().Renew(t.Context(), key, w))
		if after.Token != g.Token || after.Slot != g.Slot {
			t.Errorf("after the downgrade %+v, before %+v", after, g)
		}
		reader := sharedRequest("r", reading)
		if beside := take(t, rivals[0], key, reader); beside.Token <= g.Token || beside.Slot != 1 {
			t.Errorf("a reader beside: %+v after %+v", beside, g)
		}
		close(stop)
		all.Wait()
		release(t, b, key, w.ID)
		isRefused(t, b, key, writing)
		release(t, rivals[0], key, reader.ID)
		becomesFree(t, b, key, writing)
		isEmpty(t, b, key) // no mark is left
	}
}

// A server that lists while it applies a transaction may show the nodes of a hold in any number: of several marks the smallest
// counts, and one whose hold has gone says nothing.
func TestGroupOf(t *testing.T) {
	tag, other, head := tagOf("a"), tagOf("b"), tagOf("c")
	stat := &zk.Stat{Version: 7}
	g := must[group](t)(groupOf("/d", []string{
		"1-" + tag + "-3-now-2", "1-" + tag + "-3-permits-1-5-9", "0123456789abcdef", "1-" + tag + "-3-now-4", "1-" + tag + "-2-now-1",
		"1-" + other + "-4-write-0", "1-" + other + "-4-now-read", "1-" + head + "-head",
	}, stat))
	if g.guard != (guard{"/d/0123456789abcdef", 7}) || len(g.holds) != 2 || g.holds[0].share != permits(2, 9) || g.holds[1].share != reading {
		t.Errorf("%+v", g)
	}
	if _, err := g.decide("third", reading); err != driver.ErrLocked {
		t.Errorf("beside a head: %v", err)
	}
	if next, err := g.decide(head, reading); err != nil || next.Slot != 2 || g.find(other).slot != 0 {
		t.Errorf("the head: %+v, %v", next, err)
	}
	g.heads = nil
	if next, err := g.decide("third", permits(3, 5)); err != nil || next.Of != 5 {
		t.Errorf("%+v, %v", next, err)
	}
	if _, err := g.decide("third", permits(4, 5)); err != driver.ErrLocked {
		t.Errorf("6 of 5: %v", err)
	}
}

func TestParseSharer(t *testing.T) {
	tag := tagOf("a")
	for _, s := range []sharer{
		{kind: headNode, tag: tag},
		{tag: tag, version: 1<<32 - 1, slot: driver.MaxHolders - 1, share: permits(driver.MaxPermits, driver.MaxPermits)},
		{tag: tag, slot: 3, share: reading},
		{tag: tag, version: 4, share: writing},
		{kind: markNode, tag: tag, version: 4, share: reading},
		{kind: markNode, tag: tag, version: 4, share: driver.Share{Mode: driver.Permits, Weight: 12}},
	} {
		got, ok := parseSharer(s.name())
		s.node = s.name()
		if !ok || got != s {
			t.Errorf("%s: %+v, %v, want %+v", s.name(), got, ok, s)
		}
	}
	for _, name := range []string{
		"", "x", "1-", "1-" + tag, "1-" + tag + "-", "2-" + tag + "-head", "1-" + tag + "-Head", "1-" + strings.ToUpper(tag) + "-head",
		"1-" + tag + "-head-1", "1-" + tag + "-1-read", "1-" + tag + "-1-read-01", "1-" + tag + "-1-read-1-1", "1-" + tag + "--1-read-1",
		"1-" + tag + "-1-read-1024", "1-" + tag + "-4294967296-read-1", "1-" + tag + "-1-exclusive-1", "1-" + tag + "-1-permits-1-1",
		"1-" + tag + "-1-permits-1-2-1", "1-" + tag + "-1-permits-1-0-1", "1-" + tag + "-1-permits-1-1-1-1", "1-" + tag + "-1-now-0",
		"1-" + tag + "-1-now-write", "1-" + tag + "-1-now-read-1", "1-" + tag + "-1-now-1-1", "1-" + tag + "-0000000001",
	} {
		if s, ok := parseSharer(name); ok {
			t.Errorf("%q is %+v", name, s)
		}
	}
}

func FuzzParseSharer(f *testing.F) {
	tag := tagOf("a")
	for _, end := range []string{"-head", "-1-read-2", "-0-write-0", "-7-permits-3-4-5", "-7-now-read", "-7-now-3"} {
		f.Add("1-" + tag + end)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if s, ok := parseSharer(name); ok && s.name() != name {
			t.Errorf("%q is read as %q", name, s.name())
		}
	})
}

// Names that are not ours may be holds that we do not understand.
func TestForeignSharers(t *testing.T) {
	_, b := open(t)
	tag := tagOf("x")
	for what, nodes := range map[string]map[string]string{
		"none":    {"": ""},
		"data":    {"": "theirs", "/0123456789abcdef": ""},
		"two":     {"/0123456789abcdef": "", "/0123456789abcde0": ""},
		"child":   {"/0123456789abcdef": "", "/theirs": "theirs"},
		"version": {"/0123456789abcdef": "", "/2-" + tag + "-1-read-0": "x"},
		"kind":    {"/0123456789abcdef": "", "/1-" + tag + "-1-shared-0": "x"},
		"weight":  {"/0123456789abcdef": "", "/1-" + tag + "-1-permits-0-3-2": "x"},
	} {
		dir := b.guardPath(what)
		for child, data := range nodes {
			put(t, b, dir+child, data, 0)
		}
		r := sharedRequest("a", reading)
		s := b.Shared()
		for step, call := range map[string]func() error{
			"TryLock": func() error { return second(s.TryLock(t.Context(), what, r)) },
			"Head":    func() error { r := r; r.Share.Head = true; return second(s.TryLock(t.Context(), what, r)) },
			"Holders": func() error { return second(s.Holders(t.Context(), what)) },
			"Break":   func() error { return s.(driver.Breaker).Break(t.Context(), what, r.ID) },
		} {
			if err := call(); !errors.Is(err, driver.ErrCorrupt) {
				t.Errorf("%s of %s: %v, want ErrCorrupt", step, what, err)
			}
		}
		if err := s.Unlock(t.Context(), what, r.ID); !errors.Is(err, driver.ErrNotHeld) {
			t.Errorf("Unlock of %s: %v, want ErrNotHeld", what, err)
		}
		if n, err := b.collect(t.Context(), time.Now().Add(time.Hour).UnixMicro(), bucketOf(what)); n != 0 || err != nil {
			t.Errorf("%s: the collector removed %d, %v", what, n, err)
		}
		for child, data := range nodes {
			untouched(t, b, dir+child, data)
		}
	}
	// One that is named as ours counts, and Holders says that its id is another.
	take(t, b, "k", sharedRequest("a", reading))
	put(t, b, b.guardPath("k")+"/1-"+tag+"-9-read-5", "not the id", 0)
	if _, err := b.Shared().Holders(t.Context(), "k"); !errors.Is(err, driver.ErrCorrupt) {
		t.Errorf("Holders: %v, want ErrCorrupt", err)
	}
	isRefused(t, b, "k", writing)
	put(t, b, b.guardPath("ephemeral"), "", zk.FlagEphemeral)
	if _, err := b.Shared().TryLock(t.Context(), "ephemeral", sharedRequest("a", reading)); !errors.Is(err, driver.ErrCorrupt) {
		t.Errorf("an ephemeral guard: %v, want ErrCorrupt", err)
	}
}

// What can never be granted is refused before anything is sent.
func TestSharedRefuses(t *testing.T) {
	p, b := openTapped(t)
	p.take()
	for what, change := range map[string]func(*driver.Request){
		"exclusive": func(r *driver.Request) { r.Share = driver.Share{} },
		"weight":    func(r *driver.Request) { r.Share = permits(3, 2) },
		"id":        func(r *driver.Request) { r.ID = "a b" },
		"TTL":       func(r *driver.Request) { r.TTL = 0 },
	} {
		r := sharedRequest("a", permits(1, 2))
		change(&r)
		if _, err := b.Shared().TryLock(t.Context(), "k", r); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", what, err)
		}
	}
	r := sharedRequest("a", reading)
	r.Fair = true
	if _, err := b.Shared().TryLock(t.Context(), "k", r); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("fair: %v, want ErrUnsupported", err)
	}
	if got := p.take(); len(got) > 0 {
		t.Errorf("requests %v", got)
	}
}

// A key has MaxHolders holders at most, in a listing of far less than a megabyte.
func TestMostHolders(t *testing.T) {
	_, b := open(t)
	first := sharedRequest("a", permits(1, driver.MaxPermits))
	take(t, b, "k", first)
	dir, size := b.guardPath("k"), 0
	var ops []any
	for slot := 1; slot < driver.MaxHolders; slot++ {
		id := newID("x")
		s := sharer{tag: tagOf(id), version: 1<<32 - 1, slot: slot, share: permits(driver.MaxPermits-1, driver.MaxPermits)}
		if slot > 1 {
			s.share = permits(1, driver.MaxPermits)
		}
		size += 4 + len(s.name())
		ops = append(ops, &zk.CreateRequest{Path: dir + "/" + s.name(), Data: []byte(id), Acl: b.acl, Flags: zk.FlagEphemeral})
	}
	for batch := range slices.Chunk(ops[1:], 100) {
		if _, err := b.conn.Multi(batch...); err != nil {
			t.Fatal(err)
		}
	}
	last := sharedRequest("a", permits(1, driver.MaxPermits))
	if g := take(t, b, "k", last); g.Slot != 1 {
		t.Errorf("slot %d, want the one that is free", g.Slot)
	}
	if _, err := b.Shared().TryLock(t.Context(), "k", sharedRequest("a", permits(1, driver.MaxPermits))); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("one more than %d: %v, want ErrUnsupported", driver.MaxHolders, err)
	}
	if all := must[[]driver.Holder](t)(b.Shared().Holders(t.Context(), "k")); len(all) != driver.MaxHolders {
		t.Errorf("%d holders", len(all))
	}
	t.Logf("%d bytes of names", size)
	if size > 200_000 {
		t.Errorf("%d bytes of names", size)
	}
	release(t, b, "k", last.ID)
}

// A guard is removed once nobody has used it for a while. A key that is held, or has a head, keeps its guard.
func TestGuardsAreCollected(t *testing.T) {
	srv, b := open(t)
	dead := connect(t, urlWith(srv.Addr, calmSession))
	for i := range 30 {
		r := sharedRequest("a", reading)
		take(t, dead, fmt.Sprint("k", i), r)
		if i%2 == 0 {
			release(t, dead, fmt.Sprint("k", i), r.ID)
		}
	}
	held := sharedRequest("held", writing)
	take(t, b, "held", held)
	endSession(dead)
	guards := func() (n int) {
		for bucket := range 256 {
			n += len(must[[]string](t)(b.list(b.guardsDir(byte(bucket)), true)))
		}
		return n
	}
	collect := func(now int64) (removed int) {
		for bucket := range 256 {
			removed += must[int](t)(b.collect(t.Context(), now, byte(bucket)))
		}
		return removed
	}
	eventually(t, "the holds to end with their session", func() bool { return len(sharers(t, b, "k1")) == 0 })
	if n := collect(b.clock.now() + (collectMargin - time.Minute).Microseconds()); n != 0 || guards() != 31 {
		t.Errorf("%d guards that were used just now were removed, %d are left", n, guards())
	}
	if n := collect(b.clock.now() + (collectMargin + time.Minute).Microseconds()); n != 30 || guards() != 1 {
		t.Errorf("%d guards were removed, %d are left: want all but that of a hold", n, guards())
	}
	must[driver.Grant](t)(b.Shared().Renew(t.Context(), "held", held))
	becomesFree(t, b, "k1", writing)
}

// A client that knows the guard of a key finds out that it was removed.
func TestTokensRiseOverCollection(t *testing.T) {
	_, b := open(t)
	var last int64
	for range 3 {
		r := sharedRequest("a", writing)
		g := take(t, b, "k", r)
		if g.Token <= last {
			t.Errorf("token %d after %d", g.Token, last)
		}
		last = g.Token
		release(t, b, "k", r.ID)
		collectGuard(t, b, "k")
	}
}

// Whoever listens is told when less of the key is taken: a release, a downgrade, the end of a session.
func TestNotifyChanges(t *testing.T) {
	srv, b := open(t)
	other := connect(t, urlWith(srv.Addr, calmSession))
	ctx, stop := context.WithCancel(t.Context())
	told := make(chan struct{}, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- b.Shared().(driver.ChangeNotifier).NotifyChanges(ctx, "k", func() {
			select {
			case told <- struct{}{}:
			default:
			}
		})
	}()
	next := func(what string) {
		t.Helper()
		select {
		case <-told:
		case err := <-ended:
			t.Fatalf("%s: it ended: %v", what, err)
		case <-time.After(hung):
			t.Fatalf("%s: nobody was told", what)
		}
	}
	next("to begin with, where there is no guard")
	// Until a change makes a difference, calls may be of earlier ones.
	until := func(what string, cond func() bool) {
		t.Helper()
		for !cond() {
			next(what)
		}
	}
	granted := func(s driver.Share) func() bool {
		r := sharedRequest("a", s)
		return func() bool {
			_, err := b.Shared().TryLock(t.Context(), "k", r)
			if err == nil {
				release(t, b, "k", r.ID)
			}
			return err == nil
		}
	}
	w := sharedRequest("w", writing)
	take(t, other, "k", w)
	change := func(what string, s driver.Share, fn func()) {
		t.Helper()
		isGranted := granted(s)
		if isGranted() {
			t.Fatalf("%s: granted before", what)
		}
		time.AfterFunc(0, fn)
		until(what, isGranted)
	}
	change("a downgrade", reading, func() {
		w.Share = reading
		_, err := other.Shared().Renew(t.Context(), "k", w)
		if err != nil {
			t.Error(err)
		}
	})
	change("a release", writing, func() {
		if err := other.Shared().Unlock(t.Context(), "k", w.ID); err != nil {
			t.Error(err)
		}
	})
	isEmpty(t, b, "k")
	collectGuard(t, b, "k")
	take(t, other, "k", sharedRequest("w", writing))
	change("the end of a session", writing, func() { endSession(other) })
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}

// It ends with the backend, too.
func TestNotifyChangesUntilClose(t *testing.T) {
	srv := testserver.ZooKeeper(t)
	b := connect(t, urlWith(srv.Addr, calmSession))
	ended, listening := make(chan error, 1), make(chan struct{}, 10)
	go func() {
		ended <- b.Shared().(driver.ChangeNotifier).NotifyChanges(t.Context(), "k", func() { listening <- struct{}{} })
	}()
	<-listening
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, driver.ErrClosed) {
		t.Errorf("%v, want ErrClosed", err)
	}
}

// The head keeps others from being granted until it is unlocked, or granted, or its session ends. It does not last longer.
func TestHead(t *testing.T) {
	srv, b := open(t)
	for what, end := range map[string]func(head *backend, id string){
		"unlock":  func(head *backend, id string) { release(t, head, "k", id) },
		"session": func(head *backend, id string) { endSession(head) },
	} {
		head := connect(t, urlWith(srv.Addr, calmSession))
		reader := sharedRequest("r", reading)
		take(t, b, "k", reader)
		h := sharedRequest("head", heading(writing))
		for range 2 {
			if _, err := head.Shared().TryLock(t.Context(), "k", h); !errors.Is(err, driver.ErrLocked) {
				t.Fatal(err)
			}
		}
		isRefused(t, b, "k", reading)
		isRefused(t, b, "k", heading(reading)) // there is one already
		end(head, h.ID)
		becomesFree(t, b, "k", reading)
		release(t, b, "k", reader.ID)
		isEmpty(t, b, "k")
		head.mu.Lock()
		if n := len(head.entries); n != 0 && what == "unlock" {
			t.Errorf("%d entries are left", n)
		}
		head.mu.Unlock()
	}
	reader, h := sharedRequest("r", reading), sharedRequest("head", heading(writing))
	take(t, b, "k", reader)
	isRefusedAs(t, b, "k", h)
	release(t, b, "k", reader.ID)
	isRefused(t, b, "k", reading)
	take(t, b, "k", h)
	release(t, b, "k", h.ID)
	becomesFree(t, b, "k", reading)
	isEmpty(t, b, "k")
}

// An operator breaks a hold: its holder is told, and its weight stays taken until its lease is over.
func TestBreakOfASharedHold(t *testing.T) {
	t.Parallel()
	srv := testserver.ZooKeeper(t)
	b, operator := connect(t, storeURL(srv.Addr)), connect(t, urlWith(srv.Addr, calmSession))
	lost := make(chan string, 1)
	b.Shared().(driver.LossNotifier).NotifyLost(func(key, id string, _ error) { lost <- key + id })
	r, beside := sharedRequest("a", permits(2, 3)), sharedRequest("b", permits(1, 3))
	r.TTL = testSession
	g := take(t, b, "k", r)
	take(t, operator, "k", beside)
	if err := operator.Shared().(driver.Breaker).Break(t.Context(), "k", r.ID); err != nil {
		t.Fatal(err)
	}
	if got := <-lost; got != "k"+r.ID {
		t.Errorf("lost %q", got)
	}
	if _, err := b.Shared().Renew(t.Context(), "k", r); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("Renew: %v", err)
	}
	if err := b.Shared().Unlock(t.Context(), "k", r.ID); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("Unlock: %v", err)
	}
	becomesFree(t, operator, "k", permits(2, 3))
	if early := time.Until(g.Since.Add(g.TTL)); early > 0 {
		t.Errorf("granted again %v before the lease was over", early)
	}
	must[driver.Grant](t)(operator.Shared().Renew(t.Context(), "k", beside))
}

func isRefusedAs(t testing.TB, b *backend, key string, r driver.Request) {
	t.Helper()
	if _, err := b.Shared().TryLock(t.Context(), key, r); !errors.Is(err, driver.ErrLocked) {
		t.Fatalf("TryLock of %+v: %v, want ErrLocked", r.Share, err)
	}
}

// Clients queue for a shared key in the exclusive lock of the same key, and the head is woken by a change. A session that ends
// ends what its client has.
func TestClientsShareKeys(t *testing.T) {
	srv := testserver.ZooKeeper(t)
	var clients []*coord.Client
	for range 3 {
		c := must[*coord.Client](t)(coord.New(connect(t, urlWith(srv.Addr, calmSession))))
		defer c.Close()
		clients = append(clients, c)
	}
	const bound = 3
	var used atomic.Int64
	var all sync.WaitGroup
	for _, c := range clients {
		for range 8 {
			all.Go(func() {
				for range 4 {
					l, err := c.Semaphore(bound).Lock(t.Context(), "permits")
					if err != nil {
						t.Error(err)
						return
					}
					if n := used.Add(1); n > bound {
						t.Errorf("%d of %d", n, bound)
					}
					used.Add(-1)
					if err := l.Unlock(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	reader := must[*coord.Lock](t)(clients[0].ReadWrite().Read().Lock(t.Context(), "k"))
	granted := make(chan error, 1)
	go func() {
		l, err := clients[1].ReadWrite().Write().Lock(t.Context(), "k")
		if err == nil {
			err = l.Unlock(t.Context())
		}
		granted <- err
	}()
	eventually(t, "the writer to be the head", func() bool {
		_, err := clients[2].ReadWrite().Read().TryLock(t.Context(), "k")
		if err == nil {
			t.Log("a reader came before the writer")
		}
		return errors.Is(err, coord.ErrLocked)
	})
	select {
	case err := <-granted:
		t.Fatalf("a writer beside a reader: %v", err)
	default:
	}
	if err := reader.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
	clients[2].Close() // its readers
	if err := <-granted; err != nil {
		t.Error(err)
	}
}
