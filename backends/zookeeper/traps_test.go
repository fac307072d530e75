package zookeeper

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// children are the nodes of a lock's queue, as another connection sees them.
func children(t testing.TB, conn *zk.Conn, b *backend, key string) []string {
	t.Helper()
	names, _, err := conn.Children(b.lockDir(key))
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		t.Fatal(err)
	}
	return names
}

func isFree(t testing.TB, b *backend, key string) {
	t.Helper()
	r := request("free", time.Minute)
	eventually(t, key+" to be free", func() bool {
		_, err := b.TryLock(t.Context(), key, r)
		if err != nil && driver.Definite(err) && !errors.Is(err, driver.ErrLocked) && !errors.Is(err, driver.ErrNotSent) {
			t.Fatal(err)
		}
		return err == nil
	})
	eventually(t, key+" to be given back", func() bool {
		err := b.Unlock(t.Context(), key, r.ID)
		return err == nil || errors.Is(err, driver.ErrNotHeld) // by an earlier request
	})
}

// The reply to a create is lost: the node is looked for after a sync, and is the hold's.
func TestTrap01LostCreateIsFoundAfterSync(t *testing.T) {
	p, b := openTapped(t)
	beside := raw(t, p.target)
	isFree(t, b, "k")
	for i := range 5 {
		done := p.once(opMulti, dropOne)
		p.take()
		r := request("a", testSession)
		g := must[driver.Grant](t)(b.TryLock(t.Context(), "k", r))
		<-done
		ops := p.take()
		// The search for nodes that come later goes on beside it.
		after := ops[slices.Index(ops, opMulti)+1:]
		seen := slices.Index(after, opExists)
		if seen < 0 || slices.Contains(after, opMulti) || !slices.Contains(after[:seen], opSync) || !slices.Contains(after[:seen], opChildren) {
			t.Errorf("round %d: requests %v, want the node to be looked for after a sync", i, ops)
		}
		names := children(t, beside, b, "k")
		if len(names) != 1 {
			t.Fatalf("round %d: nodes %v, want one", i, names)
		}
		_, stat, err := beside.Get(b.lockDir("k") + "/" + names[0])
		if err != nil || stat.EphemeralOwner != b.conn.SessionID() || stat.Czxid != g.Token {
			t.Errorf("round %d: node of session %x and token %d, %v: want %x and %d", i, stat.EphemeralOwner, stat.Czxid, err, b.conn.SessionID(), g.Token)
		}
		if err := b.Unlock(t.Context(), "k", r.ID); err != nil {
			t.Fatal(err)
		}
	}
}

// A node of the same id that another session made is not taken for the lost one.
func TestTrap01FoundNodeMustBeOfThisSession(t *testing.T) {
	p, b := openTapped(t)
	other := connect(t, urlWith(t, p.target, calmSession))
	r := request("a", testSession)
	held := must[driver.Grant](t)(other.TryLock(t.Context(), "k", r))
	done := p.once(opMulti, cut) // never made
	g, err := b.TryLock(t.Context(), "k", r)
	<-done
	if err != nil || g.Token != held.Token || g.TTL != 0 {
		t.Errorf("through another client: %+v, %v: want token %d and no lease of our own", g, err, held.Token)
	}
	if err := other.Unlock(t.Context(), "k", r.ID); err != nil {
		t.Fatal(err)
	}
	isFree(t, b, "k")
}

// In an ensemble the answer to a create is lost, and reads find the node. They are no sign of life: the server that
// answers them may have lost its leader. Without a write there is no grant.
func TestTrap01FoundNodeIsNoSignOfLife(t *testing.T) {
	p, b := openTapped(t)
	b.alone.Store(false)
	var writes atomic.Int32
	p.disturb(func(op int32) deed {
		switch {
		case op != opMulti:
			return pass
		case writes.Add(1) == 1:
			return dropOne
		}
		return cut
	})
	g, err := b.TryLock(t.Context(), "k", request("a", time.Minute))
	if err == nil || driver.Definite(err) || writes.Load() != 2 {
		t.Errorf("%d writes, none answered: %+v, %v; want two, and an unknown outcome", writes.Load(), g, err)
	}
	p.disturb(nil)
	isFree(t, b, "k")
}

// The connection goes for good while the create is under way, and so its caller: what it made is removed
// by Unlock as soon as there is a connection, in the same session.
func TestTrap02LostCreateIsUnlocked(t *testing.T) {
	t.Parallel()
	p, b := openTapped(t)
	beside := connect(t, urlWith(t, p.target, calmSession))
	isFree(t, b, "k")
	dropped := false
	p.disturb(func(op int32) deed {
		switch {
		case op == opMulti && !dropped:
			dropped = true
			return dropOne
		case dropped && op == opConnect:
			return hold
		}
		return pass
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	start := time.Now()
	r := request("a", testSession)
	_, err := b.TryLock(ctx, "k", r)
	if err == nil || driver.Definite(err) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without an answer: %v, want an unknown outcome", err)
	}
	if took := time.Since(start); took > hung {
		t.Errorf("it took %v", took)
	}
	if _, err := beside.TryLock(t.Context(), "k", request("b", testSession)); !errors.Is(err, driver.ErrLocked) {
		t.Errorf("a rival, the node being there: %v", err)
	}
	session := b.conn.SessionID()
	p.disturb(nil)
	p.release()
	if err := b.Unlock(t.Context(), "k", r.ID); err != nil {
		t.Errorf("Unlock: %v", err)
	}
	isFree(t, beside, "k")
	if now := b.conn.SessionID(); now != session {
		t.Errorf("session %x became %x: the node was not removed but lapsed", session, now)
	}
}

// A reply that comes after its caller has gone is undone.
func TestTrap02LateSuccessIsUndone(t *testing.T) {
	t.Parallel()
	p, b := openTapped(t)
	beside := connect(t, urlWith(t, p.target, calmSession))
	isFree(t, b, "k")
	p.once(opMulti, hold)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := b.TryLock(ctx, "k", request("a", testSession)); err == nil || driver.Definite(err) {
		t.Errorf("%v: want an unknown outcome", err)
	}
	p.take()
	p.release()
	eventually(t, "the node to be made and removed", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.entries) == 0
	})
	if ops := p.take(); !slices.Contains(ops, opDelete) {
		t.Errorf("requests %v: want the late node deleted", ops)
	}
	isFree(t, beside, "k")
}

// Of the errors of writes only answers of a server are definite.
func TestTrap03OtherErrorsAreAmbiguousToo(t *testing.T) {
	for _, err := range []error{
		zk.ErrConnectionClosed, zk.ErrSessionMoved, zk.ErrSessionExpired, zk.ErrUnknown, zk.ErrAPIError, zk.ErrClosing, zk.ErrNothing,
		&net.OpError{Op: "write", Err: errors.New("broken pipe")}, errors.New("unknown error: -4"), errors.New("unknown error: -60"), context.DeadlineExceeded,
	} {
		if answered(err) || driver.Definite(classify(err)) {
			t.Errorf("%v counts as an answer", err)
		}
	}
	for _, err := range []error{zk.ErrNoAuth, zk.ErrNoServer, zk.ErrInvalidACL, errors.New("unknown error: -6"), errors.New("unknown error: -125"), errors.New("unknown error: -127")} {
		if !driver.Definite(classify(err)) {
			t.Errorf("%v does not count as refused", err)
		}
	}
}

// A waiter that gives up for want of a connection does not say that it has changed nothing: it is in the queue.
func TestTrap03AWaiterThatGivesUpIsInLine(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	p := newTap(t, srv.Addr)
	b := connect(t, storeURL(t, p.addr()))
	beside := connect(t, urlWith(t, srv.Addr, calmSession))
	must[driver.Grant](t)(beside.TryLock(t.Context(), "k", request("a", time.Minute)))
	broken := false
	p.disturb(func(op int32) deed {
		if broken = broken || op == opChildren; broken {
			return cut
		}
		return pass
	})
	_, err := b.Lock(t.Context(), "k", request("b", time.Minute), func() {})
	if err == nil || driver.Definite(err) {
		t.Errorf("%v, want an unknown outcome", err)
	}
}

// A server that answers what nobody knows is asked again, but not without a pause.
func TestTrap03UnknownAnswersAreNoBusyLoop(t *testing.T) {
	t.Parallel()
	p, b := openTapped(t)
	isFree(t, b, "k")
	p.answer = -4
	p.disturb(func(op int32) deed {
		if op == opMulti {
			return refuse
		}
		return pass
	})
	p.take()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := b.TryLock(ctx, "k", request("a", time.Minute)); err == nil || driver.Definite(err) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want an unknown outcome", err)
	}
	if n := len(p.take()); n > 100 {
		t.Errorf("%d requests in half a second", n)
	}
}

// A new session on the same connection has none of the old holds, says so at once, and
// what waited in the old one fails instead of coming back.
func TestTrap06NewSessionLosesEverything(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	p := newTap(t, srv.Addr)
	b := connect(t, urlWith(t, p.addr(), endingSession))
	beside := connect(t, urlWith(t, srv.Addr, calmSession))
	lost := make(chan string, 10)
	b.NotifyLost(func(key, _ string, cause error) {
		if cause == nil {
			t.Error("a loss without a cause")
		}
		lost <- key
	})
	var rs []driver.Request
	for i := range 3 {
		r := request("a", time.Minute)
		must[driver.Grant](t)(b.TryLock(t.Context(), fmt.Sprint("k", i), r))
		rs = append(rs, r)
	}
	blocker := request("blocker", time.Minute)
	must[driver.Grant](t)(beside.TryLock(t.Context(), "w", blocker))
	waiter := request("waiter", time.Minute)
	ended := queueUp(t.Context(), b, "w", waiter)
	old := b.conn.SessionID()
	p.disturb(func(int32) deed { return cut })
	p.breakAll()
	for i := range 3 {
		isFree(t, beside, fmt.Sprint("k", i)) // the server has ended the session
	}
	if err := <-ended; err == nil || driver.Definite(err) {
		t.Errorf("the waiter: %v, want an error that lets it queue again", err)
	}
	p.disturb(nil)
	var keys []string
	for range 3 {
		select {
		case key := <-lost:
			keys = append(keys, key)
		case <-time.After(hung):
			t.Fatalf("losses of %v only", keys)
		}
	}
	eventually(t, "a new session", func() bool {
		id, err := b.await(t.Context())
		return err == nil && id != old
	})
	for i, r := range rs {
		if _, err := b.Renew(t.Context(), fmt.Sprint("k", i), r); !errors.Is(err, driver.ErrNotHeld) {
			t.Errorf("renewal in a new session: %v", err)
		}
	}
	if err := beside.Unlock(t.Context(), "w", blocker.ID); err != nil {
		t.Fatal(err)
	}
	isFree(t, beside, "w")
}

// What the library still had when the connection went, it sends in the next session, long after the caller
// has gone: such nodes are removed too, and block nobody for as long as that session lives.
func TestTrap06QueuedCreatesLeaveNoGhosts(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	p := newTap(t, srv.Addr)
	b := connect(t, urlWith(t, p.addr(), endingSession))
	beside := connect(t, urlWith(t, srv.Addr, calmSession))
	const n = 64
	for i := range n {
		isFree(t, b, fmt.Sprint("k", i)) // makes the parents
	}
	marker := request("marker", time.Minute)
	must[driver.Grant](t)(b.TryLock(t.Context(), "marker", marker))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var sent atomic.Int32
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			for ctx.Err() == nil {
				_, _ = b.TryLock(ctx, fmt.Sprint("k", i), request("a", time.Minute)) // whatever becomes of it
				sent.Add(1)
			}
		})
	}
	eventually(t, "traffic", func() bool { return sent.Load() > 2*n || ctx.Err() != nil })
	old := b.conn.SessionID()
	p.disturb(func(int32) deed { return cut })
	p.breakAll()
	all.Wait()
	isFree(t, beside, "marker") // the server has ended the session
	p.disturb(nil)
	eventually(t, "a new session", func() bool {
		id, err := b.await(t.Context())
		return err == nil && id != old
	})
	must[driver.Grant](t)(b.TryLock(t.Context(), "last", request("a", time.Minute))) // behind what was still to be sent
	for i := range n {
		isFree(t, beside, fmt.Sprint("k", i))
	}
}

// The server's bounds count, and the session timeout that it granted is known.
func TestTrap07GrantedTimeoutCounts(t *testing.T) {
	t.Parallel()
	srv := testserver.ZooKeeper(t, testserver.WithConfig("maxSessionTimeout=900"))
	b := connect(t, urlWith(t, srv.Addr, time.Minute))
	g := must[driver.Grant](t)(b.TryLock(t.Context(), "k", request("a", time.Minute)))
	if g.TTL != 900*time.Millisecond || b.Info().MinTTL != g.TTL {
		t.Errorf("TTL %v, MinTTL %v: want the server's 900ms", g.TTL, b.Info().MinTTL)
	}
}

func TestParseConnectReply(t *testing.T) {
	reply, err := hex.DecodeString("00000025" + "00000000" + "000003e8" + "0100000000000007" + "00000010")
	if err != nil {
		t.Fatal(err)
	}
	for n := range reply {
		timeout, session, ok := parseConnectReply(reply[:n])
		if want := n >= connectReply; ok != want || ok && (timeout != time.Second || session != 0x0100000000000007) {
			t.Errorf("%d bytes: %v, %x, %v", n, timeout, session, ok)
		}
	}
}

// FuzzParseConnectReply: whatever a server says, reading it does not panic.
func FuzzParseConnectReply(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, connectReply))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, _, ok := parseConnectReply(b); ok != (len(b) >= connectReply) {
			t.Errorf("%d bytes: %v", len(b), ok)
		}
	})
}

// Nothing depends on the library's events: an application that never reads them, so that they
// are dropped, sees its losses all the same.
func TestTrap08EventsMayOverflow(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	p := newTap(t, srv.Addr)
	conn, events, err := zk.Connect([]string{p.addr()}, calmSession, zk.WithLogger(silence{}), zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		conn.Close()
		for range events { // until the connection's goroutines have ended
		}
	}()
	b := must[driver.Backend](t)(New(conn, WithSessionTimeout(calmSession), WithRoot(rootOf(t)))).(*backend)
	defer b.Close()
	for range 10 { // a few events each, for a channel of six
		p.breakAll()
		eventually(t, "a connection", func() bool { return b.Ping(t.Context()) == nil })
		if len(events) == cap(events) {
			break
		}
	}
	if len(events) != cap(events) {
		t.Fatalf("%d events of %d", len(events), cap(events))
	}
	lost := make(chan error, 1)
	b.NotifyLost(func(_, _ string, cause error) { lost <- cause })
	r := request("a", time.Minute)
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", r))
	if err := connect(t, urlWith(t, srv.Addr, calmSession)).Unlock(t.Context(), "k", r.ID); err != nil {
		t.Fatal(err)
	}
	select {
	case <-lost:
	case <-time.After(hung):
		t.Error("the loss was not told")
	}
}

// A node that somebody removed while it was in the queue is never granted.
func TestTrap09RemovedWaiterIsNotGranted(t *testing.T) {
	srv, b := open(t)
	beside := raw(t, srv.Addr)
	holder, waiter := request("a", testSession), request("b", testSession)
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", holder))
	ended := queueUp(t.Context(), b, "k", waiter)
	for _, name := range children(t, beside, b, "k") {
		if strings.HasPrefix(name, "1-"+tagOf(waiter.ID)) {
			if err := beside.Delete(b.lockDir("k")+"/"+name, -1); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := b.Unlock(t.Context(), "k", holder.ID); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("a waiter whose node was removed: %v, want ErrNotHeld", err)
	}
	isFree(t, b, "k")
}

// A child that is not ours may be a holder of another version: the lock is refused, and the child stays.
func TestTrap10ForeignChildrenAreRefused(t *testing.T) {
	t.Parallel()
	srv, b := open(t)
	beside := raw(t, srv.Addr)
	isFree(t, b, "k")
	dir := b.lockDir("k")
	for _, foreign := range []string{"foreign", "_c_00000000000000000000000000000000-lock-0000000000", "1-" + tagOf("x") + "-1", "2-" + tagOf("x") + "-0000000000"} {
		a, w := request("a", testSession), request("b", testSession)
		must[driver.Grant](t)(b.TryLock(t.Context(), "k", a))
		granted := queueUp(t.Context(), b, "k", w)
		path := dir + "/" + foreign
		if _, err := beside.Create(path, []byte("theirs"), 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
		// Who holds goes on; who waits is refused when its turn comes.
		must[driver.Grant](t)(b.Renew(t.Context(), "k", a))
		if err := b.Unlock(t.Context(), "k", a.ID); err != nil {
			t.Fatal(err)
		}
		c := request("c", testSession)
		for what, err := range map[string]error{
			"the waiter": <-granted,
			"TryLock":    second(b.TryLock(t.Context(), "k", c)),
			"Lock":       second(b.Lock(t.Context(), "k", c, func() {})),
			"Inspect":    second(b.Inspect(t.Context(), "k")),
			"Break":      b.Break(t.Context(), "k", c.ID),
		} {
			if !errors.Is(err, driver.ErrCorrupt) || !driver.Definite(err) {
				t.Errorf("%s beside %s: %v, want ErrCorrupt", what, foreign, err)
			}
		}
		if left := children(t, beside, b, "k"); len(left) != 1 {
			t.Errorf("children %q, want %q alone", left, foreign)
		}
		if data, stat, err := beside.Get(path); err != nil || string(data) != "theirs" || stat.Version != 0 {
			t.Errorf("%s: %q, %v", path, data, err)
		}
		if err := beside.Delete(path, 0); err != nil {
			t.Fatal(err)
		}
		isFree(t, b, "k")
	}
}

// The parent is made again when the server has removed it.
func TestTrap13ReapedParentIsMadeAgain(t *testing.T) {
	t.Parallel()
	srv, b := open(t)
	beside := raw(t, srv.Addr)
	for _, all := range []bool{false, true} {
		isFree(t, b, "k")
		for _, path := range []string{b.lockDir("k"), b.root + "/locks"} {
			if err := beside.Delete(path, -1); err != nil {
				t.Fatal(err)
			}
			if !all {
				break
			}
		}
	}
	isFree(t, b, "k")
}

// The server removes parents that are empty, for clients that have gone.
func TestTrap13ParentsAreContainers(t *testing.T) {
	t.Setenv("JAVA_TOOL_OPTIONS", "-Dznode.container.checkIntervalMs=200")
	b := connect(t, urlWith(t, testserver.ZooKeeper(t).Addr, calmSession))
	for range 2 {
		isFree(t, b, "k")
		eventually(t, "the empty parent to be removed", func() bool {
			ok, _, err := b.conn.Exists(b.lockDir("k"))
			return err == nil && !ok
		})
	}
}

// Waits that were cancelled leave no watch behind for each: one per node is enough.
func TestTrap14WatchesDoNotPileUp(t *testing.T) {
	_, b := open(t)
	holder := request("a", time.Minute)
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", holder))
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		w := request("b", time.Minute)
		ended := queueUp(ctx, b, "k", w)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	text := b.ask(t.Context(), "wchp") // a path, and then each session that watches it
	if _, after, there := strings.Cut(text, b.lockDir("k")+"/"); !there || strings.Contains(after, b.root) {
		t.Errorf("watches at the server: %q, want one", text)
	}
	b.mu.Lock()
	n := len(b.watches)
	b.mu.Unlock()
	if n != 1 {
		t.Errorf("%d watches, want one", n)
	}
	// The node before may go between the listing and the watch.
	if _, _, err := b.watchNode(b.lockDir("k")+"/none", false); !errors.Is(err, zk.ErrNoNode) {
		t.Errorf("watch of a node that is not there: %v", err)
	}
	if err := b.Unlock(t.Context(), "k", holder.ID); err != nil {
		t.Fatal(err)
	}
	isFree(t, b, "k")
}

// A delete whose reply was lost says so; repeated, it finds nothing of its own and leaves the successor alone.
func TestTrap15LostDelete(t *testing.T) {
	p, b := openTapped(t)
	beside := connect(t, urlWith(t, p.target, calmSession))
	r := request("a", testSession)
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", r))
	<-closedAfter(p, opDelete, func() {
		if err := b.Unlock(t.Context(), "k", r.ID); err == nil || driver.Definite(err) {
			t.Errorf("Unlock whose reply was lost: %v, want an unknown outcome", err)
		}
	})
	next := request("b", testSession)
	must[driver.Grant](t)(beside.TryLock(t.Context(), "k", next))
	if err := b.Unlock(t.Context(), "k", r.ID); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("repeated: %v, want ErrNotHeld", err)
	}
	must[driver.Grant](t)(beside.Renew(t.Context(), "k", next))
}

func closedAfter(p *tap, op int32, fn func()) <-chan struct{} {
	done := p.once(op, dropOne)
	fn()
	return done
}

// A host that accepts connections and then says nothing costs a part of the session, and no
// more of the caller's time than ctx.
func TestTrap16SilentHandshake(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	u, err := url.Parse("zookeeper://" + l.Addr().String() + "?session_timeout=1h&dial_timeout=1h")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := Open(ctx, u); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Open on a silent host: %v", err)
	}
	if took := time.Since(start); took > hung {
		t.Errorf("it took %v", took)
	}
	srv := shared(t)
	start = time.Now()
	b := connect(t, "zookeeper://"+l.Addr().String()+","+srv.Addr+rootOf(t)+"?session_timeout=1s")
	if took := time.Since(start); took > hung {
		t.Errorf("with a second host it took %v", took)
	}
	isFree(t, b, "k")
}

// On a new connection the library asks for its watches again, as of the last transaction that it has
// seen. No answer may come before it has looked which one that was: it would take changes of the
// meantime for known. (The race detector sees it look.)
func TestWatchesAreAskedForBeforeAnswersCome(t *testing.T) {
	srv := shared(t)
	for _, user := range []string{"", "me:secret@"} {
		b := connect(t, "zookeeper://"+user+srv.Addr+rootOf(t)+"/"+strconv.Itoa(len(user))+"?session_timeout="+calmSession.String())
		must[driver.Grant](t)(b.TryLock(t.Context(), "k", request("a", time.Minute)))
		eventually(t, "the hold to be watched", b.watching)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for ctx.Err() == nil {
					_ = b.Ping(ctx) // breaks with the connection
				}
			})
		}
		for range 20 {
			old := b.wire.current()
			b.wire.cut()
			eventually(t, "another connection", func() bool { return b.wire.current() != old && b.Ping(ctx) == nil })
		}
		cancel()
		all.Wait()
	}
}

func second[T any](_ T, err error) error { return err }
