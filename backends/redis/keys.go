package redis

import (
	"strings"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
)

// escaper writes what would end a hash tag, and its own escape character, as
// in URLs. The tag then is the whole name, and distinct names stay distinct.
var escaper = strings.NewReplacer("%", "%25", "}", "%7D")

// lockKey is the key of the lock name; the other keys of name begin with it.
func lockKey(name string) string {
	if strings.ContainsAny(name, "%}") {
		name = escaper.Replace(name)
	}
	return "coord:{" + name + "}"
}

// fenceKey is where the last fencing token of a lock is.
func fenceKey(lock string) string { return lock + ":fence" }

// limitKeys are the keys of the state of l under name: the main one, and the
// hash beside it.
func limitKeys(name string, l driver.Limit) (state, hash string) {
	hash = lockKey(name) + ":" + limits.Name(l) + ":h"
	return hash[:len(hash)-len(":h")], hash
}
