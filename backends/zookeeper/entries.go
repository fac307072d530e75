package zookeeper

import (
	"context"
	"fmt"
	"time"

	"github.com/coordgo/coord/driver"
)

// holdName is what the core calls a hold by.
type holdName struct{ key, id string }

// entry is what this client knows of one id on one key. It exists while a call is
// about it, or while it holds.
type entry struct {
	b *backend
	holdName
	dir, tag string
	// turn is taken by whoever works on the id at the store, so that a node is never
	// looked for while a request that may make it is under way.
	turn chan struct{}

	// guarded by backend.mu
	refs     int
	node     string // path of the node that holds, "" if there is none
	session  int64  // that made node
	token    int64
	broken   bool          // revoked: the key is only kept taken
	since    time.Time     // from when the lease certainly runs
	until    time.Time     // when the node is given up
	timer    *time.Timer   // then
	arm      *time.Timer   // when node is to be watched
	withdraw chan struct{} // while it waits in line; closed to end that
	watching bool          // it has found its place, and watches the node before
}

// enter gives the entry of an id; leave it after use.
func (b *backend) enter(key, id string) *entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	name := holdName{key, id}
	e := b.entries[name]
	if e == nil {
		e = &entry{b: b, holdName: name, dir: b.lockDir(key), tag: tagOf(id), turn: make(chan struct{}, 1)}
		b.entries[name] = e
	}
	e.refs++
	return e
}

func (e *entry) leave() {
	e.b.mu.Lock()
	defer e.b.mu.Unlock()
	e.refs--
	e.tidy()
}

// tidy forgets an entry that says nothing. backend.mu is held.
func (e *entry) tidy() {
	if e.refs == 0 && e.node == "" && e.b.entries[e.holdName] == e {
		delete(e.b.entries, e.holdName)
	}
}

// begin takes the turn, end gives it back.
func (e *entry) begin(ctx context.Context) error {
	select {
	case e.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case e.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		// An earlier call of this id is still under way, and may have effect yet.
		return ctx.Err()
	case <-e.b.closing:
		return driver.ErrClosed
	}
}

func (e *entry) end() {
	<-e.turn
	e.leave()
}

// held gives the node of a hold in the session that is current; "" if there is none.
func (e *entry) held() (node string, broken bool) {
	current := e.b.conn.SessionID()
	e.b.mu.Lock()
	defer e.b.mu.Unlock()
	if e.node == "" {
		return "", false
	}
	if e.session != current && current != 0 {
		e.drop() // nodes end with their session
		return "", false
	}
	return e.node, e.broken
}

// drop forgets the hold. backend.mu is held.
func (e *entry) drop() {
	e.node, e.broken = "", false
	e.timer.Stop()
	e.arm.Stop()
	e.tidy()
}

// dropNode forgets the hold of a node that is gone; false if that was known.
func (e *entry) dropNode(node string) bool {
	e.b.mu.Lock()
	defer e.b.mu.Unlock()
	if e.node != node {
		return false
	}
	e.drop()
	return true
}

// ticket is a node of ours in a queue.
type ticket struct {
	path    string
	session int64
	token   int64
	alone   bool // it was the only one in its queue when it was made
}

// watchAfter is how old a hold is when it begins to be watched: what is held for less costs no
// request for that.
const watchAfter = 50 * time.Millisecond

// hold makes t, which is at the head of its queue, the hold of e. The sign of life
// that says so was sent at sent.
func (e *entry) hold(t ticket, sent time.Time, ttl time.Duration) (driver.Grant, error) {
	b := e.b
	lease, since := b.lease(), b.certain(t.session, sent)
	if t.token >= 1<<53 {
		return driver.Grant{}, fmt.Errorf("%w: transaction id %d: want one below 2^53", driver.ErrUnsupported, t.token)
	}
	if b.conn.SessionID() != t.session {
		return driver.Grant{}, errNewSession
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return driver.Grant{}, errClosing
	}
	e.node, e.session, e.token, e.broken = t.path, t.session, t.token, false
	e.since, e.until = since, sent.Add(max(lease, ttl))
	e.timer = time.AfterFunc(time.Until(e.until), func() { e.lapse(t.path) })
	e.arm = time.AfterFunc(watchAfter, func() { e.observe(t.path) })
	b.countGrant()
	return driver.Grant{Token: t.token, TTL: lease, Since: since, FairWaiting: b.fairBehind(e.key, t.token)}, nil
}

// extend notes a later sign of life, sent at sent. A hold never ends earlier by it.
func (e *entry) extend(p proof, sent time.Time) (driver.Grant, error) {
	lease, since := e.b.lease(), e.b.certain(p.session, sent)
	e.b.mu.Lock()
	defer e.b.mu.Unlock()
	if e.node != p.node || e.broken {
		return driver.Grant{}, driver.ErrNotHeld
	}
	if since.After(e.since) {
		e.since = since
	}
	if until := sent.Add(max(lease, p.ttl)); until.After(e.until) {
		e.until = until
		e.timer.Reset(time.Until(until))
	}
	return driver.Grant{Token: e.token, TTL: lease, Since: e.since, FairWaiting: e.b.fairBehind(e.key, e.token)}, nil
}

// revoked notes that an operator broke the hold. Its node stays until the lease that
// was promised last is over.
func (e *entry) revoked(node string) (news bool) {
	lease := e.b.lease()
	e.b.mu.Lock()
	defer e.b.mu.Unlock()
	if e.node != node || e.broken {
		return false
	}
	e.broken = true
	e.until = e.since.Add(lease)
	e.timer.Reset(time.Until(e.until))
	return true
}

// lapse gives the node up when its time is over: the session lives on, for the
// client's other holds, and would keep it for ever.
func (e *entry) lapse(node string) {
	b := e.b
	b.mu.Lock()
	if e.node != node {
		b.mu.Unlock()
		return
	}
	if left := time.Until(e.until); left > 0 {
		e.timer.Reset(left)
		b.mu.Unlock()
		return
	}
	session := e.session
	e.refs++
	e.drop()
	b.mu.Unlock()
	b.background(func() {
		defer e.leave()
		b.discard(node, session)
	})
}
