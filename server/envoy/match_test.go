package envoy_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// Which rule a descriptor has: requests_per_unit says it.
func TestMatch(t *testing.T) {
	t.Parallel()
	const file = `
domain: d
descriptors:
  - key: a
    rate_limit: {unit: hour, requests_per_unit: 1}
    descriptors:
      - {key: b, rate_limit: {unit: hour, requests_per_unit: 2}}
      - {key: b, value: x, rate_limit: {unit: hour, requests_per_unit: 3}}
  - {key: a, value: v, rate_limit: {unit: hour, requests_per_unit: 4}}
  - {key: a, value: "w*", rate_limit: {unit: hour, requests_per_unit: 5}}
  - {key: a, value: "w*z", rate_limit: {unit: hour, requests_per_unit: 6}}
  - {key: p, value: "/*/b/*", rate_limit: {unit: hour, requests_per_unit: 7}}
  - {key: p, value: "aa*aa", rate_limit: {unit: hour, requests_per_unit: 8}}
  - {key: k_v, rate_limit: {unit: hour, requests_per_unit: 9}}
`
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "", file)
		for entries, want := range map[string]string{
			"a": "1", "a=": "1", "a=other": "1", "a=v": "4", "a=w": "5", "a=wxyz": "5", "a=xw": "1",
			"a=1 b=1": "2", "a=1 b=x": "3", "a=v b=x": "none", "a=1 c": "none", "a=1 b=x c": "none", "b": "none",
			"p=/a/b/c": "7", "p=//b/": "7", "p=/b/": "none", "p=/a/c": "none", "p=aaaa": "8", "p=aaa": "none", "p=aabaa": "8",
			"k=v": "9", "k_v": "9", "k_v=x": "9", "k": "none",
		} {
			got := k.hit(t, entries)
			if _, limit, ok := strings.Cut(got, "/"); ok {
				got, _, _ = strings.Cut(limit, " ")
			} else {
				got = "none"
			}
			if got != want {
				t.Errorf("%q: %s, want %s", entries, got, want)
			}
		}
	})
}

// With share_threshold all values of a wildcard have one counter, at any level; without it, each has its own. The value
// that is the wildcard's own text matches as it is, and has a counter of its own.
func TestShareThreshold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "", `
domain: d
descriptors:
  - key: f
    value: "x*"
    share_threshold: true
    rate_limit: {unit: hour, requests_per_unit: 2}
    descriptors: [{key: g, rate_limit: {unit: hour, requests_per_unit: 2}}]
  - {key: f, value: "y*", rate_limit: {unit: hour, requests_per_unit: 2}}
`)
		for _, test := range []struct{ entries, want string }{
			{"f=x1", "1/2"},
			{"f=x2", "0/2"},
			{"f=x*", "1/2"},
			{"f=y1", "1/2"},
			{"f=y2", "1/2"},
			{"f=x1 g=1", "1/2"},
			{"f=x2 g=1", "0/2"},
			{"f=x3 g=2", "1/2"},
		} {
			if got := k.hit(t, test.entries); !strings.Contains(got, test.want) {
				t.Errorf("%s: %s, want %s", test.entries, got, test.want)
			}
		}
	})
}

// What is measured has the names of the original, with the values that the rules ask for.
func TestStatistics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "", `
domain: d
descriptors:
  - {key: plain, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: detailed, detailed_metric: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: wild, value: "a*", value_to_metric: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: shared, value: "a*", share_threshold: true, detailed_metric: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - key: up
    value_to_metric: true
    descriptors: [{key: down, value: x, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 2}}]
`)
		k.ask(t, `{"domain":"d","hitsAddend":12,"descriptors":[{"entries":[{"key":"plain","value":"x"}]}]}`)
		k.ask(t, `{"domain":"none","descriptors":[{}, {}]}`)
		for _, entries := range []string{"detailed=", "detailed=v", "wild=ab", "shared=ab", "up=1 down=x", "up=1 down=x", "up=1 down=x"} {
			k.hit(t, entries)
		}
		want := []string{
			"config_load_success 1",
			"rate_limit.domain_not_found 2",
			"rate_limit.near_limit d.detailed_ 1", "rate_limit.near_limit d.detailed_v 1", "rate_limit.near_limit d.plain 2",
			"rate_limit.near_limit d.shared_a* 1", "rate_limit.near_limit d.up_1.down_x 1", "rate_limit.near_limit d.wild_ab 1",
			"rate_limit.over_limit d.plain 2", "rate_limit.over_limit d.up_1.down_x 1",
			"rate_limit.shadow_mode d.up_1.down_x 1",
			"rate_limit.total_hits d.detailed_ 1", "rate_limit.total_hits d.detailed_v 1", "rate_limit.total_hits d.plain 12",
			"rate_limit.total_hits d.shared_a* 1", "rate_limit.total_hits d.up_1.down_x 3", "rate_limit.total_hits d.wild_ab 1",
			"rate_limit.within_limit d.detailed_ 1", "rate_limit.within_limit d.detailed_v 1",
			"rate_limit.within_limit d.shared_a* 1", "rate_limit.within_limit d.up_1.down_x 2", "rate_limit.within_limit d.wild_ab 1",
		}
		var got []string
		for _, name := range slices.Sorted(maps.Keys(k.meter.seen)) {
			got = append(got, fmt.Sprint(name, " ", k.meter.seen[name]))
		}
		if !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// However many values requests have, a rule has its own figures: those of the first 1000 values, and of all the others.
func TestStatisticsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "", `
domain: d
descriptors:
  - {key: plain, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: each, detailed_metric: true, rate_limit: {unit: hour, requests_per_unit: 1}}
`)
		override := func(entries string) {
			k.ask(t, `{"domain":"d","descriptors":[{"limit":{"requestsPerUnit":5,"unit":"HOUR"},"entries":[`+entries+`]}]}`)
		}
		long := strings.Repeat("ä", 40)
		override(`{"key":"` + long + `","value":"1"},{"key":"b"}`)
		for i := range 1500 {
			override(fmt.Sprintf(`{"key":"a","value":"%d"}`, i))
			k.ask(t, fmt.Sprintf(`{"domain":"none%d","descriptors":[{}]}`, i))
			k.hit(t, fmt.Sprintf("each=%d%s", i, long))
		}
		override(`{"key":"late"}`)
		override(strings.Repeat(`{"key":"`+long+`"},`, 40) + `{"key":"many"}`)
		k.hit(t, "plain=x")
		k.hit(t, "each=late")
		sets := 0
		for name := range k.meter.seen {
			if strings.HasPrefix(name, "rate_limit.total_hits ") {
				sets++
			}
		}
		if sets != 1000+3 { // and the two rules, and "other"
			t.Errorf("%d sets of total_hits: want 1003", sets)
		}
		for name, want := range map[string]int64{
			"total_hits d.plain": 1, "total_hits d.each": 1500 - 998 + 1, "total_hits d.each_0" + long[:62]: 1,
			"total_hits d.a": 1500, "total_hits d." + long[:64] + ".b": 1, "total_hits d.other": 2,
			"domain_not_found": 1500,
		} {
			if got := k.meter.seen["rate_limit."+name]; got != want {
				t.Errorf("%s: %d: want %d", name, got, want)
			}
		}
	})
}
