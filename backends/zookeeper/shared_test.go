package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
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
	a, head := sharedRequest("a", permits(2, 3)), sharedRequest("head", heading(permits(3, 3)))
	take(t, b, "k", a)
	release(t, b, "k", a.ID)
	p.take()
	take(t, b, "k", a)
	expect("a take", opChildren, opMulti)
	isRefused(t, b, "k", permits(3, 3))
	expect("a refusal", opChildren)
	isRefusedAs(t, b, "k", head)
	expect("to become the head", opChildren, opMulti)
	isRefusedAs(t, b, "k", head)
	expect("a head", opChildren)
	release(t, b, "k", head.ID)
	expect("a head that gives up", opSync, opChildren, opDelete)
	less := a
	less.Share = permits(1, 3)
	for _, what := range []string{"to give a permit back", "a renewal"} {
		must[driver.Grant](t)(b.Shared().Renew(t.Context(), "k", less))
		expect(what, opMulti)
	}
	beside := sharedRequest("b", permits(1, 3))
	take(t, b, "k", beside)
	p.take()
	release(t, b, "k", beside.ID)
	expect("a release", opDelete)
}

// Takes of one client do not defeat each other: each costs what one alone costs.
func TestSharedRequestsOfManyCallers(t *testing.T) {
	t.Parallel()
	p, b := openTapped(t)
	r := sharedRequest("first", reading)
	take(t, b, "k", r) // makes the guard
	p.take()
	const callers = 30
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			if _, err := b.Shared().TryLock(t.Context(), "k", sharedRequest("a", reading)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	count := map[int32]int{}
	for _, op := range p.take() {
		count[op]++
	}
	if count[opChildren] != callers || count[opMulti] != callers {
		t.Errorf("%d takes: %d listings and %d transactions, want one of both for each", callers, count[opChildren], count[opMulti])
	}
}

// Readers of many clients that come at once, as at a deployment, defeat each other, and each listing and transaction
// that was in vain is made again. So the pauses after defeats grow, from a few times what an attempt took, up to a
// bound.
func TestPauseAfterDefeats(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		took    time.Duration
		defeats int
		want    time.Duration
	}{
		{0, 0, 4 * time.Microsecond},
		{time.Millisecond, 0, 4 * time.Millisecond},
		{time.Millisecond, 1, 8 * time.Millisecond},
		{time.Millisecond, 4, 64 * time.Millisecond},
		{time.Millisecond, 1000, 64 * time.Millisecond},
		{time.Minute, 1000, 640 * time.Millisecond},
	} {
		if got := pauseAfter(c.defeats, c.took); got != c.want {
			t.Errorf("after %d defeats, and an attempt of %v: %v, want %v", c.defeats, c.took, got, c.want)
		}
	}
}

// A head that is woken has its watch again, and asks as before.
func TestSharedRequestsOfAHead(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	other := connect(t, urlWith(t, srv.Addr, calmSession))
	p := newTap(t, srv.Addr)
	b := connect(t, urlWith(t, p.addr(), calmSession))
	expect := func(what string, want ...int32) {
		t.Helper()
		if got := slices.DeleteFunc(p.take(), func(op int32) bool { return op == opGet }); !slices.Equal(got, want) {
			t.Errorf("%s: requests %v, want %v", what, got, want)
		}
	}
	w, head := sharedRequest("w", writing), sharedRequest("head", heading(writing))
	take(t, other, "k", w)
	isRefusedAs(t, b, "k", head)
	p.take()
	told, goOn := make(chan struct{}), make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	var listener sync.WaitGroup
	listener.Go(func() {
		_ = b.Shared().NotifyChanges(ctx, "k", func() {
			for _, c := range []chan struct{}{told, goOn} {
				select {
				case c <- struct{}{}:
				case <-ctx.Done():
				}
			}
		})
	})
	defer listener.Wait()
	defer stop()
	<-told
	expect("to listen", opChildren)
	isRefusedAs(t, b, "k", head)
	isRefusedAs(t, b, "k", head)
	expect("two refusals", opChildren, opChildren)
	<-goOn
	release(t, other, "k", w.ID)
	<-told
	expect("to be told", opChildren)
	take(t, b, "k", head)
	expect("a grant", opChildren, opMulti)
}

// Names that are not ours may be holds that we do not understand.
func TestForeignSharers(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	tag := tagOf("x")
	for what, nodes := range map[string]map[string]string{
		"none":    {"": ""},
		"data":    {"": "theirs", "/0123456789abcdef": ""},
		"two":     {"/0123456789abcdef": "", "/0123456789abcde0": ""},
		"child":   {"/0123456789abcdef": "", "/theirs": "theirs"},
		"version": {"/0123456789abcdef": "", "/2-" + tag + "-1-hold-read-0-0-0": "x"},
		"kind":    {"/0123456789abcdef": "", "/1-" + tag + "-1-hold-shared-0-0-0": "x"},
		"weight":  {"/0123456789abcdef": "", "/1-" + tag + "-1-hold-permits-0-3-2": "x"},
	} {
		dir := b.guardPath(what)
		for _, child := range slices.Sorted(maps.Keys(nodes)) { // the guard first: it is made where it is missing
			put(t, b, dir+child, nodes[child], 0)
		}
		r := sharedRequest("a", reading)
		s := b.Shared()
		for step, call := range map[string]func() error{
			"TryLock": func() error { return second(s.TryLock(t.Context(), what, r)) },
			"Head":    func() error { r := r; r.Share.Head = true; return second(s.TryLock(t.Context(), what, r)) },
			"Holders": func() error { return second(s.Holders(t.Context(), what)) },
			"Break":   func() error { return s.Break(t.Context(), what, r.ID) },
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
	put(t, b, b.guardPath("k")+"/1-"+tag+"-9-hold-read-5-0-0", "not the id", 0)
	if _, err := b.Shared().Holders(t.Context(), "k"); !errors.Is(err, driver.ErrCorrupt) {
		t.Errorf("Holders: %v, want ErrCorrupt", err)
	}
	isRefused(t, b, "k", writing)
}

// A guard is removed once nobody has used it for a while. A key that is held, or has a head, keeps its guard.
func TestGuardsAreCollected(t *testing.T) {
	t.Parallel()
	srv, b := open(t)
	b.collecting.Store(true) // by this test alone: after ten seconds of a busy machine the client would begin
	dead := connect(t, urlWith(t, srv.Addr, calmSession))
	for i := range 30 {
		r := sharedRequest("a", reading)
		take(t, dead, fmt.Sprint("k", i), r)
		if i%2 == 0 {
			release(t, dead, fmt.Sprint("k", i), r.ID)
		}
	}
	held := sharedRequest("held", writing)
	held.TTL = time.Hour
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
	if n := collect(leaderNow(t, b) + (collectMargin - time.Minute).Microseconds()); n != 0 || guards() != 31 {
		t.Errorf("%d guards that were used just now were removed, %d are left", n, guards())
	}
	if n := collect(leaderNow(t, b) + (collectMargin + time.Minute).Microseconds()); n != 30 || guards() != 1 {
		t.Errorf("%d guards were removed, %d are left: want all but that of a hold", n, guards())
	}
	must[driver.Grant](t)(b.Shared().Renew(t.Context(), "held", held))
	becomesFree(t, b, "k1", writing)
}

// A client that knows the guard of a key finds out that it was removed.
func TestTokensRiseOverCollection(t *testing.T) {
	t.Parallel()
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
	other := connect(t, urlWith(t, srv.Addr, calmSession))
	ctx, stop := context.WithCancel(t.Context())
	told := make(chan struct{}, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- b.Shared().NotifyChanges(ctx, "k", func() {
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
	srv := shared(t)
	b := connect(t, urlWith(t, srv.Addr, calmSession))
	ended, listening := make(chan error, 1), make(chan struct{}, 10)
	go func() {
		ended <- b.Shared().NotifyChanges(t.Context(), "k", func() { listening <- struct{}{} })
	}()
	<-listening
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, driver.ErrClosed) {
		t.Errorf("%v, want ErrClosed", err)
	}
}
