package zookeeper

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/holders"
)

// The children of a guard are its incarnation, and the nodes of those who share the key or want to. Their names say
// all that it takes to grant a hold. TAG is a hash of the id, and VERSION that of the guard which the grant was made
// at, so that no other hold of the key ever has the name:
//
//	1-TAG-VERSION-read-SLOT
//	1-TAG-VERSION-write-SLOT
//	1-TAG-VERSION-permits-SLOT-WEIGHT-OF
//	1-TAG-VERSION-now-read                a writer has become a reader
//	1-TAG-VERSION-now-WEIGHT              a hold has given permits back
//	1-TAG-head                            the head of the queue
//
// A hold that becomes smaller gets a second node, a mark. Its own stays, and so do token, watch and proof of renewal.
// Of several marks the smallest counts. A mark whose hold has gone says nothing.

type sharerKind int

const (
	holdNode sharerKind = iota
	markNode
	headNode
)

// sharer is a child of a guard that is no incarnation.
type sharer struct {
	node    string // its name, as it was read
	kind    sharerKind
	tag     string
	version uint32 // a head has none
	slot    int    // of a hold
	// share of a hold, as the marks have it in a group. That of a mark has a mode, and a weight if that is Permits.
	share driver.Share
}

// holdID names a hold among all of its guard.
func (s sharer) holdID() string {
	return childVersion + s.tag + "-" + strconv.FormatUint(uint64(s.version), 10) + "-"
}

// name is that of the node.
func (s sharer) name() string {
	switch {
	case s.kind == headNode:
		return childVersion + s.tag + "-head"
	case s.kind == markNode && s.share.Mode == driver.Read:
		return s.holdID() + "now-read"
	case s.kind == markNode:
		return s.holdID() + "now-" + strconv.FormatInt(s.share.Weight, 10)
	}
	name := s.holdID() + s.share.Mode.String() + "-" + strconv.Itoa(s.slot)
	if s.share.Mode == driver.Permits {
		name += fmt.Sprintf("-%d-%d", s.share.Weight, s.share.Of)
	}
	return name
}

// parseSharer reads what name makes. What is not ours is not ok.
func parseSharer(name string) (s sharer, ok bool) {
	rest, known := strings.CutPrefix(name, childVersion)
	if !known || len(rest) <= tagLen || strings.Trim(rest[:tagLen], "0123456789abcdef") != "" {
		return s, false
	}
	s.node, s.tag = name, rest[:tagLen]
	fields := strings.Split(rest[tagLen:], "-")[1:]
	if len(fields) == 1 {
		s.kind = headNode
		return s, s.name() == name
	}
	if len(fields) < 3 {
		return s, false
	}
	numbers := append([]string{fields[0]}, fields[2:]...)
	switch fields[1] {
	case driver.Read.String():
		s.share.Mode = driver.Read
	case driver.Write.String():
		s.share.Mode = driver.Write
	case driver.Permits.String():
		s.share.Mode = driver.Permits
	case "now":
		s.kind, s.share.Mode = markNode, driver.Permits
		if fields[2] == driver.Read.String() {
			s.share.Mode, numbers = driver.Read, numbers[:1]
		}
	}
	return s, s.scan(numbers) && s.name() == name
}

// scan reads the numbers in a name. Those that are missing, or too many, make another name.
func (s *sharer) scan(numbers []string) bool {
	var n [4]int64
	for i, digits := range numbers[:min(len(numbers), len(n))] {
		var err error
		if n[i], err = strconv.ParseInt(digits, 10, 64); err != nil || n[i] < 0 {
			return false
		}
	}
	s.version = uint32(n[0])
	if s.kind == markNode {
		s.share.Weight = n[1]
		return s.share.Mode == driver.Read || 1 <= n[1] && n[1] <= driver.MaxPermits
	}
	s.slot, s.share.Weight, s.share.Of = int(n[1]), n[2], n[3]
	return s.slot < driver.MaxHolders && s.share.Check() == nil
}

// group is who shares a key, as a listing of its guard's children shows it.
type group struct {
	guard guard // at which it was so, or later
	holds []sharer
	heads []string // tags
}

// groupOf reads a listing, and the version of the guard that came with it. A child that is not ours is
// driver.ErrCorrupt: it may be a hold that we do not understand.
func groupOf(dir string, names []string, stat *zk.Stat) (g group, err error) {
	g.guard.version = stat.Version
	var marks []sharer
	for _, name := range names {
		s, isOurs := parseSharer(name)
		switch {
		case isIncarnation(name) && g.guard.node == "":
			g.guard.node = dir + "/" + name
		case !isOurs:
			return group{}, fmt.Errorf("%w: node %s has a child %.100q: want one of version 1", driver.ErrCorrupt, dir, name)
		case s.kind == holdNode:
			g.holds = append(g.holds, s)
		case s.kind == markNode:
			marks = append(marks, s)
		default:
			g.heads = append(g.heads, s.tag)
		}
	}
	if g.guard.node == "" || stat.DataLength != 0 {
		return group{}, fmt.Errorf("%w: node %s has %d bytes of data and the children %.100q: want none, and one incarnation",
			driver.ErrCorrupt, dir, stat.DataLength, names)
	}
	for _, m := range marks {
		for i := range g.holds {
			if h := &g.holds[i]; h.holdID() == m.holdID() {
				h.share = h.share.Shrunk(m.share)
			}
		}
	}
	return g, nil
}

// find gives the hold of a tag, nil if there is none.
func (g *group) find(tag string) *sharer {
	for i := range g.holds {
		if h := &g.holds[i]; h.tag == tag {
			return h
		}
	}
	return nil
}

// decide gives the slot and the bound of a grant to the id of a tag, which has no hold, or why it is refused. It is what the
// record of holders says where no lease ends.
func (g *group) decide(tag string, share driver.Share) (driver.Grant, error) {
	now, rules := time.Unix(0, 0), holders.Rules{MaxHolders: driver.MaxHolders}
	live := now.Add(driver.HeadFor).UnixMicro()
	var r holders.Record
	for _, h := range g.holds {
		r.Holds = append(r.Holds, holders.Hold{ID: h.tag, Share: h.share, Slot: h.slot, TTL: live, Until: live})
	}
	for _, head := range g.heads {
		if head != tag {
			r.Head = holders.Mark{ID: head, Until: live}
		}
	}
	grant, err := r.TryLock(driver.Request{ID: tag, TTL: driver.HeadFor, Share: share}, now, rules)
	if errors.Is(err, driver.ErrLocked) {
		err = driver.ErrLocked // for how long, nobody knows
	}
	return grant, err
}
