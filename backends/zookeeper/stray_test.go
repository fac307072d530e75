package zookeeper

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord/driver"
)

// What a request without an answer made is removed, also if an operator broke it meanwhile.
func TestBrokenStrayIsRemoved(t *testing.T) {
	t.Parallel()
	srv, b := open(t)
	operator := connect(t, urlWith(t, srv.Addr, calmSession))
	r := request("a", time.Minute)
	e := must[*entry](t)(b.turn(t.Context(), holdName{key: "k", id: r.ID}))
	must[ticket](t)((&attempt{b: b, e: e, r: r}).create(b.conn.SessionID()))
	e.end()
	if err := operator.Break(t.Context(), "k", r.ID); err != nil {
		t.Fatal(err)
	}
	if err := b.Unlock(t.Context(), "k", r.ID); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("Unlock: %v, want ErrNotHeld", err)
	}
	if left := children(t, operator.conn, b, "k"); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// Over the application's connection a node whose create has no answer goes after Close, though the session lives on.
func TestNewClearsStraysAfterClose(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	p := newTap(t, srv.Addr)
	conn, beside := ownConn(t, p.addr(), calmSession), raw(t, srv.Addr)
	b := must[driver.Backend](t)(New(conn, WithSessionTimeout(calmSession), WithRoot(rootOf(t)))).(*backend)
	isFree(t, b, "k")
	session := conn.SessionID()
	var once sync.Once
	p.disturb(func(op int32) deed {
		what := pass
		if op == opMulti {
			once.Do(func() {
				what = dropOne
				if err := b.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		return what
	})
	if _, err := b.TryLock(t.Context(), "k", request("a", time.Minute)); err == nil {
		t.Error("TryLock amid Close succeeded")
	}
	eventually(t, "the connection to be back", func() bool { return conn.State() == zk.StateHasSession })
	eventually(t, "its node to be gone", func() bool { return ephemerals(t, beside, rootOf(t)) == 0 })
	if now := conn.SessionID(); now != session {
		t.Errorf("session %x ended, and %x followed", session, now)
	}
}

// The node of a refused request goes when its client may remove it again, and not only with the session.
func TestRefusedNodeGoesWithTheRefusal(t *testing.T) {
	t.Parallel()
	srv, b := open(t)
	holder := connect(t, urlWith(t, srv.Addr, calmSession))
	must[driver.Grant](t)(holder.TryLock(t.Context(), "k", request("holder", time.Minute)))
	dir := b.lockDir("k")
	if _, err := holder.conn.SetACL(dir, zk.WorldACL(zk.PermAll&^zk.PermDelete), -1); err != nil {
		t.Fatal(err)
	}
	if _, err := b.TryLock(t.Context(), "k", request("a", time.Minute)); err == nil || driver.Definite(err) {
		t.Errorf("TryLock: %v, want an unknown outcome: its node is there", err)
	}
	if _, err := holder.conn.SetACL(dir, zk.WorldACL(zk.PermAll), -1); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its node to be gone", func() bool { return ephemerals(t, holder.conn, rootOf(t)) == 1 })
}
