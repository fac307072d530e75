package zookeeper

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/coordgo/coord/driver"
)

// unescape reads what escape wrote; ErrCorrupt for what it cannot have written.
func unescape(name string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if name[i] != '%' {
			b.WriteByte(name[i])
			continue
		}
		if i+2 >= len(name) {
			return "", fmt.Errorf("%w: node name %q", driver.ErrCorrupt, name)
		}
		c, err := strconv.ParseUint(name[i+1:i+3], 16, 8)
		if err != nil {
			return "", fmt.Errorf("%w: node name %q", driver.ErrCorrupt, name)
		}
		b.WriteByte(byte(c))
		i += 2
	}
	if key := b.String(); key != "" && escape(key) == name {
		return key, nil
	}
	return "", fmt.Errorf("%w: node name %q", driver.ErrCorrupt, name)
}

func TestEscape(t *testing.T) {
	for key, want := range map[string]string{
		"tickets":        "tickets",
		"a/b":            "a%2Fb",
		"%2F":            "%252F",
		".":              "%2E",
		"..":             "%2E.",
		".hidden":        "%2Ehidden",
		"a.b":            "a.b",
		"zookeeper":      "zookeeper",
		"k:sw:1000":      "k%3Asw%3A1000",
		"a b":            "a b",
		"\x00\x1f\x7f":   "%00%1F%7F",
		"\u0085":         "%C2%85",
		"é":              "é",
		"e\u0301":        "e\u0301",
		"漢字":             "漢字",
		"\ue000":         "%EE%80%80",
		"\ufffd":         "%EF%BF%BD",
		"\U0001f512lock": "%F0%9F%94%92lock",
		"\xff":           "%FF",
	} {
		if got := escape(key); got != want {
			t.Errorf("escape(%q) = %q, want %q", key, got, want)
		}
		if got, err := unescape(want); got != key || err != nil {
			t.Errorf("unescape(%q) = %q, %v, want %q", want, got, err, key)
		}
	}
	for _, bad := range []string{"", "%", "%2", "%zz", "%41", "a/b", "%2f", ".", "a:b"} {
		if got, err := unescape(bad); !errors.Is(err, driver.ErrCorrupt) {
			t.Errorf("unescape(%q) = %q, %v, want ErrCorrupt", bad, got, err)
		}
	}
}

// Distinct keys get distinct names, and names are allowed.
func FuzzEscape(f *testing.F) {
	for _, s := range []string{"a", "..", "%2F", "\xff\xfe", "😀", "a/b:c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if key == "" {
			return
		}
		name := escape(key)
		if back, err := unescape(name); back != key || err != nil {
			t.Errorf("%q is written %q, which reads %q, %v", key, name, back, err)
		}
		if name == "." || name == ".." || strings.ContainsAny(name, "/:") || !utf8.ValidString(name) {
			t.Errorf("%q is written %q", key, name)
		}
		for _, r := range name {
			if r < 0x20 || r >= 0x7f && r <= 0x9f || r >= 0xd800 {
				t.Errorf("%q is written %q, with %U", key, name, r)
			}
		}
	})
}

// FuzzUnescape: what reads as a name is the only name of its key.
func FuzzUnescape(f *testing.F) {
	for _, s := range []string{"a", "%2E.", "%252F", "%zz"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		key, err := unescape(name)
		if err != nil {
			if !errors.Is(err, driver.ErrCorrupt) {
				t.Errorf("%q: %v", name, err)
			}
			return
		}
		if escape(key) != name {
			t.Errorf("%q reads %q, which is written %q", name, key, escape(key))
		}
	})
}

func node(id string, seq int32) string { return fmt.Sprintf("1-%s-%010d", tagOf(id), seq) }

func TestParseChild(t *testing.T) {
	for _, seq := range []int32{0, 7, math.MaxInt32, math.MinInt32, -1} {
		c, ok := parseChild(node("x", seq))
		if !ok || c.seq != seq || c.tag != tagOf("x") {
			t.Errorf("%s: %+v, %v", node("x", seq), c, ok)
		}
	}
	tag := "1-" + tagOf("x")
	for _, bad := range []string{
		"", tagOf("x") + "-0000000001", "2-" + tagOf("x") + "-0000000001", "1" + tagOf("x") + "-0000000001",
		"lock-0000000001", tag, tag + "-", tag + "-1", tag + "-00000000001", tag + "-2147483648", tag + "-+000000001",
		tag + "-000000000x", strings.ToUpper(tag) + "-0000000001", tag + "_0000000001", "_c_" + tag + "-lock-0000000001", tag + "-0000000001-x",
	} {
		if c, ok := parseChild(bad); ok {
			t.Errorf("%q is taken for %+v", bad, c)
		}
	}
}

func FuzzParseChild(f *testing.F) {
	f.Add(node("x", 1))
	f.Add(node("x", -1))
	f.Add("_c_-lock-0000000001")
	f.Add("2-" + tagOf("x") + "-0000000001")
	f.Fuzz(func(t *testing.T, name string) {
		c, ok := parseChild(name)
		if ok && (c.name != name || fmt.Sprintf("1-%s-%010d", c.tag, c.seq) != name) {
			t.Errorf("%q reads %+v", name, c)
		}
	})
}

// The queue is in the order of the numbers, which wrap, and never of the tags. With a child
// of others there is none.
func TestTrap11OrderIsNumericAndWraps(t *testing.T) {
	ids := []string{"a", "b", "c", "d", "e"}
	slices.SortFunc(ids, func(a, b string) int { return -strings.Compare(tagOf(a), tagOf(b)) }) // against the tags
	for _, first := range []int32{0, 9, 99, math.MaxInt32 - 2, math.MinInt32, -3} {
		var children []string
		for i, id := range ids {
			children = append(children, node(id, first+int32(i)))
		}
		queue := slices.Clone(children)
		slices.Sort(children)
		for _, foreign := range []string{"foreign", "_c_x-lock-0000000000", "2-" + node("x", 0)} {
			if p, err := placeOf(append(slices.Clone(children), foreign), queue[0]); !errors.Is(err, driver.ErrCorrupt) {
				t.Errorf("beside %q: %+v, %v, want ErrCorrupt", foreign, p, err)
			}
		}
		for i, own := range queue {
			p := must[place](t)(placeOf(children, own))
			prev := ""
			if i > 0 {
				prev = queue[i-1]
			}
			if !p.found || p.head.name != queue[0] || p.prev.name != prev || p.waiters != len(ids)-1 {
				t.Errorf("from %d: place of number %d is %+v, want it behind %q", first, i, p, prev)
			}
		}
	}
}

func TestTrap09AbsentIsNotAcquired(t *testing.T) {
	for _, children := range [][]string{nil, {node("other", 3)}} {
		if p := must[place](t)(placeOf(children, node("own", 1))); p.found {
			t.Errorf("%v: found %+v", children, p)
		}
	}
}

func TestCheckRoot(t *testing.T) {
	for _, good := range []string{"/coord", "/a/b", "/a/zookeeper", "/x:y", "/ä"} {
		if err := checkRoot(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "/", "coord", "/a//b", "/a/", "/./a", "/a/..", "/zookeeper", "/zookeeper/x", "/a\x00b", "/\U0001f512", "/" + strings.Repeat("x", 2000)} {
		if err := checkRoot(bad); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%q: %v, want ErrInvalid", bad, err)
		}
	}
}
