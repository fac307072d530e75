package natskv

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/coordgo/coord/driver/cas"
)

// longest is the most bytes that an escaped key may have: a subject has to fit into a line of
// NATS's protocol, which is 4096 bytes by default.
const longest = 200

// key names a cell: different names have different keys. A dot separates the parts, and
// no part has one inside.
func key(n cas.Name) string {
	k := n.Kind.String() + "."
	if n.State != "" {
		k += escape(n.State) + "."
	}
	return k + escape(n.Key)
}

// escape writes s in the alphabet of keys. A byte becomes "=" and two digits, so that "=sha256-" is the
// beginning of nothing that was escaped.
func escape(s string) string {
	const digits = "0123456789ABCDEF"
	b := make([]byte, 0, len(s)+16)
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
			b = append(b, c)
		default:
			b = append(b, '=', digits[c>>4], digits[c&15])
		}
	}
	if len(b) <= longest {
		return string(b)
	}
	sum := sha256.Sum256([]byte(s))
	return "=sha256-" + hex.EncodeToString(sum[:])
}
