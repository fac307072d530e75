package memcached

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Store keys read "coord/KIND/NAME". KIND is lock, fence, shared, or the name of a limit's state, and has
// no slash. The selector of Open places a key by its NAME alone.
const (
	keyPrefix  = "coord/"
	lockKind   = "lock"
	fenceKind  = "fence"
	sharedKind = "shared"
	// maxName leaves room for prefix and kind in the 250 bytes of memcached's keys.
	maxName = 200
)

// name is what an application locks or limits, as memcached can name it.
type name struct {
	enc  string // escaped, or '#' and a hash
	full string // if enc is a hash: the escaped name, which the value keeps; else ""
}

// nameOf encodes a key. Different keys have different names, but for a collision of SHA-256,
// which the value tells.
func nameOf(key string) name {
	enc := escape(key)
	if len(enc) <= maxName {
		return name{enc: enc}
	}
	sum := sha256.Sum256([]byte(key))
	return name{enc: "#" + hex.EncodeToString(sum[:]), full: enc}
}

// key is where the item of that kind is.
func (n name) key(kind string) string { return keyPrefix + kind + "/" + n.enc }

// placeOf is the part of a store key that chooses the server: the name.
func placeOf(key string) string {
	rest, ours := strings.CutPrefix(key, keyPrefix)
	if _, enc, ok := strings.Cut(rest, "/"); ours && ok {
		return enc
	}
	return key
}

// escape writes bytes that memcached's keys cannot have, and '%' and '#', as %XX. What is above
// ASCII stays as it is.
func escape(key string) string {
	n := 0
	for i := range len(key) {
		if special(key[i]) {
			n++
		}
	}
	if n == 0 {
		return key
	}
	const digits = "0123456789ABCDEF"
	b := make([]byte, 0, len(key)+2*n)
	for i := range len(key) {
		if c := key[i]; special(c) {
			b = append(b, '%', digits[c>>4], digits[c&15])
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}

func special(c byte) bool { return c <= ' ' || c == 0x7f || c == '%' || c == '#' }
