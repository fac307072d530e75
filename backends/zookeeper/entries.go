package zookeeper

import (
	"context"
	"time"

	"github.com/coordgo/coord/driver"
)

// holdName is what the core calls a hold by.
type holdName struct {
	key, id string
	shared  bool // a space of names of its own
}

// entry is what this client knows of one id on one key. It exists while a call is
// about it, or while it holds.
type entry struct {
	b *backend
	holdName
	dir, tag string // where its nodes are, and the part of their names that says whose they are

	// busy is full while somebody has the turn to work on the id at the store, so that a node is never
	// looked for while a request that may make it is under way.
	busy  chan struct{}
	stray bool // there may be a node that does not hold; belongs to whoever has the turn

	// guarded by backend.mu
	refs    int
	node    string // path of the node that holds, "" if there is none
	session int64  // that made node
	token   int64
	broken  error       // why the hold is over while its node keeps the key taken
	since   time.Time   // from when the lease certainly runs
	until   time.Time   // when the node is given up
	arm     time.Time   // when node is to be watched; zero: it is
	timer   *time.Timer // at the earlier of these; nil: it has never held
	sharing *sharing    // of a shared hold that is held
}

// enter gives the entry of an id; leave it after use.
func (b *backend) enter(name holdName) *entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[name]
	if e == nil {
		e = &entry{b: b, holdName: name, busy: make(chan struct{}, 1), dir: b.lockDir(name.key), tag: tagOf(name.id)}
		if name.shared {
			e.dir = b.guardPath(name.key)
		}
		b.entries[name] = e
	}
	e.refs++
	return e
}

// prefix begins the names of its nodes.
func (e *entry) prefix() string { return childVersion + e.tag + "-" }

func (e *entry) leave() {
	e.b.mu.Lock()
	defer e.b.mu.Unlock()
	e.refs--
	e.tidy()
}

// tidy forgets an entry that says nothing. backend.mu is held.
func (e *entry) tidy() {
	if e.refs == 0 && e.node == "" && !e.stray && e.b.entries[e.holdName] == e {
		delete(e.b.entries, e.holdName)
	}
}

// turn waits for a session, and takes the turn of an entry: call end.
func (b *backend) turn(ctx context.Context, name holdName) (*entry, error) {
	if _, err := b.await(ctx); err != nil {
		return nil, err
	}
	e := b.enter(name)
	if err := e.begin(ctx); err != nil {
		e.leave()
		return nil, err
	}
	return e, nil
}

// begin takes the turn, end gives it back and leaves.
func (e *entry) begin(ctx context.Context) error {
	select {
	case e.busy <- struct{}{}:
		return nil
	default:
	}
	select {
	case e.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		// An earlier call of this id is still under way, and may have effect yet.
		return ctx.Err()
	case <-e.b.calls.Life().Done():
		return driver.ErrClosed
	}
}

func (e *entry) end() {
	<-e.busy
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
	return e.node, e.broken != nil
}

// nodes are those of a hold. backend.mu is held.
func (e *entry) nodes() []string {
	nodes := []string{e.node}
	if e.sharing != nil {
		nodes = append(nodes, e.sharing.marks...)
	}
	return nodes
}

// drop forgets the hold. backend.mu is held.
func (e *entry) drop() {
	e.node, e.broken, e.sharing = "", nil, nil
	e.timer.Stop()
	e.tidy()
}

// dropNode forgets the hold of a node that is gone, and has its marks removed; false if that was known.
func (e *entry) dropNode(node string) bool {
	b := e.b
	b.mu.Lock()
	known := node != "" && e.node == node
	var marks []string
	if known {
		marks = e.nodes()[1:]
		e.drop()
	}
	session := e.session
	b.mu.Unlock()
	if len(marks) > 0 {
		b.background(func() { b.discardAll(marks, session) })
	}
	return known
}

// ticket is a node of ours in a queue.
type ticket struct {
	path    string
	session int64
	token   int64
	alone   bool // it was the only one in its queue when it was made
	found   bool // by reads alone, which are no sign of life
	sharing *sharing
}

// watchAfter is how old a hold is when it begins to be watched: what is held for less costs no
// request for that.
const watchAfter = 50 * time.Millisecond

// hold makes t, which is at the head of its queue, the hold of e. The sign of life
// that says so was sent at sent.
func (e *entry) hold(t ticket, sent time.Time, ttl time.Duration) (driver.Grant, error) {
	b := e.b
	since := b.certain(t.session, sent)
	if b.conn.SessionID() != t.session {
		return driver.Grant{}, errNewSession
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.calls.Closed() {
		return driver.Grant{}, errClosing
	}
	lease := b.lease() // under mu: see shorten
	e.node, e.session, e.token, e.broken, e.sharing, e.stray = t.path, t.session, t.token, nil, t.sharing, false
	e.since, e.until = since, sent.Add(max(lease, ttl))
	e.arm = time.Now().Add(watchAfter)
	e.plan()
	return e.grant(lease), nil
}

// extend notes a later sign of life, sent at sent. A hold never ends earlier by it.
func (e *entry) extend(p proof, sent time.Time) (driver.Grant, error) {
	since := e.b.certain(p.session, sent)
	e.b.mu.Lock()
	defer e.b.mu.Unlock()
	if e.node != p.node || e.broken != nil {
		return driver.Grant{}, driver.ErrNotHeld
	}
	lease := e.b.lease()
	if since.After(e.since) {
		e.since = since
	}
	if until := sent.Add(max(lease, p.ttl)); until.After(e.until) {
		e.until = until
		e.plan()
	}
	return e.grant(lease), nil
}

// grant describes the hold. backend.mu is held.
func (e *entry) grant(lease time.Duration) driver.Grant {
	g := driver.Grant{Token: e.token, TTL: lease, Since: e.since}
	if e.sharing != nil {
		g.Slot, g.Of = e.sharing.hold.slot, e.sharing.hold.share.Of
	}
	return g
}

// revoked notes that an operator broke the hold. Its node stays until the lease that
// was promised last is over.
func (e *entry) revoked(node string) (news bool) {
	lease := e.b.lease()
	e.b.mu.Lock()
	defer e.b.mu.Unlock()
	if node == "" || e.node != node || e.broken != nil {
		return false
	}
	e.broken = errBroken
	e.until = e.since.Add(lease)
	e.plan()
	return true
}

// shorten ends every hold, because a server has resumed the session for less time than holds were
// promised. Their nodes are removed a lease later.
func (b *backend) shorten() {
	b.mu.Lock()
	until := time.Now().Add(b.lease())
	var ended []*entry
	for _, e := range b.entries {
		if e.node != "" && e.broken == nil {
			e.broken, e.until = errShortened, until
			e.plan()
			ended = append(ended, e)
		}
	}
	b.mu.Unlock()
	for _, e := range ended {
		e.tell(errShortened)
	}
}

// plan sets the timer to what is due next. backend.mu is held.
func (e *entry) plan() {
	next := e.until
	if !e.arm.IsZero() && e.arm.Before(next) {
		next = e.arm
	}
	if e.timer == nil {
		e.timer = time.AfterFunc(time.Until(next), e.due)
	} else {
		e.timer.Reset(time.Until(next))
	}
}

// due does what is. It may come late, when the hold is over or another has followed: then nothing is.
func (e *entry) due() {
	b := e.b
	b.mu.Lock()
	node, nodes, session, now := e.node, e.nodes(), e.session, time.Now()
	lapsed := node != "" && !now.Before(e.until)
	armed := node != "" && !lapsed && !e.arm.IsZero() && !now.Before(e.arm)
	switch {
	case lapsed:
		e.refs++
		e.drop()
	case armed:
		e.arm = time.Time{}
		e.plan()
	case node != "":
		e.plan()
	}
	b.mu.Unlock()
	switch {
	case lapsed:
		// The session lives on, for the client's other holds, and would keep the node for ever.
		b.background(func() {
			defer e.leave()
			b.discardAll(nodes, session)
		})
	case armed:
		e.observe(node)
	}
}
