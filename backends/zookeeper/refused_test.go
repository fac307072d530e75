package zookeeper

import (
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testwait"
)

// Whoever waits when other access lists begin to refuse the client's user learns why. Its node is removed, or goes with
// its session where it may not remove it.
func TestRefusedWaiterEnds(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	refusals := map[string]int32{ // what the user may still do
		"all rights": 0,
		"to read":    zk.PermWrite | zk.PermCreate | zk.PermDelete,
		"to delete":  zk.PermRead | zk.PermWrite | zk.PermCreate,
	}
	for what, take := range testwait.Takes() {
		for why, left := range refusals {
			if what != "lock" && why != "all rights" {
				continue // as lock
			}
			t.Run(what+", "+why, func(t *testing.T) {
				t.Parallel()
				root := ownConn(t, srv.Addr, calmSession)
				if err := root.AddAuth("digest", []byte("root:secret")); err != nil {
					t.Fatal(err)
				}
				admin := func() *coord.Client {
					b := must[driver.Backend](t)(New(root, WithSessionTimeout(calmSession), WithRoot(rootOf(t))))
					c := must[*coord.Client](t)(coord.New(b))
					t.Cleanup(func() { c.Close() })
					return c
				}
				waiter := must[*coord.Client](t)(coord.New(connect(t, urlWith(t, srv.Addr, testwait.TTL))))
				acl := zk.DigestACL(zk.PermAll, "root", "secret")
				if left != 0 {
					acl = append(acl, zk.WorldACL(left)...)
				}
				refuse := func() { setACLs(t, root, rootOf(t), acl) }
				testwait.Refused{
					Holder: admin(), Waiter: waiter, Next: admin(),
					Entries: func() int { return ephemerals(t, root, rootOf(t)) },
					Stays:   left&zk.PermDelete == 0,
					Refuse:  refuse,
					Says:    "belong to another user",
				}.Ends(t, take)
			})
		}
	}
}

// below calls fn with each node at and under a path.
func below(t *testing.T, conn *zk.Conn, path string, fn func(path string) error) {
	t.Helper()
	children, _, err := conn.Children(path)
	if err == nil {
		err = fn(path)
	}
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		t.Fatalf("%s: %v", path, err)
	}
	for _, c := range children {
		below(t, conn, path+"/"+c, fn)
	}
}

func setACLs(t *testing.T, conn *zk.Conn, path string, acl []zk.ACL) {
	t.Helper()
	below(t, conn, path, func(path string) error {
		_, err := conn.SetACL(path, acl, -1)
		return err
	})
}

func ephemerals(t *testing.T, conn *zk.Conn, path string) (n int) {
	t.Helper()
	below(t, conn, path, func(path string) error {
		ok, stat, err := conn.Exists(path)
		if ok && stat.EphemeralOwner != 0 {
			n++
		}
		return err
	})
	return n
}

// A node that its client may not remove goes when it may again, and not only with the session.
func TestGivenUpNodeGoesWithTheRefusal(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	p, conn := newTap(t, srv.Addr), raw(t, srv.Addr)
	b := connect(t, urlWith(t, p.addr(), endingSession))
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", request("holder", time.Minute)))
	waits := make(chan error, 1)
	go func() {
		_, err := b.Lock(t.Context(), "k", request("waiter", time.Second), func() {})
		waits <- err
	}()
	eventually(t, "the waiter to have a node", func() bool { return ephemerals(t, conn, rootOf(t)) == 2 })
	dir := b.lockDir("k")
	if _, err := conn.SetACL(dir, zk.WorldACL(zk.PermAll&^zk.PermDelete), -1); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-waits:
		if !errors.Is(err, zk.ErrNoAuth) || !errors.Is(err, driver.ErrNotSent) {
			t.Errorf("%v, want a refusal for good", err)
		}
	case <-time.After(hung):
		t.Fatalf("still waiting after %v", hung)
	}
	deletes := 0
	eventually(t, "it to be asked to remove its node, and again", func() bool {
		for _, op := range p.take() {
			if op == opDelete {
				deletes++
			}
		}
		return deletes >= 2
	})
	if _, err := conn.SetACL(dir, zk.WorldACL(zk.PermAll), -1); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its node to be gone", func() bool { return ephemerals(t, conn, rootOf(t)) == 1 })
}
