package zookeeper

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord/driver"
)

// sharing is what a shared hold has beside what a lock has. backend.mu guards it.
type sharing struct {
	hold  sharer   // as it is now
	bound int64    // on permits, at the grant
	marks []string // nodes that there may be
}

// makeShared makes the node of a hold, if that is granted, or finds it, made by a request whose answer was lost.
func (a *attempt) makeShared(session int64) (ticket, error) {
	b, e, share := a.b, a.e, a.r.Share
	g, err := b.group(e.dir, !b.alone.Load()) // of a server that has caught up: a hold that has gone has no slot
	if err != nil {
		return ticket{}, err
	}
	if own := g.find(e.tag); own != nil {
		return a.found(*own, session)
	}
	e.stray, share.Head = false, false
	grant, err := g.decide(e.tag, share)
	if err != nil {
		return ticket{}, a.refusedShared(&g, err)
	}
	own := sharer{kind: kindHold, tag: e.tag, version: uint32(g.stat.Version), slot: grant.Slot, share: share}
	node := e.dir + "/" + own.name()
	ops := []any{&zk.CreateRequest{Path: node, Data: []byte(e.id), Acl: b.acl, Flags: zk.FlagEphemeral}}
	for _, head := range g.heads { // its own
		ops = append(ops, &zk.DeleteRequest{Path: e.dir + "/" + sharer{kind: kindHead, tag: head}.name(), Version: -1})
	}
	stat, err := a.adds(&g, ops...)
	if err != nil {
		return ticket{}, err
	}
	return ticket{path: node, session: session, token: stat.Mzxid, alone: true, sharing: &sharing{hold: own, bound: grant.Of}}, nil
}

// adds is change for a request that makes a node of the id.
func (a *attempt) adds(g *group, ops ...any) (*zk.Stat, error) {
	a.e.stray = true
	stat, err := a.b.change(a.e.dir, g, ops...)
	a.e.stray = err == nil || !answered(err) && !errors.Is(err, errRaced)
	return stat, err
}

// found makes a hold of a node that is there, and proves it. One that is there although no answer was lost
// is of another client, or has just been given up.
func (a *attempt) found(own sharer, session int64) (ticket, error) {
	t := ticket{path: a.e.dir + "/" + own.node, session: session, alone: true, sharing: &sharing{hold: own, bound: own.share.Of}}
	ok, stat, err := a.b.conn.Exists(t.path)
	switch {
	case err != nil:
		return ticket{}, err
	case !ok:
		return ticket{}, errRaced
	case !a.e.stray || stat.EphemeralOwner != session || stat.Version != 0:
		return ticket{}, driver.ErrLocked
	}
	t.token = stat.Czxid
	if err = a.b.proveNode(t.path); isConflict(err) {
		err = errRaced
	}
	return t, err
}

// refusedShared makes the id the head, if it is to be and nobody is, and gives why it is refused.
func (a *attempt) refusedShared(g *group, why error) error {
	if !a.r.Share.Head || len(g.heads) > 0 || !errors.Is(why, driver.ErrLocked) {
		return why
	}
	e, name := a.e, sharer{kind: kindHead, tag: a.e.tag}.name()
	head := &zk.CreateRequest{Path: e.dir + "/" + name, Data: []byte(e.id), Acl: a.b.acl, Flags: zk.FlagEphemeral}
	if _, err := a.adds(g, head); err != nil {
		return err
	}
	e.stray = false // a head holds nothing
	return why
}

// mark gives the mark that makes the hold as small as want, nil if want is not less. backend.mu is held.
func (e *entry) mark(want driver.Share) *sharer {
	s := e.sharing
	if s == nil || s.hold.share.Shrunk(want) == s.hold.share {
		return nil
	}
	m := s.hold
	m.kind, m.share = kindMark, m.share.Shrunk(want)
	s.marks = append(s.marks, e.dir+"/"+m.name())
	return &m
}

// shrink makes a hold smaller by a mark, and proves it in the same transaction.
func (b *backend) shrink(ctx context.Context, p proof) (driver.Grant, error) {
	e, mark := p.e, p.e.dir+"/"+p.mark.name()
	sent := time.Now()
	failed, err := call(ctx, b, func() (int, error) {
		answers, err := b.conn.Multi(
			&zk.CheckVersionRequest{Path: p.node, Version: 0},
			&zk.CreateRequest{Path: mark, Data: []byte(e.id), Acl: b.acl, Flags: zk.FlagEphemeral})
		return firstFailure(answers, err), err
	}, nil)
	switch {
	case failed == 0 && (errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion)):
		return driver.Grant{}, p.failed(err)
	case err != nil && !errors.Is(err, zk.ErrNodeExists): // made by a request whose answer was lost
		return driver.Grant{}, err
	}
	b.lives(p.session, sent)
	b.mu.Lock()
	if e.node == p.node {
		e.sharing.hold.share = e.sharing.hold.share.Shrunk(p.mark.share)
	}
	b.mu.Unlock()
	return p.proved(sent)
}
