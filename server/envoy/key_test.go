package envoy

import (
	"strings"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
)

// Different descriptors never have the same key. Each text has pairs of key and value; a "*" begins a pattern.
func TestKeysNeverCollide(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200)
	seen := make(map[string]string)
	for _, domain := range []string{"d", "d/a", "d%2Fa", "%", "#", "%#", "d_a", ""} {
		for _, text := range []string{
			"", "a|b", "a|b|", "|", "||", "a||b|", "a_b|c", "a|b_c", "a|b|c|d", "a/b|c", "a|b/c|d|", "a|%2F", "a|/", "a|%252F", "a|%", "a|*x",
			"a|%*x", "a|x", "a|%2Ax", "a|\x00", "a|%00", "a|%2500", "a|" + long, "a|*" + long, long + "|a", "a|" + long + "|b|", "é|ü",
		} {
			var entries []*common.RateLimitDescriptor_Entry
			var shared []string
			if text != "" {
				parts := strings.Split(text, "|")
				parts = append(parts, "")
				for i := 0; i+1 < len(parts); i += 2 {
					value, pattern := parts[i+1], ""
					if rest, ok := strings.CutPrefix(value, "*"); ok {
						value, pattern = "whatever", rest
					}
					entries = append(entries, &common.RateLimitDescriptor_Entry{Key: parts[i], Value: value})
					shared = append(shared, pattern)
				}
			}
			key := counterKey(domainPrefix(domain), entries, shared)
			if other, ok := seen[key]; ok {
				t.Errorf("%q is the key of %q and of %q", key, other, domain+": "+text)
			}
			seen[key] = domain + ": " + text
			if len(key) > longKey || strings.ContainsRune(key, 0) || !strings.HasPrefix(key, KeyPrefix) {
				t.Errorf("%q of %d bytes", key, len(key))
			}
		}
	}
}
