package memcached

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/coordgo/coord/driver"
)

// legal reports whether memcached takes the key.
func legal(key string) bool {
	return key != "" && len(key) <= 250 && strings.IndexFunc(key, func(r rune) bool { return r <= ' ' || r == 0x7f }) < 0
}

func TestKeys(t *testing.T) {
	long := strings.Repeat("n", 1280)
	widest := driver.Limit{Rate: 1, Per: driver.MaxPer, Algorithm: driver.SlidingWindow}
	seen := map[string]string{}
	for _, key := range []string{
		"a", "ab", "a/b", "A", "a b", "a%20b", "%", "%25", "#", "%23", "ü", "u\u0308", "\x00", "\x7f", "\xff",
		long, long + "x", long[:200], long[:201], strings.Repeat("%", 300), "#" + strings.Repeat("0", 64),
	} {
		n := nameOf(key)
		for _, kind := range []string{lockKind, fenceKind, sharedKind, limitOf(key, widest).kind} {
			if k := n.key(kind); !legal(k) || placeOf(k) != n.enc {
				t.Errorf("%.40q: key %q is not legal, or placed by %q", key, k, placeOf(k))
			}
		}
		if other, dup := seen[n.enc]; dup {
			t.Errorf("%.40q and %.40q share %q", key, other, n.enc)
		}
		seen[n.enc] = key
	}
}

func FuzzKeys(f *testing.F) {
	f.Add("a", "a%")
	f.Add("#", "%23")
	f.Add(strings.Repeat("n", 201), strings.Repeat("n", 202))
	f.Fuzz(func(t *testing.T, a, b string) {
		if a == "" || b == "" {
			return
		}
		x, y := nameOf(a), nameOf(b)
		if (x == y) != (a == b) {
			t.Errorf("%q and %q: %q and %q", a, b, x, y)
		}
		for _, kind := range []string{lockKind, fenceKind, sharedKind, "sw:31622400000000"} {
			if k := x.key(kind); !legal(k) || placeOf(k) != x.enc {
				t.Errorf("%q: key %q", a, k)
			}
		}
	})
}

func TestValue(t *testing.T) {
	v := value{state: held, token: 7, ttl: 30, until: 1763711439000000, id: "app@host/1/2/x"}
	const line = "coord-lock 1 held token=7 ttl=30 until=1763711439000000 id=app@host/1/2/x\n"
	if got := string(v.bytes()); got != line {
		t.Errorf("written as %q", got)
	}
	if got, err := parseValue([]byte(line), name{enc: "k"}); got != v || err != nil {
		t.Errorf("read as %+v, %v", got, err)
	}
	hashed := name{enc: "#00", full: "the%20key"}
	for _, full := range []string{hashed.full, "a\u00a0b", "a\u0085b\u2028", "\u3000ü"} { // no spaces to memcached
		v.full = full
		if got, err := parseValue(v.bytes(), name{enc: "#00", full: full}); got != v || err != nil {
			t.Errorf("%q: read as %+v, %v", full, got, err)
		}
	}
	for _, bad := range []string{
		"", "x", line + "\n", strings.TrimSuffix(line, "\n"), "\x00", "coord-lock 1 \n",
		strings.Replace(line, "held", "free", 1), strings.Replace(line, "1 held", "2 held", 1),
		strings.Replace(line, "token=7", "token=0", 1), strings.Replace(line, "token=7", "token=07", 1),
		strings.Replace(line, "token=7", fmt.Sprint("token=", int64(driver.MaxToken)+1), 1),
		strings.Replace(line, "held token=7", "taking token=7", 1), strings.Replace(line, "ttl=30", "ttl=0", 1),
		strings.Replace(line, "ttl=30", "ttl=2592000", 1), strings.Replace(line, "ttl=30", "ttl=-1", 1),
		strings.Replace(line, " ttl", "  ttl", 1), strings.Replace(line, "id=app@host/1/2/x", "id=", 1),
		strings.Replace(line, "\n", " key=k\n", 1), strings.Replace(line, "\n", " key=\n", 1),
	} {
		if got, err := parseValue([]byte(bad), name{enc: "k"}); !errors.Is(err, driver.ErrCorrupt) || got != (value{}) {
			t.Errorf("%q: read as %+v, %v", bad, got, err)
		}
	}
	if _, err := parseValue([]byte(line), hashed); !errors.Is(err, driver.ErrCorrupt) {
		t.Errorf("the value of another key under one hash: %v", err)
	}
}

// What is read is what would be written.
func FuzzValue(f *testing.F) {
	f.Add("coord-lock 1 held token=7 ttl=30 until=1763711439000000 id=a/1/2/3\n", "")
	f.Add("coord-lock 1 kept token=7 ttl=30 until=0 id=a key=k\n", "k")
	f.Add("coord-lock 1 held token=7 ttl=30 until=1 id=a key=k\u3000\n", "k\u3000")
	f.Fuzz(func(t *testing.T, text, full string) {
		v, err := parseValue([]byte(text), name{enc: "k", full: full})
		if err != nil {
			if !errors.Is(err, driver.ErrCorrupt) || v != (value{}) {
				t.Errorf("%q: %+v, %v", text, v, err)
			}
			return
		}
		if string(v.bytes()) != text {
			t.Errorf("%q is written as %q", text, v.bytes())
		}
	})
}

func FuzzLimitValue(f *testing.F) {
	l := driver.Limit{Rate: 10, Per: time.Second, Algorithm: driver.SlidingWindow}
	f.Add([]byte("coord-limit 1\n\x01\x00"))
	f.Add([]byte("coord-limit 1"))
	f.Fuzz(func(t *testing.T, text []byte) {
		n := limitOf("k", l)
		s, err := parseLimit(text, n)
		if err != nil {
			if !errors.Is(err, driver.ErrCorrupt) {
				t.Errorf("%q: %v is not ErrCorrupt", text, err)
			}
			return
		}
		again, err := formatLimit(n, s)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseLimit(again, n); err != nil {
			t.Errorf("%q, read and written as %q: %v", text, again, err)
		}
	})
}

func TestLasting(t *testing.T) {
	now := time.Unix(1_763_711_409, 0)
	for seconds, want := range map[int64]int32{
		-5: 2, 0: 2, 1: 3, 60: 62,
		maxRelative - slack:     maxRelative,
		maxRelative - slack + 1: int32(now.Unix() + maxRelative + 1 + clockMargin),
		366 * 24 * 3600:         int32(now.Unix() + 366*24*3600 + slack + clockMargin),
		1 << 40:                 1<<31 - 1,
	} {
		if got := lasting(seconds, now); got != want {
			t.Errorf("lasting %d s: %d, want %d", seconds, got, want)
		}
	}
	for d, want := range map[time.Duration]int64{0: 0, 1: 1, time.Second: 1, time.Second + 1: 2, maxTTL: int64(maxTTL / time.Second)} {
		if got := ceilSeconds(d); got != want {
			t.Errorf("%v: %d s, want %d", d, got, want)
		}
	}
}

// The list's order is of no matter, a server that goes takes only its own names with it, and
// names spread evenly. Where names are must never change, so some are written down.
func TestTrap15OrderOfServers(t *testing.T) {
	addrs := []string{"a:11211", "b:11211", "c:11211"}
	of := func(addrs []string) func(string) string {
		s := newServers(addrs)
		return func(key string) string {
			addr, err := s.PickServer(key)
			if err != nil {
				t.Fatal(err)
			}
			return addr.String()
		}
	}
	pick, fewer := of(addrs), of(addrs[:2])
	reversed := slices.Clone(addrs)
	slices.Reverse(reversed)
	turned := of(reversed)
	count := map[string]int{}
	const names = 30_000
	for i := range names {
		n := nameOf(fmt.Sprint("name ", i))
		at := pick(n.key(lockKind))
		count[at]++
		switch {
		case at != turned(n.key(lockKind)):
			t.Fatalf("%q moves with the order of the list", n.enc)
		case at != pick(n.key(fenceKind)) || at != pick(n.key("sw:60000000")):
			t.Fatalf("the items of %q are apart", n.enc)
		case at != "c:11211" && at != fewer(n.key(lockKind)):
			t.Fatalf("%q moves from %s though another server has gone", n.enc, at)
		}
	}
	for _, a := range addrs {
		if n := count[a]; n < names/3*95/100 || n > names/3*105/100 {
			t.Errorf("%s has %d of %d names", a, n, names)
		}
	}
	for key, want := range map[string]string{"tickets": "b:11211", "orders": "c:11211", "user/42": "b:11211"} {
		if got := pick(nameOf(key).key(lockKind)); got != want {
			t.Errorf("%s is on %s, was on %s", key, got, want)
		}
	}
	if got := pick("not one of coord's"); !slices.Contains(addrs, got) {
		t.Errorf("a foreign key is on %q", got)
	}
	if _, err := servers(nil).PickServer("k"); err != memcache.ErrNoServers {
		t.Errorf("no servers: %v", err)
	}
}
