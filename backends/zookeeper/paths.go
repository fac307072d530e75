package zookeeper

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
)

const hexDigits = "0123456789ABCDEF"

// escape makes of a key one component of a path. Distinct keys stay distinct.
//
// ZooKeeper refuses control characters, '/', the components "." and "..", and what
// lies between U+D800 and U+F8FF or from U+FFF0 in UTF-16, which is how it counts:
// there, everything from U+10000 is such a pair. A colon ends the key in names of limits.
func escape(key string) string {
	var b strings.Builder
	for i := 0; i < len(key); {
		r, n := utf8.DecodeRuneInString(key[i:])
		if allowed(r, n) && !(i == 0 && r == '.') {
			b.WriteString(key[i : i+n])
		} else {
			for _, c := range []byte(key[i : i+n]) {
				b.WriteByte('%')
				b.WriteByte(hexDigits[c>>4])
				b.WriteByte(hexDigits[c&15])
			}
		}
		i += n
	}
	return b.String()
}

// allowed reports whether the rune of n bytes stands for itself.
func allowed(r rune, n int) bool {
	switch {
	case r == utf8.RuneError && n <= 1: // not UTF-8
		return false
	case r < ' ' || r >= 0x7f && r <= 0x9f || r >= 0xd800:
		return false
	}
	return r != '/' && r != '%' && r != ':'
}

// The paths of a store.
func (b *backend) lockDir(key string) string { return b.root + "/locks/" + escape(key) }

func (b *backend) limitPath(key string, l driver.Limit) string {
	name := string(limits.AppendName(append([]byte(escape(key)), ':'), l))
	return b.limitsDir(bucketOf(name)) + "/" + name
}

func (b *backend) limitsDir(bucket byte) string {
	return b.root + "/limits/" + hex.EncodeToString([]byte{bucket})
}

// bucketOf spreads the limits over 256 parents: the listing of one is a single reply.
func bucketOf(name string) byte {
	sum := sha256.Sum256([]byte(name))
	return sum[0]
}

// tagOf is the part of a child's name that says whose it is: 128 bits of a hash of the id.
func tagOf(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:tagLen/2])
}

const (
	// tagLen is how many hexadecimal digits a tag has.
	tagLen = 32
	// childVersion begins the name of a child. Clients of different versions see each other by it.
	childVersion = "1-"
)

// child is one of a lock's queue.
type child struct {
	name, tag string
	seq       int32
}

// parseChild reads a child's name: version, tag and number. What is not ours is not ok.
func parseChild(name string) (c child, ok bool) {
	rest, known := strings.CutPrefix(name, childVersion)
	if !known || len(rest) < tagLen+1+10 || rest[tagLen] != '-' {
		return child{}, false
	}
	tag, digits := rest[:tagLen], rest[tagLen+1:]
	if strings.Trim(tag, "0123456789abcdef") != "" {
		return child{}, false
	}
	// The server writes ten digits, of a counter that becomes negative after 2^31.
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > math.MaxInt32 || n < math.MinInt32 || fmt.Sprintf("%010d", n) != digits {
		return child{}, false
	}
	return child{name: name, tag: tag, seq: int32(n)}, true
}

// before reports whether c was created before d. The counter wraps: of two numbers
// the one that is less than half the circle ahead is the later one.
func (c child) before(d child) bool {
	if c.seq != d.seq {
		return c.seq-d.seq < 0
	}
	return c.name < d.name
}

// place is where a node stands in its queue.
type place struct {
	found   bool
	head    child // the first of the queue
	prev    child // the one before the node; zero if it is the head
	waiters int   // behind the head
}

// placeOf finds the node of that name among the children of its parent. A child that is not ours is
// driver.ErrCorrupt: it may be a holder that we do not understand.
func placeOf(children []string, name string) (place, error) {
	var p place
	own, ok := parseChild(name)
	n := 0
	for _, name := range children {
		c, isOurs := parseChild(name)
		if !isOurs {
			return place{}, fmt.Errorf("%w: a lock's child %.100q: want one of version 1", driver.ErrCorrupt, name)
		}
		n++
		p.found = p.found || ok && c.name == own.name
		if p.head.name == "" || c.before(p.head) {
			p.head = c
		}
		if ok && c.before(own) && (p.prev.name == "" || p.prev.before(c)) {
			p.prev = c
		}
	}
	p.waiters = max(n-1, 0)
	return p, nil
}
