package etcd

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
)

// names makes etcd keys of the application's keys. A key is escaped as in URLs, so that it
// contains no slash: the slash behind it ends it, and no key's entries lie among
// another's, though one key may begin with another.
type names struct {
	base string // "coord/", or "namespace/coord/"
}

// root is the segment that separates a namespace from what is ours. No namespace
// contains it, so that the first one in a name says where the namespace ends.
const root = "coord"

func newNames(namespace string) (names, error) {
	if namespace == "" {
		return names{root + "/"}, nil
	}
	if len(namespace) > maxNamespace {
		return names{}, fmt.Errorf("%w: namespace of %d bytes: want at most %d", driver.ErrInvalid, len(namespace), maxNamespace)
	}
	for segment := range strings.SplitSeq(namespace, "/") {
		if segment == "" || segment == root {
			return names{}, fmt.Errorf("%w: namespace: want segments between slashes that are not empty and not %q", driver.ErrInvalid, root)
		}
	}
	return names{namespace + "/" + root + "/"}, nil
}

const maxNamespace = 256

// locks is the prefix of all entries of locks.
func (n names) locks() string { return n.base + "lock/" }

// queue is the prefix of all entries of a lock.
func (n names) queue(key string) string { return n.locks() + url.PathEscape(key) + "/" }

// entry is a name for an entry of a lock. The number means nothing. Numbers are small and used again, by all clients:
// etcd looks at every name that a queue ever had, until it compacts its history, so a new name for each hold would make
// each lock slower than the one before it.
func (n names) entry(key string, number int) string { return n.queue(key) + strconv.Itoa(number) }

// ping is a name that nothing has.
func (n names) ping() string { return n.base + "ping" }

// allShared is the prefix of all entries of keys that several hold.
func (n names) allShared() string { return n.base + "shared/" }

// shared is the prefix of all entries of a key that several hold.
func (n names) shared(key string) string { return n.allShared() + url.PathEscape(key) + "/" }

// prefix is that of the entries among which p has its own.
func (n names) prefix(p place) string {
	if p.shared {
		return n.shared(p.key)
	}
	return n.queue(p.key)
}

// place is how this client knows an acquisition.
type place struct {
	key, id string
	shared  bool // a hold that shares its key, or the head of the queue for one
}

// limit is the name of the state of l.
func (n names) limit(key string, l driver.Limit) string {
	return n.base + "limit/" + url.PathEscape(key) + "/" + limits.Name(l)
}
