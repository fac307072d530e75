package envoy

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
)

// KeyPrefix begins the key of every counter: "rls/DOMAIN/KEY/VALUE/KEY/VALUE", which says what is counted without
// ambiguity.
const KeyPrefix = "rls/"

// longKey is from how many bytes on a key is a digest, so that every store takes it.
const longKey = 160

// keyEscaper leaves no '/' in a part. A '%' that is none of its escapes is a mark of counterKey.
var keyEscaper = strings.NewReplacer("%", "%25", "/", "%2F", "\x00", "%00")

// domainPrefix begins the keys of a domain.
func domainPrefix(domain string) string { return KeyPrefix + keyEscaper.Replace(domain) + "/" }

// counterKey is the key of the counter of a descriptor. A pattern that is counted in place of a value is marked by
// "%*". Different descriptors never have the same key.
func counterKey(prefix string, entries []*common.RateLimitDescriptor_Entry, shared []string) string {
	var b strings.Builder
	b.Grow(longKey)
	b.WriteString(prefix)
	for i, e := range entries {
		if i > 0 {
			b.WriteByte('/')
		}
		_, _ = keyEscaper.WriteString(&b, e.Key)
		b.WriteByte('/')
		value := e.Value
		if shared != nil && shared[i] != "" {
			b.WriteString("%*")
			value = shared[i]
		}
		_, _ = keyEscaper.WriteString(&b, value)
	}
	if b.Len() <= longKey {
		return b.String()
	}
	sum := sha256.Sum256([]byte(b.String()))
	return KeyPrefix + "%#" + hex.EncodeToString(sum[:])
}
