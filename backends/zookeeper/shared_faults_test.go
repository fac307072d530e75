package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// Each request of each step is lost, or its reply is. The step is repeated, and has been done once: then one release is
// enough, and nothing is left.
func TestLostRepliesOfSharedHolds(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	p := newTap(t, srv.Addr)
	b, beside := connect(t, urlWith(t, p.addr(), calmSession)), connect(t, urlWith(t, srv.Addr, calmSession))
	n := 0
	for what, step := range map[string]func(key string){
		"a free key":   func(key string) { lostTake(t, b, beside, key, writing) },
		"beside":       func(key string) { lostTakeBeside(t, b, beside, key) },
		"a downgrade":  func(key string) { lostShrink(t, b, beside, key, writing, reading) },
		"fewer":        func(key string) { lostShrink(t, b, beside, key, permits(3, 3), permits(1, 3)) },
		"the head":     func(key string) { lostHead(t, b, beside, key) },
		"the operator": func(key string) { lostBreak(t, b, beside, key) },
	} {
		for _, kind := range []deed{dropOne, cut} {
			for at := 1; ; at++ {
				n++
				key := fmt.Sprint(what, kind, at)
				hit := lose(p, at, kind)
				step(key)
				p.disturb(nil)
				isEmpty(t, beside, key)
				becomesFree(t, beside, key, writing)
				if t.Failed() {
					t.Fatalf("%s, request %d, deed %d", what, at, kind)
				}
				if !hit.Load() {
					break
				}
			}
		}
	}
	t.Logf("%d runs", n)
}

// lose disturbs the request of that number.
func lose(p *tap, at int, d deed) *atomic.Bool {
	var seen atomic.Int32
	var hit atomic.Bool
	p.disturb(func(op int32) deed {
		if op != opPing && op != opConnect && op != opSetWatches && op != opGet && int(seen.Add(1)) == at {
			hit.Store(true)
			return d
		}
		return pass
	})
	return &hit
}

// known repeats a call until its outcome is known.
func known(t testing.TB, call func() error) (err error) {
	t.Helper()
	eventually(t, "a known outcome", func() bool {
		err = call()
		return err == nil || driver.Definite(err) && !errors.Is(err, driver.ErrNotSent)
	})
	return err
}

func lostTake(t *testing.T, b, beside *backend, key string, s driver.Share) {
	t.Helper()
	r := sharedRequest("a", s)
	var g driver.Grant
	if err := known(t, func() (err error) { g, err = b.Shared().TryLock(t.Context(), key, r); return err }); err != nil {
		t.Errorf("TryLock: %v", err)
	}
	all := must[[]driver.Holder](t)(beside.Shared().Holders(t.Context(), key))
	i := 0
	for i < len(all) && all[i].ID != r.ID {
		i++
	}
	if i == len(all) || int64(all[i].Token) != g.Token || all[i].Slot != g.Slot || g.TTL <= 0 {
		t.Errorf("granted %+v, holders %+v", g, all)
	}
	if err := known(t, func() error { return b.Shared().Unlock(t.Context(), key, r.ID) }); err != nil && !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("Unlock: %v", err)
	}
}

func lostTakeBeside(t *testing.T, b, beside *backend, key string) {
	t.Helper()
	other := sharedRequest("other", reading)
	take(t, beside, key, other)
	lostTake(t, b, beside, key, reading)
	release(t, beside, key, other.ID)
}

func lostShrink(t *testing.T, b, beside *backend, key string, from, to driver.Share) {
	t.Helper()
	r := sharedRequest("a", from)
	_ = known(t, func() error { return second(b.Shared().TryLock(t.Context(), key, r)) })
	r.Share = to
	if err := known(t, func() error { return second(b.Shared().Renew(t.Context(), key, r)) }); err != nil {
		t.Errorf("Renew: %v", err)
	}
	other := sharedRequest("other", to)
	take(t, beside, key, other)
	isRefused(t, beside, key, from)
	release(t, beside, key, other.ID)
	if err := known(t, func() error { return b.Shared().Unlock(t.Context(), key, r.ID) }); err != nil && !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("Unlock: %v", err)
	}
}

func lostHead(t *testing.T, b, beside *backend, key string) {
	t.Helper()
	other := sharedRequest("other", reading)
	take(t, beside, key, other)
	head := sharedRequest("head", heading(writing))
	if err := known(t, func() error { return second(b.Shared().TryLock(t.Context(), key, head)) }); !errors.Is(err, driver.ErrLocked) {
		t.Errorf("a head: %v", err)
	}
	isRefused(t, beside, key, reading)
	if err := known(t, func() error { return b.Shared().Unlock(t.Context(), key, head.ID) }); err != nil && !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("Unlock: %v", err)
	}
	release(t, beside, key, other.ID)
}

func lostBreak(t *testing.T, b, beside *backend, key string) {
	t.Helper()
	r := sharedRequest("a", reading)
	take(t, beside, key, r)
	if err := known(t, func() error { return b.Shared().Break(t.Context(), key, r.ID) }); err != nil && !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("Break: %v", err)
	}
	if _, err := beside.Shared().Renew(t.Context(), key, r); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("Renew of a hold that was broken: %v", err)
	}
	if err := beside.remove(beside.guardPath(key) + "/" + sharers(t, beside, key)[0]); err != nil { // as after its lease
		t.Error(err)
	}
}

// A reply that comes after its caller has gone is undone: of a hold, and of a hold that is given up.
func TestLateGrantOfASharedHoldIsUndone(t *testing.T) {
	t.Parallel()
	p, b := openTapped(t)
	beside := connect(t, urlWith(t, p.target, calmSession))
	becomesFree(t, b, "k", writing)
	p.once(opMulti, hold)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	r := sharedRequest("a", writing)
	if _, err := b.Shared().TryLock(ctx, "k", r); err == nil || driver.Definite(err) {
		t.Errorf("%v: want an unknown outcome", err)
	}
	p.release()
	eventually(t, "the node to be made and removed", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.entries) == 0
	})
	isEmpty(t, beside, "k")
	becomesFree(t, beside, "k", writing)
}

// A write that stalled on its way is refused after the guard was removed and made again, though the version is the
// same: it names another incarnation.
func TestLateWriteToAGuardThatWasMadeAgain(t *testing.T) {
	p, b := openTapped(t)
	beside := connect(t, urlWith(t, p.target, calmSession))
	becomesFree(t, b, "k", writing)
	old := must[group](t)(b.group(b.guardPath("k"), false))
	stalled := p.once(opMulti, hold)
	late := make(chan error, 1)
	go func() {
		_, err := b.Shared().TryLock(t.Context(), "k", sharedRequest("late", writing))
		late <- err
	}()
	<-stalled
	collectGuard(t, beside, "k")
	r := sharedRequest("a", writing)
	take(t, beside, "k", r)
	g := must[group](t)(beside.group(beside.guardPath("k"), true))
	if g.stat.Version != old.stat.Version || g.node == old.node {
		t.Fatalf("guard %+v, before it was removed %+v: want the same version of another", g, old)
	}
	p.release()
	if err := <-late; !errors.Is(err, driver.ErrLocked) {
		t.Errorf("a writer beside another: %v", err)
	}
	if all := must[[]driver.Holder](t)(beside.Shared().Holders(t.Context(), "k")); len(all) != 1 || all[0].ID != r.ID {
		t.Errorf("holders %+v", all)
	}
}

// What was known of a key when a request was sent is out of date when it comes, because there is another hold or a
// head: it is refused.
func TestLateWriteAfterAnotherChange(t *testing.T) {
	srv := shared(t)
	beside := connect(t, urlWith(t, srv.Addr, calmSession))
	for what, tc := range map[string]struct {
		share  driver.Share
		change func(key string)
	}{
		"a reader": {writing, func(key string) { take(t, beside, key, sharedRequest("a", reading)) }},
		"a head":   {reading, func(key string) { isRefusedAs(t, beside, key, sharedRequest("a", heading(writing))) }},
	} {
		p := newTap(t, srv.Addr)
		b := connect(t, urlWith(t, p.addr(), calmSession))
		becomesFree(t, b, what, writing)
		if tc.share == reading {
			take(t, beside, what, sharedRequest("b", reading))
		}
		stalled := p.once(opMulti, hold)
		late := make(chan error, 1)
		go func() {
			_, err := b.Shared().TryLock(t.Context(), what, sharedRequest("late", tc.share))
			late <- err
		}()
		<-stalled
		tc.change(what)
		p.release()
		if err := <-late; !errors.Is(err, driver.ErrLocked) {
			t.Errorf("beside %s: %v, want ErrLocked", what, err)
		}
	}
}

// A hold that became smaller by a request whose answer was lost does not become greater by the next one.
func TestMarkOfALostReplyStays(t *testing.T) {
	p, b := openTapped(t)
	beside := connect(t, urlWith(t, p.target, calmSession))
	r := sharedRequest("a", permits(3, 3))
	take(t, b, "k", r)
	lost := p.once(opMulti, dropOne)
	r.Share.Weight = 1
	if _, err := b.Shared().Renew(t.Context(), "k", r); err == nil || driver.Definite(err) {
		t.Errorf("a lost reply: %v", err)
	}
	<-lost
	p.disturb(nil)
	take(t, beside, "k", sharedRequest("b", permits(2, 3)))
	r.Share.Weight = 2
	must[driver.Grant](t)(b.Shared().Renew(t.Context(), "k", r))
	isRefused(t, beside, "k", permits(1, 3))
	release(t, b, "k", r.ID)
}

// A hold that was removed or broken is not made smaller, and nothing is left of it.
func TestShrinkOfAHoldThatHasGone(t *testing.T) {
	srv, b := open(t)
	operator := connect(t, urlWith(t, srv.Addr, calmSession))
	for what, end := range map[string]func(id string) error{
		"removed": func(string) error {
			return operator.conn.Delete(b.guardPath("removed")+"/"+sharers(t, operator, "removed")[0], -1)
		},
		"broken": func(id string) error { return operator.Shared().Break(t.Context(), "broken", id) },
	} {
		r := sharedRequest("a", permits(3, 3))
		take(t, b, what, r)
		if err := end(r.ID); err != nil {
			t.Fatal(err)
		}
		r.Share.Weight = 1
		for range 2 {
			if _, err := b.Shared().Renew(t.Context(), what, r); !errors.Is(err, driver.ErrNotHeld) {
				t.Errorf("%s: %v, want ErrNotHeld", what, err)
			}
		}
		if names := sharers(t, operator, what); what == "removed" && len(names) > 0 {
			t.Errorf("left: %v", names)
		}
		if what == "broken" {
			isRefused(t, operator, what, permits(1, 3))
		}
	}
}

// A client whose session has ended learns of it, and others are granted when its lease is over, not before.
func TestSharedHoldOfAnEndedSession(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	p := newTap(t, srv.Addr)
	b, rival := connect(t, urlWith(t, p.addr(), endingSession)), connect(t, urlWith(t, srv.Addr, calmSession))
	lost := make(chan error, 4)
	b.Shared().NotifyLost(func(_, _ string, cause error) { lost <- cause })
	r, head := sharedRequest("a", writing), sharedRequest("head", heading(writing))
	take(t, b, "k", r)
	isRefusedAs(t, b, "k", head)
	r.Share = reading
	must[driver.Grant](t)(b.Shared().Renew(t.Context(), "k", r))
	eventually(t, "the hold to be watched", b.watching)
	g := must[driver.Grant](t)(b.Shared().Renew(t.Context(), "k", r))
	p.disturb(func(int32) deed { return hold })
	becomesFree(t, rival, "k", writing)
	if early := time.Until(g.Since.Add(g.TTL)); early > 0 {
		t.Errorf("granted %v before the lease was over", early)
	}
	p.disturb(nil)
	p.release()
	if cause := <-lost; !errors.Is(cause, errNewSession) && !errors.Is(cause, errRemoved) {
		t.Errorf("lost by %v", cause)
	}
	if err := known(t, func() error { return second(b.Shared().Renew(t.Context(), "k", r)) }); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("Renew: %v", err)
	}
	// The id is as good as new.
	var again driver.Grant
	if err := known(t, func() (err error) { again, err = b.Shared().TryLock(t.Context(), "k", r); return err }); err != nil || again.Token <= g.Token {
		t.Errorf("%+v, %v after token %d", again, err, g.Token)
	}
	_ = known(t, func() error { return b.Shared().Unlock(t.Context(), "k", r.ID) })
	isEmpty(t, rival, "k")
}

// A hold that nobody renews is given up when its TTL is over, with its marks, though the session lives on.
func TestSharedHoldThatIsNotRenewed(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	b, rival := connect(t, urlWith(t, srv.Addr, endingSession)), connect(t, urlWith(t, srv.Addr, calmSession))
	r := sharedRequest("a", permits(3, 3))
	r.TTL = endingSession
	session := b.conn.SessionID()
	for weight := int64(3); weight > 0; weight-- {
		r.Share.Weight = weight
		if weight == 3 {
			take(t, b, "k", r)
		} else {
			must[driver.Grant](t)(b.Shared().Renew(t.Context(), "k", r))
		}
	}
	if names := sharers(t, rival, "k"); len(names) != 3 {
		t.Errorf("nodes %v: want the hold, and two marks", names)
	}
	isEmpty(t, rival, "k")
	becomesFree(t, rival, "k", permits(3, 3))
	if now := b.conn.SessionID(); now != session {
		t.Errorf("session %x became %x", session, now)
	}
}

// Holds and the head outlive the server that their client is connected to, be it killed or hung: the session goes on at
// another.
func TestNightlySharedHoldsOutliveServers(t *testing.T) {
	const patient = 30 * time.Second // much longer than an election
	c := testserver.ZooKeeperCluster(t, testserver.WithConfig("syncLimit=10"))
	b, rival := connect(t, urlWithHosts(t, c.Addrs(), patient)), connect(t, urlWithHosts(t, c.Addrs(), patient))
	lost := make(chan error, 4)
	b.Shared().NotifyLost(func(_, _ string, cause error) { lost <- cause })
	r, head := sharedRequest("a", permits(2, 3)), sharedRequest("head", heading(permits(3, 3)))
	g := take(t, b, "k", r)
	isRefusedAs(t, b, "k", head)
	session := b.conn.SessionID()
	for what, fault := range map[string][2]func(*testserver.Server){
		"killed": {(*testserver.Server).Kill, func(s *testserver.Server) { s.Start(); s.AwaitReady() }},
		"hung":   {(*testserver.Server).Pause, (*testserver.Server).Resume},
	} {
		victim := nodeOf(t, c, b)
		fault[0](victim)
		eventually(t, "a renewal after the server was "+what, func() bool {
			again, err := b.Shared().Renew(t.Context(), "k", r)
			if errors.Is(err, driver.ErrNotHeld) {
				t.Fatalf("after the server was %s: %v", what, err)
			}
			return err == nil && again.Token == g.Token && again.Slot == g.Slot && nodeOf(t, c, b) != victim
		})
		if now := b.conn.SessionID(); now != session {
			t.Errorf("after the server was %s: another session", what)
		}
		// Room is left, and the head keeps it.
		other := sharedRequest("other", permits(1, 3))
		if err := known(t, func() error { return second(rival.Shared().TryLock(t.Context(), "k", other)) }); !errors.Is(err, driver.ErrLocked) {
			t.Errorf("after the server was %s: %v, want ErrLocked", what, err)
		}
		fault[1](victim)
		eventually(t, "both clients to be connected", func() bool {
			return b.Ping(t.Context()) == nil && rival.Ping(t.Context()) == nil
		})
	}
	select {
	case cause := <-lost:
		t.Errorf("lost: %v", cause)
	default:
	}
	if err := known(t, func() error { return b.Shared().Unlock(t.Context(), "k", r.ID) }); err != nil && !errors.Is(err, driver.ErrNotHeld) {
		t.Error(err)
	}
	var next driver.Grant
	if err := known(t, func() (err error) { next, err = b.Shared().TryLock(t.Context(), "k", head); return err }); err != nil || next.Token <= g.Token {
		t.Errorf("the head: %+v, %v, after token %d", next, err, g.Token)
	}
}

// It works over the application's connection, and what is not given back stays for its lease.
func TestNewKeepsSharedHolds(t *testing.T) {
	t.Parallel()
	conn := ownConn(t, shared(t).Addr, endingSession)
	b := must[driver.Backend](t)(New(conn, WithSessionTimeout(endingSession), WithRoot(rootOf(t)), WithACL(zk.WorldACL(zk.PermAll)))).(*backend)
	next := must[driver.Backend](t)(New(conn, WithSessionTimeout(endingSession), WithRoot(rootOf(t)))).(*backend)
	defer next.Close()
	r := sharedRequest("a", permits(2, 2))
	r.TTL = endingSession
	g := take(t, b, "k", r)
	r.Share.Weight = 1
	must[driver.Grant](t)(b.Shared().Renew(t.Context(), "k", r))
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if _, err := b.Shared().TryLock(t.Context(), "k", r); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	becomesFree(t, next, "k", permits(2, 2))
	if early := time.Until(g.Since.Add(g.TTL)); early > 0 {
		t.Errorf("free %v before the lease was over", early)
	}
	isEmpty(t, next, "k")
}

// A mark that Renew makes while Unlock is under way goes too.
func TestShrinkAmidUnlock(t *testing.T) {
	t.Parallel()
	p, b := openTapped(t)
	beside := connect(t, urlWith(t, p.target, calmSession))
	r := sharedRequest("a", permits(3, 3))
	take(t, b, "k", r)
	e := b.enter(holdName{"k", r.ID, true})
	defer e.leave()
	var once sync.Once
	p.disturb(func(op int32) deed {
		if op == opDelete {
			once.Do(func() {
				b.mu.Lock()
				mark := e.mark(permits(1, 3))
				b.mu.Unlock()
				put(t, beside, e.dir+"/"+mark.name(), r.ID, 0)
			})
		}
		return pass
	})
	release(t, b, "k", r.ID)
	isEmpty(t, beside, "k")
}
