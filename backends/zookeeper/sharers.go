package zookeeper

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/coordgo/coord/driver"
)

// The children of a guard, beside its incarnation, are nodes of those who share the key or want to. Their names say all
// that it takes to grant a hold. TAG is a hash of the id. VERSION is the guard's at the grant, so that no other hold of
// the key ever has the name:
//
//	1-TAG-VERSION-hold-MODE-SLOT-WEIGHT-OF
//	1-TAG-VERSION-less-MODE-SLOT-WEIGHT-OF   a mark: the hold has become smaller
//	1-TAG-head                               the head of the queue
//
// A hold that becomes smaller keeps its node, with the token and the watch. Of several marks the smallest counts. A
// mark whose hold has gone says nothing.
const (
	kindHold = "hold"
	kindMark = "less"
	kindHead = "head"
)

// sharer is a child of a guard that is no incarnation. A head has only a tag.
type sharer struct {
	kind, tag string
	version   uint32
	slot      int
	share     driver.Share
	node      string // its name, as it was read
}

// prefix begins the names of a hold and of its marks.
func (s sharer) prefix() string { return fmt.Sprintf("%s%s-%d-", childVersion, s.tag, s.version) }

// name is that of the node.
func (s sharer) name() string {
	if s.kind == kindHead {
		return childVersion + s.tag + "-" + kindHead
	}
	return fmt.Sprintf("%s%s-%v-%d-%d-%d", s.prefix(), s.kind, s.share.Mode, s.slot, s.share.Weight, s.share.Of)
}

// parseSharer reads what name makes. What is not ours is not ok.
func parseSharer(name string) (s sharer, ok bool) {
	f := strings.Split(name, "-")
	switch len(f) {
	case 3:
		s = sharer{kind: kindHead, tag: f[1]}
	case 8: // a number that is none is 0, and makes another name
		version, _ := strconv.ParseUint(f[2], 10, 32)
		s = sharer{kind: f[3], tag: f[1], version: uint32(version)}
		for s.share.Mode = driver.Read; s.share.Mode < driver.Permits && s.share.Mode.String() != f[4]; {
			s.share.Mode++
		}
		s.slot, _ = strconv.Atoi(f[5])
		s.share.Weight, _ = strconv.ParseInt(f[6], 10, 64)
		s.share.Of, _ = strconv.ParseInt(f[7], 10, 64)
		if s.kind != kindHold && s.kind != kindMark || s.share.Check() != nil {
			return s, false
		}
	}
	s.node = name
	return s, isHex(s.tag, tagLen) && s.name() == name
}

// isMark reports whether a child's name is that of a mark.
func isMark(name string) bool {
	s, ok := parseSharer(name)
	return ok && s.kind == kindMark
}

func isHex(s string, digits int) bool {
	return len(s) == digits && strings.Trim(s, "0123456789abcdef") == ""
}
