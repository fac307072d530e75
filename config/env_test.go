package config_test

import (
	"errors"
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

// environ is an environment of a test's own.
type environ map[string]string

func (e environ) lookup(name string) (string, bool) { v, ok := e[name]; return v, ok }

// file writes a file of that text and gives its path.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "coord.yaml")
	write(t, path, text)
	return path
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Every variable replaces its key.
func TestEnvironment(t *testing.T) {
	path := file(t, `
url: memory://
prefix: a/
require: [fair]
failure_policy: closed
best_effort: true
lock: {ttl: 1s, wait: 1s, max_hold: 1m, min_hold: 1s, fair: true, renew: true}
`)
	env := environ{
		"COORD_URL": "redis://h", "COORD_PREFIX": "7", "COORD_REQUIRE": "wake, scope-hosts", "COORD_FAILURE_POLICY": "open", "COORD_BEST_EFFORT": "false", "COORD_OVERRIDES": "true",
		"COORD_LOCK_TTL": "2s", "COORD_LOCK_WAIT": "3s", "COORD_LOCK_MAX_HOLD": "4s", "COORD_LOCK_MIN_HOLD": "5ms", "COORD_LOCK_FAIR": "false", "COORD_LOCK_RENEW": "false",
		"COORD_SERVE_LISTEN": "localhost:1", "COORD_SERVE_GRPC_LISTEN": "unix:/s", "COORD_SERVE_PLAINTEXT": "true", "COORD_SERVE_AD_HOC_LIMITS": "true", "COORD_SERVE_MAX_WAIT": "6s", "COORD_SERVE_DRAIN": "7s",
		"COORD_SERVE_PAGE": "none", "COORD_SERVE_MAX_HOLDS": "8", "COORD_SERVE_MAX_REQUESTS": "9", "COORD_SERVE_MAX_CONNECTIONS": "10",
		"COORD_LIMITS": "of no meaning", "COORD_LOCK": "backup", // as coord lock sets for its command
	}
	for _, path := range []string{path, ""} { // with a file, and alone
		c, err := config.LoadEnv(t.Context(), path, env.lookup)
		if err != nil {
			t.Fatal(err)
		}
		if c.URL != "redis://h" || c.Prefix != "7" || c.FailurePolicy != coord.FailOpen || c.BestEffort || !c.Overrides ||
			!reflect.DeepEqual(c.Require, []driver.Claim{driver.Wake, driver.ScopeHosts}) ||
			!reflect.DeepEqual(c.Serve, config.Serve{
				Listen: "localhost:1", GRPCListen: "unix:/s", Plaintext: true, AdHocLimits: true, Page: config.PageNone, MaxWait: 6 * time.Second, Drain: 7 * time.Second, MaxHolds: 8, MaxRequests: 9, MaxConnections: 10,
			}) ||
			c.Lock != (config.Lock{TTL: 2 * time.Second, Wait: 3 * time.Second, MaxHold: 4 * time.Second, MinHold: 5 * time.Millisecond, NoRenew: true}) {
			t.Errorf("%q: %+v", path, c)
		}
	}
	variables, keys := config.EnvVariables()
	for i, v := range variables {
		if env[v] == "" && !strings.HasPrefix(v, "COORD_URL_") {
			t.Errorf("%s, which replaces %s, is not tested", v, keys[i])
		}
	}
	if len(variables) != 24 || len(keys) != 24 {
		t.Errorf("%d variables of %d keys: %v", len(variables), len(keys), variables)
	}
}

// An empty variable is none.
func TestEnvironmentEmpty(t *testing.T) {
	path := file(t, "url: memory://\nprefix: a/\nlock: {ttl: 1s}\n")
	c, err := config.LoadEnv(t.Context(), path, environ{"COORD_URL": "", "COORD_PREFIX": "", "COORD_LOCK_TTL": ""}.lookup)
	if err != nil || c.URL != "memory://" || c.Prefix != "a/" || c.Lock.TTL != time.Second {
		t.Errorf("Load = %+v, %v", c, err)
	}
}

// Which store is whose, from the file and the environment.
func TestEnvironmentStores(t *testing.T) {
	const one, two = "url: file:///f\n", "url: {locks: file:///fl, limits: file:///fm}\n"
	for _, test := range []struct {
		text, url, locks, limits string // of the file and the environment
		want                     [3]config.URL
	}{
		{one, "", "", "", [3]config.URL{"file:///f"}},
		{two, "", "", "", [3]config.URL{"", "file:///fl", "file:///fm"}},
		{one, "file:///e", "", "", [3]config.URL{"file:///e"}},
		{two, "file:///e", "", "", [3]config.URL{"file:///e"}},
		{one, "", "file:///el", "", [3]config.URL{"", "file:///el", "file:///f"}},
		{one, "", "", "file:///em", [3]config.URL{"", "file:///f", "file:///em"}},
		{two, "", "file:///el", "", [3]config.URL{"", "file:///el", "file:///fm"}},
		{two, "", "", "file:///em", [3]config.URL{"", "file:///fl", "file:///em"}},
		{two, "file:///e", "", "file:///em", [3]config.URL{"", "file:///e", "file:///em"}},
		{"", "", "file:///el", "file:///em", [3]config.URL{"", "file:///el", "file:///em"}},
	} {
		env := environ{"COORD_URL": test.url, "COORD_URL_LOCKS": test.locks, "COORD_URL_LIMITS": test.limits}
		c, err := config.LoadEnv(t.Context(), file(t, test.text), env.lookup)
		if err != nil {
			t.Errorf("%+v: %v", test, err)
			continue
		}
		if got := [3]config.URL{c.URL, c.LocksURL, c.LimitsURL}; got != test.want {
			t.Errorf("%+v: %q", test, got)
		}
		if err := c.SetURL("--url", "file:///s"); err != nil || c.URL != "file:///s" || c.LocksURL != "" || c.LimitsURL != "" {
			t.Errorf("%+v: SetURL: %+v, %v", test, c, err)
		}
	}
}

func TestEnvironmentRefuses(t *testing.T) {
	const text = "url: memory://\nprefix: a/\nlock:\n  max_hold: 1m\n"
	for _, test := range []struct{ text, name, value, want string }{
		{text, "COORD_URL", "u:s3cret@h", "COORD_URL: no // after the scheme: want a form like redis://host:6379/0 or file:///var/lib/app/coord"},
		{text, "COORD_URL", "redis://h:${P}/", "COORD_URL: its port is not a number"},
		{text, "COORD_URL", "redis://u:s3cret@h?prefix=b/", `COORD_URL: prefix "b/" contradicts prefix "a/" in FILE:2`},
		{text, "COORD_URL_LOCKS", "redis://h?prefix=b/", `COORD_URL_LOCKS: prefix "b/" contradicts prefix "a/" in FILE:2`},
		{"", "COORD_URL_LOCKS", "redis://h", "COORD_URL_LOCKS: no store beside it: set COORD_URL_LIMITS or COORD_URL too"},
		{"", "COORD_URL_LIMITS", "redis://h", "COORD_URL_LIMITS: no store beside it: set COORD_URL_LOCKS or COORD_URL too"},
		{"url: redis://h?prefix=b/", "COORD_PREFIX", "a/", `COORD_PREFIX: prefix "a/" contradicts prefix "b/" in FILE:1`},
		{text, "COORD_PREFIX", strings.Repeat("x", 300), "COORD_PREFIX: 300 bytes: want at most 256 of UTF-8"},
		{text, "COORD_REQUIRE", "fair,, wake", `COORD_REQUIRE: "": want one of ` + allClaims},
		{text, "COORD_REQUIRE", "fair,fair", `COORD_REQUIRE: "fair" again`},
		{text, "COORD_FAILURE_POLICY", "Open", `COORD_FAILURE_POLICY: "Open": want closed or open`},
		{text, "COORD_BEST_EFFORT", "1", `COORD_BEST_EFFORT: "1": want true or false`},
		{text, "COORD_LOCK_FAIR", "yes", `COORD_LOCK_FAIR: "yes": want true or false`},
		{text, "COORD_LOCK_RENEW", "no", `COORD_LOCK_RENEW: "no": want true or false`},
		{text, "COORD_LOCK_TTL", "10", `COORD_LOCK_TTL: "10": want a duration such as 30s`},
		{text, "COORD_LOCK_WAIT", "-1s", `COORD_LOCK_WAIT: "-1s": want at least 1ns, at most 87840h0m0s`},
		{text, "COORD_LOCK_WAIT", "redis://u:s3cret@h", `COORD_LOCK_WAIT: "…": want a duration such as 30s`},
		{text, "COORD_LOCK_MIN_HOLD", "2m", "COORD_LOCK_MIN_HOLD: 2m0s is above 1m0s in FILE:4"},
		{"lock: {min_hold: 2m}", "COORD_LOCK_MAX_HOLD", "1m", "COORD_LOCK_MAX_HOLD: 1m0s is below 2m0s in FILE:1"},
	} {
		path := file(t, test.text)
		_, err := config.LoadEnv(t.Context(), path, environ{test.name: test.value}.lookup)
		if err == nil || strings.ReplaceAll(err.Error(), path, "FILE") != test.want || !errors.Is(err, coord.ErrInvalid) {
			t.Errorf("%s=%s\n got: %v\nwant: %s", test.name, test.value, err, test.want)
		}
	}
}

// Whatever a variable is set to, it is taken or refused in lines that name it.
func FuzzEnvironment(f *testing.F) {
	variables, _ := config.EnvVariables()
	for i := range variables {
		for _, value := range []string{"1", "true", "30s", "fair,wake", "open", "redis://u:${A}@h?prefix=x", "\xff\n"} {
			f.Add(uint8(i), value)
		}
	}
	f.Fuzz(func(t *testing.T, i uint8, value string) {
		name := variables[int(i)%len(variables)]
		c, err := config.LoadEnv(t.Context(), "", environ{name: value}.lookup)
		if err != nil {
			var e *config.Error
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if !errors.As(err, &e) || e.File != name || !strings.HasPrefix(line, name) || strings.Contains(line, "\r") {
					t.Errorf("%s=%q is refused as %q", name, value, err)
				}
			}
			return
		}
		for _, v := range c.Values() {
			if v.From != "default" && v.From != name {
				t.Errorf("%s=%q: %+v", name, value, v)
			}
		}
	})
}
