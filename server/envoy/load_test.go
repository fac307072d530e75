package envoy_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/server/envoy"
)

// limited is a descriptor with a rate_limit of those keys.
func limited(keys string) string {
	return "domain: d\ndescriptors:\n- key: a\n  rate_limit: {" + keys + "}\n"
}

// Mistakes are told with their line and what to do.
func TestRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, want string }{
		{"", "f:0: an empty file: want a domain and its descriptors"},
		{"{", "f:0: line 1: did not find expected node content"},
		{"- a\n", "f:1: the file: want a mapping"},
		{"descriptors: []\n", "f:1: no domain: want the one that Envoy sends"},
		{"domain: ''\n", "f:1: no domain"},
		{"domain: d\ndomain: e\n", `f:2: key "domain" again: want it once`},
		{"domain: d\n5: x\n", "f:2: a key that is no string"},
		{"domain: d\nlimits: x\n", `f:2: unknown key "limits" here: want one of domain, key,`},
		{"domain: 1.5\n", "f:1: domain: 1.5 is no whole number below 2^63: put it into quotes"},
		{"domain: 99999999999999999999\n", "f:1: domain: 99999999999999999999 is no whole number below 2^63"},
		{"domain: 9223372036854775808\n", "f:1: domain: 9223372036854775808 is no whole number below 2^63"},
		{"domain: [d]\n", "f:1: domain: want a string"},
		{"domain: d\ncounting: both\n", `f:1: counting: "both": want envoy or exact`},
		{"domain: d\ndescriptors: x\n", "f:2: descriptors: want a list"},
		{"domain: d\ndescriptors: [x]\n", "f:2: descriptors: want a list of mappings"},
		{"domain: d\ndescriptors:\n- value: x\n", "f:3: a descriptor without key: want one"},
		{"domain: d\ndescriptors:\n- {key: a, value: b}\n- {key: a_b}\n", `f:4: descriptor "d.a_b" again`},
		{"domain: d\ndescriptors:\n- {key: a, shadow_mode: 'true'}\n", "f:3: shadow_mode: want true or false"},
		{"domain: d\ndescriptors:\n- {key: a, share_threshold: true}\n", `f:3: share_threshold without a wildcard in "a": want a value with *`},
		{"domain: d\ndescriptors:\n- {key: a, metadata: 5}\n", "f:3: metadata: want a mapping"},
		{"domain: d\ndescriptors:\n- {key: a, metadata: {b: 2020-01-01}}\n", "f:3: metadata: a value that JSON cannot say"},
		{"domain: d\ndescriptors:\n- {key: a, rate_limit: 5}\n", "f:3: rate_limit: want a mapping"},
		{limited(""), `f:4: unit "": want second, minute, hour, day, week, month or year`},
		{limited("unit: fortnight"), `f:4: unit "fortnight": want second`},
		{limited("unit: unknown"), `f:4: unit "unknown": want second`},
		{limited("unit: day, unlimited: true"), `f:4: unit "day" beside unlimited: want one of them`},
		{limited("unit: day, requests_per_unit: '5'"), "f:4: requests_per_unit: want a whole number from 0 to 4294967295"},
		{limited("unit: day, requests_per_unit: -1"), "f:4: requests_per_unit: want a whole number"},
		{limited("unit: day, requests_per_unit: 4294967296"), "f:4: requests_per_unit: want a whole number"},
		{limited("unit: day, replaces: [{}]"), "f:4: replaces without name"},
		{limited("unit: day, name: x, replaces: [{name: x}]"), `f:4: replaces "x", its own name`},
		{limited("unit: day, replaces: [x]"), "f:4: replaces: want a list of mappings"},
		{limited("unit: day, failure_policy: maybe"), `f:4: failure_policy: "maybe": want closed or open`},
		{limited("unit: day, algorithm: token-bucket"), "f:4: a key of counting: exact"},
		{limited("unit: day, burst: 5") + "counting: exact\n", "f:4: burst 5 with fixed-window: only a token-bucket has a burst"},
		{limited("unit: day, algorithm: leaky") + "counting: exact\n", `f:4: algorithm: "leaky": want sliding-window, token-bucket or fixed-window`},
		{limited("unit: year, requests_per_unit: 4294967291, algorithm: token-bucket") + "counting: exact\n", "too fine to count exactly"},
		{"a: &a [x,x,x,x,x,x,x,x,x,x]\n", `unknown key "a"`},
		{bomb, "aliases included"},
		{"domain: d\ndescriptors: &a\n- {key: b, descriptors: *a}\n", "more than 200 levels"},
		{"<<: &a {<<: *a}\ndomain: d\n", "more than 200 levels"},
		{"<<: &a [*a]\ndomain: d\n", "more than 200 levels"},
		{"domain: d\n<<: {domain: e}\n", "f:2: << below other keys: want it above them, for they count"},
	} {
		_, err := envoy.Parse(false, envoy.File{Name: "f", Text: []byte(test.text)})
		var known *config.Error
		if !errors.As(err, &known) || !errors.Is(err, coord.ErrInvalid) {
			t.Errorf("%.100s: %v: want a config.Error", test.text, err)
			continue
		}
		if !strings.Contains(strings.Replace(err.Error(), "f: ", "f:0: ", 1), test.want) {
			t.Errorf("%.100s:\ngot  %v\nwant %s", test.text, err, test.want)
		}
	}
}

// bomb is a small file that aliases make huge.
var bomb = func() string {
	text := "domain: d\ndescriptors:\n- key: a0\n  descriptors: &a0\n  - key: b\n"
	for i := range 9 {
		at := string(rune('0' + i))
		next := string(rune('1' + i))
		text += "- key: a" + next + "\n  descriptors: &a" + next + "\n"
		for j := range 10 {
			text += "  - {key: c" + string(rune('0'+j)) + ", descriptors: *a" + at + "}\n"
		}
	}
	return text
}()

// What envoyproxy/ratelimit takes is taken, and comes to the same.
func TestAccepts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, want string }{
		{"domain: d\n", ""},
		{"domain: 7\ndescriptors:\n", ""},
		{limited("unit: DAY, requests_per_unit: 0x10"), "d.a: 16 a day\n"},
		{limited("unlimited: yes, unit: whatever"), "d.a: 0 a unknown\n"},
		{"domain: d\nunit: 5\nmetadata: 1.5\ndescriptors:\n- {key: a, unit: second, rate_limit: {unit: hour, key: x, domain: [], metadata: x}}\n", "d.a: 0 a hour\n"},
		{"domain: d\ndescriptors:\n- {key: a, rate_limit: ~, value: ~}\n", ""},
		{"domain: d\ndescriptors:\n- key: a\n  rate_limit: &day {unit: day, requests_per_unit: 5}\n- {key: b, rate_limit: *day}\n- key: c\n  rate_limit:\n    <<: *day\n    requests_per_unit: 6\n", "d.a: 5 a day\nd.b: 5 a day\nd.c: 6 a day\n"},
		{"domain: d\ndescriptors:\n- key: a\n  descriptors:\n  - {key: b, value: 7, rate_limit: {unit: second}}\n", "d.a.b_7: 0 a second\n"},
		{"domain: d\n---\nother: document\n", ""},
	} {
		rules, err := envoy.Parse(false, envoy.File{Name: "f", Text: []byte(test.text)})
		if err != nil || rules.String() != test.want {
			t.Errorf("%s:\ngot  %v, %v\nwant %s", test.text, rules, err, test.want)
		}
	}
}

// Files have a domain in common only if they may.
func TestMergeDomains(t *testing.T) {
	t.Parallel()
	file := func(name, text string) envoy.File { return envoy.File{Name: name, Text: []byte(text)} }
	one := file("one", limited("unit: day"))
	two := file("two", "domain: d\ndescriptors:\n- {key: b, rate_limit: {unit: hour}}\n")
	if _, err := envoy.Parse(false, one, two); err == nil || !strings.Contains(err.Error(), `two:1: domain "d" again: want it in one file, or merge_domains: true`) {
		t.Errorf("not merged: %v", err)
	}
	rules, err := envoy.Parse(true, one, two)
	if err != nil || rules.String() != "d.a: 0 a day\nd.b: 0 a hour\n" || strings.Join(rules.Domains(), " ") != "d" {
		t.Errorf("merged: %v, %v", rules, err)
	}
	if _, err := envoy.Parse(true, one, one); err == nil || !strings.Contains(err.Error(), `one:3: descriptor "d.a" again`) {
		t.Errorf("twice: %v", err)
	}
	if _, err := envoy.Parse(true, one, file("exact", "domain: d\ncounting: exact\n")); err == nil || !strings.Contains(err.Error(), `exact:1: domain "d" with another counting`) {
		t.Errorf("two countings: %v", err)
	}
}

// Nothing that a file says ends the process, and what is taken can be asked.
func FuzzParse(f *testing.F) {
	for _, text := range []string{users, exact, bomb, limited("unit: day, requests_per_unit: 5"), "domain: d\ndescriptors:\n- <<: &a {<<: *a}\n", "domain: &d *d\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		rules, err := envoy.Parse(true, envoy.File{Name: "f", Text: []byte(text)})
		switch {
		case err == nil:
			_ = rules.String()
		case !errors.Is(err, coord.ErrInvalid):
			t.Errorf("%v: want one that matches ErrInvalid", err)
		}
	})
}
