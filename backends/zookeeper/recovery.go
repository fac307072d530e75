package zookeeper

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord/driver"
)

// find looks for the node of e after a create whose answer was lost, and removes
// what else there is of e in this session. Found or not: a request that is still on its way
// can make another.
func (b *backend) find(e *entry, session int64) (t ticket, err error) {
	children, err := b.list(e.dir, true)
	if err != nil {
		return ticket{}, err
	}
	for _, c := range tagged(children, e.tag) {
		node := e.dir + "/" + c.name
		ok, stat, err := b.conn.Exists(node)
		switch {
		case err != nil:
			return ticket{}, err
		case !ok || stat.EphemeralOwner != session || stat.Version != 0:
		case t.path == "":
			t = ticket{path: node, session: session, token: stat.Czxid, found: true}
		default:
			if err := b.remove(node); err != nil {
				return ticket{}, err
			}
		}
	}
	return t, nil
}

// discard removes a node of a session of ours, however long that takes: until then, or until the
// session ends, it blocks its queue.
func (b *backend) discard(node string, session int64) {
	b.persist(session, func() error { return b.remove(node) })
}

// purge removes every node of e that this session made, other than the one that holds.
func (b *backend) purge(e *entry, session int64) {
	b.persist(session, func() error { return b.clean(e, session) })
}

func (b *backend) clean(e *entry, session int64) error {
	if e.shared {
		if err := b.unlockShared(e, -1); !errors.Is(err, driver.ErrNotHeld) {
			return err
		}
		return nil
	}
	children, err := b.list(e.dir, true)
	if err != nil {
		return err
	}
	held, _ := e.held()
	for _, c := range tagged(children, e.tag) {
		node := e.dir + "/" + c.name
		if node == held {
			continue
		}
		ok, stat, err := b.conn.Exists(node)
		if err != nil {
			return err
		}
		if ok && stat.EphemeralOwner == session {
			if err := b.remove(node); err != nil {
				return err
			}
		}
	}
	return nil
}

// persist repeats fn until the server has answered, or the session is another. Where the user may not, it asks on for as
// long as the backend is open: rights come back.
func (b *backend) persist(session int64, fn func() error) {
	most := 100 * time.Millisecond
	for pause := time.Millisecond; ; pause = min(2*pause, most) {
		if b.conn.State() == zk.StateHasSession {
			if b.conn.SessionID() != session {
				return
			}
			err := fn()
			denied := errors.Is(err, zk.ErrNoAuth) && !b.isClosed()
			if answered(err) && !denied {
				return
			}
			if denied {
				most = time.Second
			}
		}
		if !b.sleep(pause) {
			return
		}
	}
}

// sleep is false when there is no connection any more.
func (b *backend) sleep(d time.Duration) bool {
	if b.wire != nil {
		return b.pause(context.Background(), d)
	}
	time.Sleep(d)
	return b.conn.State() != zk.StateDisconnected || !b.isClosed()
}

// haunt looks for nodes that a request whose answer was lost may make later: the
// network can still have it. It ends two session timeouts on, or with the session.
func (b *backend) haunt(e *entry, session int64) {
	if now := b.conn.SessionID(); now != 0 {
		session = now // it may have been sent in this one
	}
	end := time.Now().Add(2 * b.timeout())
	b.mu.Lock()
	e.refs++
	b.mu.Unlock()
	b.background(func() {
		defer e.leave()
		for pause := 20 * time.Millisecond; b.sleep(pause); pause = min(2*pause, time.Second) {
			if _, free := e.tryBegin(); !free {
				continue // a call is about it
			}
			late := time.Now().After(end)
			ok := b.conn.State() == zk.StateHasSession && (b.conn.SessionID() != session || answered(b.clean(e, session)))
			e.yield()
			if ok && (late || b.conn.SessionID() != session) {
				return
			}
		}
	})
}
