package natskv

import (
	"strings"
	"testing"

	"github.com/coordgo/coord/driver/cas"
)

// Two names have one key only if they are one name, and every key is one that NATS takes.
func FuzzKey(f *testing.F) {
	for _, k := range []string{
		"a", "a/b", "A/B", "a.b", "a=2Fb", "a b", "a*", ">", ".", "..", "é", "e\u0301", "=sha256-",
		strings.Repeat("x", longest), strings.Repeat("x", longest+1), strings.Repeat("/", 1280),
	} {
		f.Add(k, "", "a", "sw:60000000")
		f.Add(k, "tb", k, "")
		f.Add(k, "tb", escape(k), "tb")
	}
	f.Fuzz(func(t *testing.T, key1, state1, key2, state2 string) {
		one, two := name(key1, state1), name(key2, state2)
		k1, k2 := key(one), key(two)
		if (one == two) != (k1 == k2) {
			t.Errorf("%+v has the key %q, %+v has %q", one, k1, two, k2)
		}
		for _, part := range strings.Split(k1, ".") {
			if part == "" && one.Key != "" {
				t.Errorf("%+v: empty part in %q", one, k1)
			}
		}
		const alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=."
		if i := strings.IndexFunc(k1, func(r rune) bool { return !strings.ContainsRune(alphabet, r) }); i >= 0 {
			t.Errorf("%+v: the key %q has a %q", one, k1, k1[i])
		}
		if len(k1) > 2*longest+len("limit..") {
			t.Errorf("%+v: key of %d bytes", one, len(k1))
		}
	})
}

// name makes a lock of a name without state.
func name(key, state string) cas.Name {
	if state == "" {
		return cas.Name{Kind: cas.Lock, Key: key}
	}
	return cas.Name{Kind: cas.Limit, Key: key, State: state}
}
