package file

import (
	"net/url"
	"strings"
	"testing"

	"github.com/coordgo/coord/driver/cas"
)

func TestFileName(t *testing.T) {
	for want, n := range map[string]cas.Name{
		"lock,orders%2f42":                 {Kind: cas.Lock, Key: "orders/42"},
		"lock,a.b_c-d":                     {Kind: cas.Lock, Key: "a.b_c-d"},
		"lock,%41%20%25%2c%23%c3%a4%00":    {Kind: cas.Lock, Key: "A %,#ä\x00"},
		"lock,..":                          {Kind: cas.Lock, Key: ".."},
		"limit,sw%3a60000000,supplier":     {Kind: cas.Limit, Key: "supplier", State: "sw:60000000"},
		"limit,tb,supplier":                {Kind: cas.Limit, Key: "supplier", State: "tb"},
		"lock," + strings.Repeat("x", 135): {Kind: cas.Lock, Key: strings.Repeat("x", 135)},
	} {
		if got := fileName(n); got != want {
			t.Errorf("%+v: %q, want %q", n, got, want)
		}
	}
	long := fileName(cas.Name{Kind: cas.Lock, Key: strings.Repeat("x", 136)})
	if len(long) != maxName || !strings.HasPrefix(long, "lock,xxx") || long[maxName-65] != '#' {
		t.Errorf("long key: %q, want %d bytes that end in a hash", long, maxName)
	}
}

// parseFileName reads a name that is not hashed.
func parseFileName(t *testing.T, file string) cas.Name {
	parts := strings.Split(file, ",")
	for i := range parts {
		var err error
		if parts[i], err = url.PathUnescape(parts[i]); err != nil {
			t.Fatalf("%q: %v", file, err)
		}
	}
	switch {
	case len(parts) == 2 && parts[0] == "lock":
		return cas.Name{Kind: cas.Lock, Key: parts[1]}
	case len(parts) == 3 && parts[0] == "limit":
		return cas.Name{Kind: cas.Limit, State: parts[1], Key: parts[2]}
	}
	t.Fatalf("%q: want lock,KEY or limit,STATE,KEY", file)
	return cas.Name{}
}

// Every name can be read back or ends in a hash, so no two are the same; and a
// filesystem may take it, whatever it does with case, Unicode or reserved names.
func FuzzFileName(f *testing.F) {
	for _, key := range []string{"a", "A", "a/b", "..", "con", "a,b", "a#b", "%41", "ä", "a\u0308", "\xff", strings.Repeat("long/", 100)} {
		f.Add(key, "tb", false)
		f.Add(key, key, true)
	}
	f.Fuzz(func(t *testing.T, key, state string, limit bool) {
		n := cas.Name{Kind: cas.Lock, Key: key}
		if limit {
			n = cas.Name{Kind: cas.Limit, Key: key, State: state}
		}
		file := fileName(n)
		if len(file) > maxName || !isCell(file) || strings.Trim(file, "abcdefghijklmnopqrstuvwxyz0123456789._-,%#") != "" {
			t.Fatalf("%+v: file name %q", n, file)
		}
		if s := shardOf(file); s < 0 || s >= shards {
			t.Fatalf("%+v: shard %d", n, s)
		}
		if strings.Contains(file, "#") {
			if len(file) != maxName {
				t.Fatalf("%+v: hashed to %d bytes, want %d", n, len(file), maxName)
			}
			return
		}
		if back := parseFileName(t, file); back != n {
			t.Fatalf("%+v: %q reads as %+v", n, file, back)
		}
	})
}
