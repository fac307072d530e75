package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord/driver"
)

// sharing is what an entry has beside what one of a lock has. It is guarded by backend.mu.
type sharing struct {
	share  driver.Share // as it was made smaller since
	slot   int
	hold   string // holdID
	mark   string // path of the last one; "": none
	marked bool   // there may be marks
	guard  guard  // as the grant left it
	alone  bool   // nobody else was under the guard then
	head   string // path of the node that makes the id the head; "": none
}

// maxRacePause bounds the pause after another client came before.
const maxRacePause = 16 * time.Millisecond

// sharedAttempt is the part of an attempt that is of shared holds only.
type sharedAttempt struct {
	of        *attempt
	got       sharing
	bound     int64 // on permits
	elsewhere bool  // the id holds through another client
}

// make makes the node of a hold, if that is granted. One that is there already, because an answer was lost, is found by the
// tag of the id.
//
// A follower may show holds that have gone. The guard's version would let them be relied on to grant, but with a slot that
// is not the lowest.
func (s *sharedAttempt) make(session int64, lost bool) (ticket, error) {
	b, e := s.of.b, s.of.e
	if free, ok := b.takeFree(e.dir); ok && !lost {
		return s.enter(session, &group{guard: free})
	}
	g, err := b.group(e.dir, !b.alone.Load())
	if err != nil {
		return ticket{}, notMade(err)
	}
	if own := g.find(e.tag); own != nil {
		return s.adopt(session, own)
	}
	return s.enter(session, &g)
}

// refused makes the id the head, if it is to be and nobody is, and gives why.
func (s *sharedAttempt) refused(g *group, why error) error {
	b, e := s.of.b, s.of.e
	if !s.of.r.Share.Head || !errors.Is(why, driver.ErrLocked) {
		return why
	}
	node := e.dir + "/" + sharer{kind: headNode, tag: e.tag}.name()
	if len(g.heads) == 0 {
		create := &zk.CreateRequest{Path: node, Data: []byte(e.id), Acl: b.acl, Flags: zk.FlagEphemeral}
		if _, _, err := b.change(e.dir, g.guard, create); err != nil {
			return err
		}
	} else if !slices.Contains(g.heads, e.tag) { // it may be there by a request whose reply was lost
		return why
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e.sharing.head = node
	return why
}

// enter makes the node in group g if that is granted, and ends the headship of the id.
func (s *sharedAttempt) enter(session int64, g *group) (ticket, error) {
	b, e := s.of.b, s.of.e
	share := s.of.r.Share
	share.Head = false
	grant, err := g.decide(e.tag, share)
	if err != nil {
		return ticket{}, s.refused(g, err)
	}
	own := sharer{tag: e.tag, version: uint32(g.guard.version), slot: grant.Slot, share: share}
	s.bound = grant.Of
	node := e.dir + "/" + own.name()
	ops := []any{&zk.CreateRequest{Path: node, Data: []byte(e.id), Acl: b.acl, Flags: zk.FlagEphemeral}}
	for _, head := range g.heads { // only the own one is left
		ops = append(ops, &zk.DeleteRequest{Path: e.dir + "/" + sharer{kind: headNode, tag: head}.name(), Version: -1})
	}
	guard, stat, err := b.change(e.dir, g.guard, ops...)
	if err != nil {
		return ticket{}, err
	}
	// The guard and the hold have one child of the guard each: the incarnation and itself.
	s.got = sharing{share: share, slot: own.slot, hold: own.holdID(), guard: guard, alone: stat.NumChildren == 2}
	return b.sameSession(ticket{path: node, session: session, token: stat.Mzxid}, session, nil)
}

// adopt takes the hold that the id has, through whatever client.
func (s *sharedAttempt) adopt(session int64, own *sharer) (ticket, error) {
	b, e := s.of.b, s.of.e
	t := ticket{path: e.dir + "/" + own.node, session: session}
	ok, stat, err := b.conn.Exists(t.path)
	switch {
	case err != nil:
		return ticket{}, notMade(err)
	case !ok:
		return ticket{}, errRaced
	}
	// What a server shows is no sign of life, and a check is one.
	_, err = b.conn.Multi(&zk.CheckVersionRequest{Path: t.path, Version: 0})
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return ticket{}, errRaced
	case errors.Is(err, zk.ErrBadVersion):
		return ticket{}, driver.ErrLocked // an operator broke the hold
	case err != nil:
		return ticket{}, notMade(err)
	}
	t.token = stat.Czxid
	s.bound = own.share.Of
	s.got = sharing{share: own.share, slot: own.slot, hold: own.holdID(), marked: true}
	if s.elsewhere = stat.EphemeralOwner != session; s.elsewhere {
		return t, nil
	}
	return b.sameSession(t, session, nil)
}

// shared ends an attempt that was granted.
func (a *attempt) shared(since time.Time) (driver.Grant, error) {
	s := a.share
	if s.elsewhere { // how long that session lasts, only the other client knows
		return driver.Grant{Token: a.t.token, Since: time.Now(), Slot: s.got.slot, Of: s.bound}, nil
	}
	a.b.mu.Lock()
	*a.e.sharing = s.got
	a.b.mu.Unlock()
	g, err := a.granted(since)
	g.Of = s.bound
	return g, err
}

// shrinks gives what the hold is to become, if want is less; else the zero Share. backend.mu is held.
func (e *entry) shrinks(want driver.Share) driver.Share {
	if e.sharing == nil {
		return driver.Share{}
	}
	if less := e.sharing.share.Shrunk(want); less != e.sharing.share {
		return less
	}
	return driver.Share{}
}

// shrink makes a hold smaller by a mark, and proves it. The mark may be there already.
func (b *backend) shrink(ctx context.Context, p proof) (driver.Grant, error) {
	e := p.e
	b.mu.Lock()
	e.sharing.marked = true
	name := e.sharing.hold + "now-"
	b.mu.Unlock()
	if p.shrink.Mode == driver.Read {
		name += driver.Read.String()
	} else {
		name += fmt.Sprint(p.shrink.Weight)
	}
	mark := e.dir + "/" + name
	sent := time.Now()
	failed, err := call(ctx, b, func() (int, error) {
		answers, err := b.conn.Multi(
			&zk.CheckVersionRequest{Path: p.node, Version: 0},
			&zk.CreateRequest{Path: mark, Data: []byte(e.id), Acl: b.acl, Flags: zk.FlagEphemeral})
		return firstFailure(answers, err), err
	}, nil)
	switch {
	case err == nil, errors.Is(err, zk.ErrNodeExists) && failed == 1:
	case failed == 0 && (errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion)):
		return driver.Grant{}, p.failed(err)
	default:
		return driver.Grant{}, err
	}
	b.lives(p.session, sent)
	b.mu.Lock()
	more := mark // of two marks
	if s := e.sharing; s.share.Shrunk(p.shrink) == p.shrink {
		more, s.mark, s.share = s.mark, mark, p.shrink
	}
	b.mu.Unlock()
	if more != "" && more != mark {
		// It says nothing beside the smaller one. What fails is removed with the hold.
		_ = b.run(ctx, func() error { return b.remove(more) }, nil)
	}
	return p.proved(sent)
}

// dropMarks has the marks of a hold removed that is over. backend.mu is held.
func (e *entry) dropMarks() {
	if !e.sharing.marked {
		return
	}
	e.sharing.marked, e.sharing.mark = false, ""
	b, session, marks := e.b, e.session, e.sharing.hold+"now-"
	dir := e.dir
	fn := func() {
		b.persist(session, func() error { return b.removeMarks(dir, marks) })
	}
	if b.wire == nil {
		go fn()
	} else {
		b.startLocked(fn)
	}
}

// removeMarks removes the children of dir that begin so.
func (b *backend) removeMarks(dir, marks string) error {
	children, err := b.list(dir, true)
	for _, name := range children {
		if err == nil && strings.HasPrefix(name, marks) {
			err = b.remove(dir + "/" + name)
		}
	}
	return err
}

// strays are the nodes of the id that say nothing of its hold or of its being the head, as far as known.
func (e *entry) strays(children []string) (names []string) {
	e.b.mu.Lock()
	defer e.b.mu.Unlock()
	for _, name := range children {
		s, ok := parseSharer(name)
		switch {
		case !ok || s.tag != e.tag:
		case e.dir+"/"+name == e.sharing.head:
		case s.kind == markNode && e.node != "" && s.holdID() == e.sharing.hold:
		default:
			names = append(names, name)
		}
	}
	return names
}

// unlockShared removes the nodes of an id, whoever made them.
func (b *backend) unlockShared(e *entry) error {
	children, err := b.list(e.dir, true)
	if err != nil {
		return err
	}
	result := driver.ErrNotHeld
	for _, name := range children {
		s, ok := parseSharer(name)
		if !ok || s.tag != e.tag || s.kind == markNode {
			continue
		}
		switch err := b.conn.Delete(e.dir+"/"+name, 0); {
		case err == nil:
			result = nil
		case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrBadVersion):
			continue
		default:
			return err
		}
		if s.kind == holdNode {
			if err := b.removeMarks(e.dir, s.holdID()+"now-"); !answered(err) {
				return err
			}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e.sharing.head = ""
	return result
}
