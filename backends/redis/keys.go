package redis

import (
	"strings"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
)

// escaper writes what would end a hash tag, and its own escape character, as
// in URLs. The tag then is the whole name, and distinct names stay distinct.
var escaper = strings.NewReplacer("%", "%25", "}", "%7D")

// tagged is the name as a hash tag, with what comes before and after it.
func tagged(name, suffix string) string {
	if strings.ContainsAny(name, "%}") {
		name = escaper.Replace(name)
	}
	return "coord:{" + name + "}" + suffix
}

// pattern matches the keys that tagged makes of names that begin with prefix and of that suffix, and no others: the suffix
// of a lock is "", and no other key ends in "}".
func pattern(prefix, suffix string) string {
	return patternEscaper.Replace("coord:{"+escaper.Replace(prefix)) + "*}" + suffix
}

// patternEscaper writes what has a meaning in a pattern of SCAN.
var patternEscaper = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`)

// untagged is the name that tagged made a key of, with that suffix.
func untagged(key, suffix string) string {
	name := strings.TrimSuffix(strings.TrimPrefix(key, "coord:{"), "}"+suffix)
	return unescaper.Replace(name)
}

var unescaper = strings.NewReplacer("%25", "%", "%7D", "}")

// lockKey is the key of the lock name; the other keys of name begin with it.
func lockKey(name string) string { return tagged(name, "") }

// lockKeys are that key and the one of the last fencing token.
func lockKeys(name string) (lock, fence string) {
	fence = tagged(name, ":fence")
	return fence[:len(fence)-len(":fence")], fence
}

// sharedKey is the key of the hash with the shared holds of name.
func sharedKey(name string) string { return tagged(name, sharedSuffix) }

const sharedSuffix = ":shared"

// limitKey is the key of the state of l under name. What can be given back is in a hash
// beside it, whose name ends with ":h".
func limitKey(name string, l driver.Limit) string {
	var b [32]byte
	return tagged(name, string(limits.AppendName(append(b[:0], ':'), l)))
}
