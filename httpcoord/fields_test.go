package httpcoord

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/rules"
)

// bound makes the bound of a rule with one limit.
func bound(name string, l coord.Limit, r coord.Result) rules.Bound {
	l, err := l.Normal()
	if err != nil {
		panic(err)
	}
	return rules.Bound{Rule: name, Demand: coord.Demand{Key: name, Limit: l, N: 1}, Result: r}
}

func TestFields(t *testing.T) {
	bucket := coord.Limit{Rate: 10, Per: time.Second, Burst: 50, Algorithm: coord.TokenBucket}
	for _, tc := range []struct {
		name          string
		f             Fields
		d             rules.Decision
		policy, limit string
	}{
		{name: "no limit", d: rules.Decision{Allowed: true}},
		{name: "none wanted", f: NoFields, d: rules.Decision{Allowed: true, Bounds: []rules.Bound{bound("a", coord.PerMinute(5), coord.Result{})}}},
		{
			name: "admitted", f: Draft11,
			d: rules.Decision{Allowed: true, Bounds: []rules.Bound{
				bound("user", coord.PerMinute(100), coord.Result{Allowed: true, Remaining: 50, ResetAfter: 29001 * time.Millisecond}),
				bound("all", bucket, coord.Result{Allowed: true, Remaining: 49, ResetAfter: 100 * time.Millisecond}),
			}},
			policy: `"user";q=100;w=60, "all";q=10;w=1;coord-burst=50`,
			limit:  `"user";r=50;t=30, "all";r=49;t=1`,
		},
		{
			name: "denied",
			d: rules.Decision{Bounds: []rules.Bound{
				bound("user", coord.PerMinute(100), coord.Result{RetryAfter: 1500 * time.Millisecond, ResetAfter: time.Minute}),
				bound("free", coord.PerMinute(100), coord.Result{Remaining: 7, ResetAfter: time.Minute}),
				bound("not looked at", coord.PerMinute(100), coord.Result{Remaining: -1}),
			}},
			policy: `"user";q=100;w=60, "free";q=100;w=60, "not looked at";q=100;w=60`,
			limit:  `"user";r=0;t=2, "free";r=7`,
		},
		{
			name:   "degraded",
			d:      rules.Decision{Allowed: true, Bounds: []rules.Bound{bound("a", coord.PerMinute(5), coord.Result{Allowed: true, Degraded: errBroken})}},
			policy: `"a";q=5;w=60`,
		},
		{
			name: "one name for two",
			d: rules.Decision{Allowed: true, Bounds: []rules.Bound{
				bound("a", coord.PerSecond(5), coord.Result{Remaining: 4}), bound("a", coord.PerHour(9), coord.Result{Remaining: 8}),
			}},
			policy: `"a";q=5;w=1, "a-2";q=9;w=3600`,
			limit:  `"a";r=4;t=0, "a-2";r=8;t=0`,
		},
		{
			name:   "no whole seconds",
			d:      rules.Decision{Allowed: true, Bounds: []rules.Bound{bound("a", coord.Per(5, 1500*time.Millisecond), coord.Result{Remaining: 4})}},
			policy: `"a";q=5`,
			limit:  `"a";r=4;t=0`,
		},
		{
			name:   "a name that needs care",
			d:      rules.Decision{Allowed: true, Bounds: []rules.Bound{bound(`"ü\`+"\n%", coord.PerMinute(5), coord.Result{Remaining: 4})}},
			policy: `"\"%C3%BC\\%0A%25";q=5;w=60`,
			limit:  `"\"%C3%BC\\%0A%25";r=4;t=0`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := make(http.Header)
			tc.f.Write(h, &tc.d)
			if got := h.Get("RateLimit-Policy"); got != tc.policy {
				t.Errorf("RateLimit-Policy: %s\nwant %s", got, tc.policy)
			}
			if got := h.Get("RateLimit"); got != tc.limit {
				t.Errorf("RateLimit: %s\nwant %s", got, tc.limit)
			}
			parseFields(t, h)
		})
	}
}

// field is one member of a list.
type field struct {
	name   string
	params map[string]int64
}

func parseFields(t *testing.T, h http.Header) (policies, limits []field) {
	t.Helper()
	return parseList(t, h.Get("RateLimit-Policy")), parseList(t, h.Get("RateLimit"))
}

// member is one String with parameters that are Integers, in the canonical form of
// structured fields (RFC 9651, part 4.1).
var member = regexp.MustCompile(`^("(?:[ !#-\[\]-~]|\\["\\])*")((?:;[a-z*][a-z0-9_.*-]*=(?:0|[1-9][0-9]{0,14}))*)(?:, |$)`)

func parseList(t *testing.T, s string) (list []field) {
	t.Helper()
	for s != "" {
		m := member.FindStringSubmatch(s)
		if m == nil {
			t.Fatalf("%q is no list of strings with parameters", s)
		}
		s = s[len(m[0]):]
		f := field{params: make(map[string]int64)}
		f.name, _ = sfString(m[1])
		for _, p := range strings.Split(m[2], ";")[1:] {
			key, value, _ := strings.Cut(p, "=")
			f.params[key], _ = strconv.ParseInt(value, 10, 64)
		}
		list = append(list, f)
	}
	return list
}

// Whatever the name and the numbers, the fields can be read.
func FuzzFields(f *testing.F) {
	f.Add("user", 100, int64(time.Minute), 0, 50, int64(time.Second))
	f.Add("\x00\"\\é%", 1, int64(1), 9, -1, int64(-5))
	f.Add("", 1<<40, int64(1<<62), 1<<40, 1<<60, int64(1<<62))
	f.Fuzz(func(t *testing.T, name string, rate int, per int64, burst, remaining int, reset int64) {
		l, err := coord.Limit{Rate: rate, Per: time.Duration(per), Burst: burst}.Normal()
		if err != nil {
			return
		}
		h := make(http.Header)
		d := rules.Decision{Allowed: true, Bounds: []rules.Bound{bound(name, l, coord.Result{Remaining: remaining, ResetAfter: time.Duration(reset)})}}
		Latest.Write(h, &d)
		policies, limits := parseFields(t, h)
		if len(policies) != 1 || policies[0].params["q"] != int64(l.Rate) || len(limits) > 1 || len(limits) == 1 != (remaining >= 0) {
			t.Errorf("%v %v", policies, limits)
		}
	})
}
