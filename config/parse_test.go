package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/driver"
)

const whole = `# A shop.
url: redis://app:s3cret@localhost:6379/0?dial_timeout=1s
prefix: "shop/"
require: [per-hold-ttl, server-clock]
failure_policy: open
lock: {ttl: 30s, wait: 10s, max_hold: 5m, min_hold: 1s}
limits:
  supplier: 2000/1m
  mail: 100/h burst=20
  sms: {rate: 10, per: 1s, algorithm: fixed-window}
  api: {rate: 50, per: 1s, burst: 5}
`

func TestParse(t *testing.T) {
	c, err := config.Parse("coord.yaml", []byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, got, want any) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s = %v, want %v", what, got, want)
		}
	}
	check("URL", string(c.URL), "redis://app:s3cret@localhost:6379/0?dial_timeout=1s")
	check("Prefix", c.Prefix, "shop/")
	check("Require", c.Require, []driver.Claim{driver.PerHoldTTL, driver.ServerClock})
	check("FailurePolicy", c.FailurePolicy, coord.FailOpen)
	check("Lock", c.Lock, config.Lock{TTL: 30 * time.Second, Wait: 10 * time.Second, MaxHold: 5 * time.Minute, MinHold: time.Second})
	check("Limits", c.Limits, map[string]coord.Limit{
		"supplier": {Rate: 2000, Per: time.Minute},
		"mail":     {Rate: 100, Per: time.Hour, Burst: 20},
		"sms":      {Rate: 10, Per: time.Second, Algorithm: coord.FixedWindow},
		"api":      {Rate: 50, Per: time.Second, Burst: 5},
	})
}

// Every key is optional, and so is all text.
func TestParseNothing(t *testing.T) {
	for _, text := range []string{"", "\n", "# nothing\n", "---\n", "null\n", "{}\n", "limits: {}\n"} {
		if c, err := config.Parse("coord.yaml", []byte(text)); err != nil || c.URL != "" || len(c.Limits) != 0 {
			t.Errorf("Parse(%q) = %v, %v", text, c, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	const allClaims = "fair, wake, loss-push, per-hold-ttl, inspect, break, min-hold-after-exit, " +
		"token-process, token-restart, token-clock-seeded, token-failover, " +
		"durable-restart, durable-failover, no-eviction, server-clock, atomic-multi, reserve, " +
		"scope-process, scope-machine, scope-hosts"
	long := strings.Repeat("x", 300)
	for _, tt := range []struct{ text, want string }{
		// The text as such.
		{"url: [\n", "coord.yaml:2: not YAML: did not find expected node content"},
		{"prefix: a\nrequire: b: c", "coord.yaml:2: not YAML: mapping values are not allowed in this context"},
		{"prefix: a\n\nrequire: [a\nlock: }\n", "coord.yaml:3: not YAML: did not find expected ',' or ']'"},
		{"a: b: c", "coord.yaml: not YAML: mapping values are not allowed in this context"},
		{"\x00", "coord.yaml: not YAML: control characters are not allowed"},
		{"url: memory://\n---\nurl: memory://\n", "coord.yaml:2: a second document: want one"},
		{"hello", `coord.yaml:1: "hello": want a mapping`},
		{"- a", "coord.yaml:1: a list: want a mapping"},
		{"lock: &l {ttl: 1s}", "coord.yaml:1: an anchor or alias: write the value out"},
		{"lock: !mine {ttl: 1s}", "coord.yaml:1: lock: a mapping: want a mapping"},
		{"urll: memory://", `coord.yaml:1: unknown key "urll": want one of url, prefix, require, failure_policy, lock, limits`},
		{"prefix: a\n\nprefix: b\n", `coord.yaml:3: key "prefix" again: it is on line 1`},
		{"1: a", `coord.yaml:1: key "1": want a name`},
		{"[a]: b", "coord.yaml:1: key a list: want a name"},
		{"\"\": b", `coord.yaml:1: key "": want a name`},
		{"redis://u:s3cret@h: b", `coord.yaml:1: unknown key "…": want one of url, prefix, require, failure_policy, lock, limits`},

		// url never shows its value.
		{"url: 7", "coord.yaml:1: url: not a string: want a string such as redis://host:6379/0"},
		{"url: [redis://u:s3cret@h]", "coord.yaml:1: url: not a string: want a string such as redis://host:6379/0"},
		{"url: s3cret", "coord.yaml:1: url: not a URL: want a form like redis://host:6379/0 or file:///var/lib/app/coord"},
		{"url: redis://u:s3cret@h:bad", "coord.yaml:1: url: not a URL: want a form like redis://host:6379/0 or file:///var/lib/app/coord"},
		{"url: redis:s3cret", "coord.yaml:1: url: no // after the scheme: want a form like redis://host:6379/0 or file:///var/lib/app/coord"},
		{"url: file:/tmp/x", "coord.yaml:1: url: no // after the scheme: want a form like redis://host:6379/0 or file:///var/lib/app/coord"},
		{"url: redis://h?p=%zz", "coord.yaml:1: url: malformed query: want a form like redis://host:6379/0 or file:///var/lib/app/coord"},
		{"url: redis://u:s3cret@h?prefix=a\nprefix: b\n", `coord.yaml:2: prefix: "b" contradicts prefix "a" in url: set one of them`},

		{"prefix: 7", `coord.yaml:1: prefix: "7": want a string such as "shop/"`},
		{"prefix:", `coord.yaml:1: prefix: nothing: want a string such as "shop/"`},
		{"prefix: " + long, "coord.yaml:1: prefix: 300 bytes: want at most 256 of UTF-8"},

		{"require: fair", `coord.yaml:1: require: "fair": want a list such as [per-hold-ttl, server-clock]`},
		{"require: [7]", `coord.yaml:1: require: "7": want the name of a claim`},
		{"require: [fare]", `coord.yaml:1: require: "fare": want one of ` + allClaims},
		{"require:\n- fair\n- fair\n", `coord.yaml:3: require: "fair" again`},

		{"failure_policy: shut", `coord.yaml:1: failure_policy: "shut": want closed or open`},
		{"failure_policy: true", `coord.yaml:1: failure_policy: "true": want closed or open`},

		{"lock: 30s", `coord.yaml:1: lock: "30s": want a mapping`},
		{"lock:", `coord.yaml:1: lock: nothing: want a mapping`},
		{"lock: {lease: 30s}", `coord.yaml:1: lock: unknown key "lease": want one of ttl, wait, max_hold, min_hold`},
		{"url: memory://\nlock:\n  ttl: 10\n", `coord.yaml:3: lock.ttl: "10": want a duration such as 30s`},
		{"lock: {ttl: [1s]}", `coord.yaml:1: lock.ttl: a list: want a duration such as 30s`},
		{"lock: {ttl: }", `coord.yaml:1: lock.ttl: nothing: want a duration such as 30s`},
		{"lock: {ttl: 1 day}", `coord.yaml:1: lock.ttl: "1 day": want a duration such as 30s`},
		{"lock: {ttl: 0}", `coord.yaml:1: lock.ttl: "0": want at least 1ns, at most 87840h0m0s`},
		{"lock: {wait: -1s}", `coord.yaml:1: lock.wait: "-1s": want at least 1ns, at most 87840h0m0s`},
		{"lock: {max_hold: 99999h}", `coord.yaml:1: lock.max_hold: "99999h": want at least 1ns, at most 87840h0m0s`},
		{"lock: {ttl: 'redis://u:s3cret@h'}", `coord.yaml:1: lock.ttl: "…": want a duration such as 30s`},
		{"lock: {ttl: " + long + "}", `coord.yaml:1: lock.ttl: "` + long[:60] + `…": want a duration such as 30s`},
		{"lock:\n  min_hold: 2m\n  max_hold: 1m\n", `coord.yaml:2: lock.min_hold: 2m0s is above max_hold 1m0s`},

		{"limits: 2000/1m", `coord.yaml:1: limits: "2000/1m": want a mapping`},
		{"limits: {a: 2000}", `coord.yaml:1: limits.a: "2000": want a form like 2000/1m, or a mapping of rate, per, burst, algorithm`},
		{"limits: {a: [1/1s]}", `coord.yaml:1: limits.a: a list: want a form like 2000/1m, or a mapping of rate, per, burst, algorithm`},
		{"limits: {a: 'redis://u:s3cret@h'}", `coord.yaml:1: limits.a: "…": want a form like 2000/1m, or a mapping of rate, per, burst, algorithm`},
		{"limits: {a: 2000/1x}", `coord.yaml:1: limits.a: limit "2000/1x": period "1x" is not a duration: want a form like "2000/1m", "2000/1m burst=200" or "2000/1m fixed-window"`},
		{"limits: {a: 0/1m}", `coord.yaml:1: limits.a: limit "0/1m": rate 0: want 1 to 1000000000000`},
		{"limits: {a: 1/1m burst=2 fixed-window}", `coord.yaml:1: limits.a: limit "1/1m burst=2 fixed-window": burst 2 with fixed-window: only a token-bucket has a burst`},
		{"limits:\n  a: 1/1s\n  a: 2/1s\n", `coord.yaml:3: limits: key "a" again: it is on line 2`},
		{"limits: {a: {per: 1m}}", `coord.yaml:1: limits.a: no rate: want a number of permits such as 2000`},
		{"limits: {a: {rate: 5}}", `coord.yaml:1: limits.a: no per: want a duration such as 1m`},
		{"limits: {a: {rate: 5, per: 1m, brust: 2}}", `coord.yaml:1: limits.a: unknown key "brust": want one of rate, per, burst, algorithm`},
		{"limits: {a: {rate: 5.5, per: 1m}}", `coord.yaml:1: limits.a.rate: "5.5": want a whole number from 1 to 1000000000000`},
		{"limits: {a: {rate: -5, per: 1m}}", `coord.yaml:1: limits.a.rate: "-5": want a whole number from 1 to 1000000000000`},
		{"limits: {a: {rate: '5', per: 1m}}", `coord.yaml:1: limits.a.rate: "5": want a whole number from 1 to 1000000000000`},
		{"limits: {a: {rate: 5, per: 1m, burst: 0}}", `coord.yaml:1: limits.a.burst: "0": want a whole number from 1 to 1000000000000`},
		{"limits: {a: {rate: 5, per: 1us}}", `coord.yaml:1: limits.a.per: "1us": want at least 1ms, at most 8784h0m0s`},
		{"limits: {a: {rate: 5, per: 1500001ns}}", `coord.yaml:1: limits.a: period 1.500001ms: want whole microseconds`},
		{"limits: {a: {rate: 5, per: 1m, algorithm: leaky}}", `coord.yaml:1: limits.a.algorithm: "leaky": want sliding-window, token-bucket or fixed-window`},
		{"limits: {a: {rate: 5, per: 1m, algorithm: 1}}", `coord.yaml:1: limits.a.algorithm: "1": want sliding-window, token-bucket or fixed-window`},
		{"limits:\n  a:\n    rate: 5\n    per: 1m\n    burst: 9\n    algorithm: sliding-window\n", `coord.yaml:3: limits.a: burst 9 with sliding-window: only a token-bucket has a burst`},
	} {
		c, err := config.Parse("coord.yaml", []byte(tt.text))
		if err == nil {
			t.Errorf("Parse(%q) = %v, want error", tt.text, c)
			continue
		}
		if err.Error() != tt.want {
			t.Errorf("Parse(%q)\n got: %v\nwant: %v", tt.text, err, tt.want)
		}
		var e *config.Error
		if !errors.Is(err, coord.ErrInvalid) || !errors.As(err, &e) || e.File != "coord.yaml" {
			t.Errorf("Parse(%q): %#v is not an *Error that matches ErrInvalid", tt.text, err)
		}
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "coord.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(config.EnvURL, "")
	if _, err := config.Load(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	write("url: memory://\nprefix: a/\n")
	if c, err := config.Load(path); err != nil || c.URL != "memory://" {
		t.Errorf("Load = %v, %v", c, err)
	}
	t.Setenv(config.EnvURL, "file:///x")
	if c, err := config.Load(path); err != nil || c.URL != "file:///x" {
		t.Errorf("with %s: Load = %v, %v", config.EnvURL, c, err)
	}
	for url, want := range map[string]string{
		"u:s3cret@h":                     "COORD_URL: no // after the scheme: want a form like redis://host:6379/0 or file:///var/lib/app/coord",
		"redis://u:s3cret@h?prefix=b%2F": fmt.Sprintf("COORD_URL: prefix \"b/\" contradicts \"a/\" in %s: set one of them", path),
	} {
		t.Setenv(config.EnvURL, url)
		if _, err := config.Load(path); err == nil || err.Error() != want {
			t.Errorf("%s=%s\n got: %v\nwant: %s", config.EnvURL, url, err, want)
		}
	}
	t.Setenv(config.EnvURL, "")
	write("# " + strings.Repeat("x", 1<<20))
	if _, err := config.Load(path); err == nil || err.Error() != "read "+path+": more than 1048576 bytes" {
		t.Errorf("a file too large: %v", err)
	}
}

func TestURLHidesSecrets(t *testing.T) {
	for url, want := range map[config.URL]string{
		"":                               "",
		"memory://":                      "memory://",
		"redis://u:s3cret@h:1/0":         "redis://u:xxxxx@h:1/0",
		"redis://h?db=1&Password=s3cret": "redis://h?Password=xxxxx&db=1",
		"redis://h?auth=s3cret":          "redis://h?auth=xxxxx",
		"redis://u:s3cret@h:bad":         "xxxxx",
		"u:s3cret@h":                     "xxxxx",
		"redis://h?x=%zz&p=s3cret":       "xxxxx",
	} {
		text, err := url.MarshalText()
		if err != nil {
			t.Error(err)
		}
		for _, got := range []string{url.String(), string(text), fmt.Sprint(url), fmt.Sprintf("%+v", url)} {
			if got != want {
				t.Errorf("%q is printed as %q, want %q", string(url), got, want)
			}
		}
	}
	c, err := config.Parse("coord.yaml", []byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if text := fmt.Sprintf(format, c); strings.Contains(text, "s3cret") {
			t.Errorf("%s shows the password: %s", format, text)
		}
	}
}

// FuzzParse: what is accepted is in range, what is refused says so in one
// line, and nothing panics.
func FuzzParse(f *testing.F) {
	f.Add([]byte(whole))
	for _, text := range []string{"", "a: &x [*x]", "lock: {ttl: 10}", "limits: {a: {rate: 1, per: 1s}}", "- -\n- ?", "? |\n  url\n: x", "\xff\xfe", "url: !!binary aGk="} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := config.Parse("coord.yaml", text)
		if err != nil {
			if !errors.Is(err, coord.ErrInvalid) || !strings.HasPrefix(err.Error(), "coord.yaml") || strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("refused as %q", err)
			}
			return
		}
		if len(c.Prefix) > coord.MaxPrefix || c.Lock.TTL < 0 || c.Lock.Wait < 0 || c.Lock.MaxHold < 0 || c.Lock.MinHold < 0 {
			t.Errorf("accepted %+v", c)
		}
		for name, l := range c.Limits {
			if _, err := l.Normal(); err != nil || name == "" {
				t.Errorf("accepted limit %q: %v", name, err)
			}
		}
	})
}
