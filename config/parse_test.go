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
	"github.com/coordgo/coord/rules"
)

const whole = `# A shop.
url: redis://app:s3cret@localhost:6379/0?dial_timeout=1s
prefix: "shop/"
require: [per-hold-ttl, server-clock]
failure_policy: open
best_effort: true
lock: {ttl: 30s, wait: 10s, max_hold: 5m, min_hold: 1s, fair: true, renew: false}
limits:
  supplier: 2000/1m
  mail: 100/h burst=20
  sms: {rate: 10, per: 1s, algorithm: fixed-window}
  api: {rate: 50, per: 1s, burst: 5}
rules:
  - {name: health, match: {path: /healthz}, final: true}
  - name: orders
    match: {methods: [POST, PUT], path: "/orders/{id}"}
    subject: user
    limits: [5/1s, {rate: 1000, per: 1h}, supplier]
  - {name: partners, match: {rpc: /shop.Orders/*}, subject: {api_key: X-Api-Key}, limits: [100/1m]}
  - {name: tenants, subject: {header: X-Tenant}, limits: [10/1s burst=20]}
  - {name: addresses, subject: {ip: {ipv6_bits: 56}}, limits: [3/1s]}
  - {name: narrow, subject: ip, limits: [30/1m]}
  - {name: batch, subject: {constant: batch}, limits: [api]}
  - {name: all, subject: everyone, limits: [500/1s]}
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
	supplier, api := coord.PerMinute(2000), coord.Limit{Rate: 50, Per: time.Second, Burst: 5}
	check("URL", string(c.URL), "redis://app:s3cret@localhost:6379/0?dial_timeout=1s")
	check("Prefix", c.Prefix, "shop/")
	check("Require", c.Require, []driver.Claim{driver.PerHoldTTL, driver.ServerClock})
	check("FailurePolicy", c.FailurePolicy, coord.FailOpen)
	check("BestEffort", c.BestEffort, true)
	check("Lock", c.Lock, config.Lock{TTL: 30 * time.Second, Wait: 10 * time.Second, MaxHold: 5 * time.Minute, MinHold: time.Second, Fair: true, NoRenew: true})
	check("Limits", c.Limits, map[string]coord.Limit{
		"supplier": supplier,
		"mail":     {Rate: 100, Per: time.Hour, Burst: 20},
		"sms":      {Rate: 10, Per: time.Second, Algorithm: coord.FixedWindow},
		"api":      api,
	})
	unnamed := func(l coord.Limit) []rules.Limit { return []rules.Limit{{Limit: l}} }
	check("Rules", c.Rules.Rules(), []rules.Rule{
		{Name: "health", Match: rules.Match{Path: "/healthz"}, Final: true},
		{
			Name: "orders", Match: rules.Match{Methods: []string{"POST", "PUT"}, Path: "/orders/{id}"}, Subject: rules.User(),
			Limits: []rules.Limit{{Limit: coord.PerSecond(5)}, {Limit: coord.PerHour(1000)}, {Name: "supplier", Limit: supplier}},
		},
		{Name: "partners", Match: rules.Match{RPC: "/shop.Orders/*"}, Subject: rules.APIKey("X-Api-Key"), Limits: unnamed(coord.PerMinute(100))},
		{Name: "tenants", Subject: rules.Header("X-Tenant"), Limits: unnamed(coord.Limit{Rate: 10, Per: time.Second, Burst: 20})},
		{Name: "addresses", Subject: rules.Subject{Kind: rules.KindIP, IPv6Bits: 56}, Limits: unnamed(coord.PerSecond(3))},
		{Name: "narrow", Subject: rules.IP(), Limits: unnamed(coord.PerMinute(30))},
		{Name: "batch", Subject: rules.Constant("batch"), Limits: []rules.Limit{{Name: "api", Limit: api}}},
		{Name: "all", Limits: unnamed(coord.PerSecond(500))},
	})
}

// Two stores stand in the place of one.
func TestParseTwoStores(t *testing.T) {
	c, err := config.Parse("coord.yaml", []byte("url:\n  locks: etcd://e1,e2\n  limits: redis://r\n"))
	if err != nil || c.URL != "" || c.LocksURL != "etcd://e1,e2" || c.LimitsURL != "redis://r" {
		t.Errorf("Parse = %+v, %v", c, err)
	}
}

// Every key is optional, and so is all text.
func TestParseNothing(t *testing.T) {
	for _, text := range []string{"", "\n", "# nothing\n", "---\n", "null\n", "{}\n", "limits: {}\n", "rules: []\n"} {
		if c, err := config.Parse("coord.yaml", []byte(text)); err != nil || c.URL != "" || len(c.Limits) != 0 || len(c.Rules.Rules()) != 0 {
			t.Errorf("Parse(%q) = %v, %v", text, c, err)
		}
	}
}

const allClaims = "fair, wake, loss-push, per-hold-ttl, inspect, break, list, shared, vote, min-hold-after-exit, " +
	"token-process, token-restart, token-clock-seeded, token-failover, " +
	"durable-restart, durable-failover, no-eviction, server-clock, atomic-multi, reserve, charge, " +
	"scope-process, scope-machine, scope-hosts"

// refusals are texts that Parse refuses, and how.
func refusals() []struct{ text, want string } {
	const (
		misplaced = "a ${…} outside of the password: it stands for a password alone, in user:${…}@host or in a parameter such as sentinel_password=${…}"
		subjects  = "everyone, ip, user, or one of {ip: {ipv6_bits: 56}}, {header: NAME}, {api_key: HEADER}, {cookie: NAME}, {path: NAME}, {constant: NAME}, {func: NAME}"
	)
	long := strings.Repeat("x", 300)
	return []struct{ text, want string }{
		// The text as such.
		{"url: [\n", "coord.yaml:2: not YAML: did not find expected node content"},
		{"prefix: a\nrequire: b: c", "coord.yaml:2: not YAML: mapping values are not allowed in this context"},
		{"prefix: a\n\nrequire: [a\nlock: }\n", "coord.yaml:3: not YAML: did not find expected ',' or ']'"},
		{"a: b: c", "coord.yaml: not YAML: mapping values are not allowed in this context"},
		{"lock:\n\tttl: 5s\n", "coord.yaml:2: not YAML: found character that cannot start any token: a tab? Indent with spaces"},
		{"\x00", "coord.yaml: not YAML: control characters are not allowed"},
		{"url: memory://\n---\nurl: memory://\n", "coord.yaml:2: a second document: want one"},
		{"url: memory://\n---\n[\n", "coord.yaml:4: not YAML: did not find expected node content"},
		{"hello", `coord.yaml:1: "hello": want a mapping`},
		{"- a", "coord.yaml:1: a list: want a mapping"},
		{"lock: &l {ttl: 1s}", "coord.yaml:1: an anchor or alias: write the value out"},
		{"lock: !mine {ttl: 1s}", `coord.yaml:1: lock: a mapping tagged "!mine": want a mapping`},
		{"urll: memory://", `coord.yaml:1: unknown key "urll": want one of url, quorum, prefix, require, failure_policy, best_effort, overrides, lock, serve, limits, rules`},
		{"prefix: a\n\nprefix: b\n", `coord.yaml:3: key "prefix" again: it is on line 1`},
		{"1: a", `coord.yaml:1: key "1": want a name`},
		{"[a]: b", "coord.yaml:1: key a list: want a name"},
		{"\"\": b", `coord.yaml:1: key "": want a name`},
		{"redis://u:s3cret@h: b", `coord.yaml:1: unknown key "…": want one of url, quorum, prefix, require, failure_policy, best_effort, overrides, lock, serve, limits, rules`},

		// url never shows its value.
		{"url: 7", "coord.yaml:1: url: not a string: want a URL such as redis://host:6379/0, or a mapping of locks and limits with one each"},
		{"url: [redis://u:s3cret@h]", "coord.yaml:1: url: not a string: want a URL such as redis://host:6379/0, or a mapping of locks and limits with one each"},
		{"url: s3cret", "coord.yaml:1: url: not a URL: want a form like redis://host:6379/0 or file:///var/lib/app/coord"},
		{"url: redis://u:s3cret@h:bad", "coord.yaml:1: url: its port is not a number"},
		{"url: 'redis://u:s3cret@[::1]:1,[::2'", "coord.yaml:1: url: not a URL: want a form like redis://host:6379/0 or file:///var/lib/app/coord"},
		{"url: redis:s3cret", "coord.yaml:1: url: no // after the scheme: want a form like redis://host:6379/0 or file:///var/lib/app/coord"},
		{"url: file:/var/lib/x", "coord.yaml:1: url: no // after the scheme: want a form like redis://host:6379/0 or file:///var/lib/app/coord"},
		{"url: redis://h?p=%zz", "coord.yaml:1: url: malformed query: want a form like redis://host:6379/0 or file:///var/lib/app/coord"},
		{"url: redis://u:s3cret@h?prefix=a\nprefix: b\n", `coord.yaml:2: prefix: prefix "b" contradicts prefix "a" in url`},

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
		{"lock: {lease: 30s}", `coord.yaml:1: lock: unknown key "lease": want one of ttl, wait, max_hold, min_hold, fair, renew`},
		{"serve: 1", `coord.yaml:1: serve: "1": want a mapping`},
		{"serve: {listen: nowhere}", `coord.yaml:1: serve.listen: "nowhere": want host:port such as 127.0.0.1:8470, or unix:/path`},
		{"serve: {listen: 'a:b'}", `coord.yaml:1: serve.listen: "a:b": want host:port such as 127.0.0.1:8470, or unix:/path`},
		{"serve: {listen: 'unix:'}", `coord.yaml:1: serve.listen: "unix:": want host:port such as 127.0.0.1:8470, or unix:/path`},
		{"serve: {listen: 'h:99999'}", `coord.yaml:1: serve.listen: "h:99999": want host:port such as 127.0.0.1:8470, or unix:/path`},
		{"serve: {listen: 10}", `coord.yaml:1: serve.listen: "10": want host:port such as 127.0.0.1:8470, or unix:/path`},
		{"serve: {envoy: {}}", "coord.yaml:1: serve.envoy: no files: want a list such as [/etc/ratelimit]"},
		{"serve: {envoy: {files: []}}", "coord.yaml:1: serve.envoy.files: a list: want a list of files and directories such as [/etc/ratelimit]"},
		{"serve: {envoy: {files: ['']}}", "coord.yaml:1: serve.envoy.files.0: an empty path: want that of a file or a directory"},
		{"serve: {envoy: {files: [7]}}", `coord.yaml:1: serve.envoy.files.0: "7": want the path of a file or a directory`},
		{"serve: {envoy: {files: [a], shadow: 1}}", `coord.yaml:1: serve.envoy.shadow: "1": want true or false`},
		{"serve: {max_wait: 0s}", `coord.yaml:1: serve.max_wait: "0s": want at least 1ms, at most 24h0m0s`},
		{"serve: {drain: 25h}", `coord.yaml:1: serve.drain: "25h": want at least 1ms, at most 24h0m0s`},
		{"serve: {max_holds: 0}", `coord.yaml:1: serve.max_holds: "0": want 1 to 1000000`},
		{"serve: {max_holds: '5'}", `coord.yaml:1: serve.max_holds: "5": want 1 to 1000000`},
		{"serve: {max_requests: 2000000}", `coord.yaml:1: serve.max_requests: "2000000": want 1 to 1000000`},
		{"serve: {page: act}", "coord.yaml:1: serve.page: act without callers: nobody has the right break: want callers"},
		{"serve: {page: off}", `coord.yaml:1: serve.page: "off": want none, read or act`},
		{"serve: {page: true}", `coord.yaml:1: serve.page: "true": want none, read or act`},
		{"serve: {ad_hoc_limits: yes}", `coord.yaml:1: serve.ad_hoc_limits: "yes": want true or false`},
		{"serve: {listen: '0.0.0.0:1'}", `coord.yaml:1: serve.listen: "0.0.0.0:1": other machines can connect: want callers`},
		{"serve: {grpc_listen: '0.0.0.0:1'}", `coord.yaml:1: serve.grpc_listen: "0.0.0.0:1": other machines can connect: want callers`},
		{"serve: {listen: '0.0.0.0:1', callers: [{name: a, token: b, allow: [{rights: [read]}]}]}", `coord.yaml:1: serve.listen: "0.0.0.0:1": other machines can connect: want tls, or plaintext: true`},
		{"serve: {tls: {certificate: a}}", `coord.yaml:1: serve.tls: certificate or key alone: want both`},
		{"serve: {tls: {certificate: a, key: b, client_ca: c}}", `coord.yaml:1: serve.tls: client_ca without callers lets everybody in: want callers`},
		{"serve: {tls: {client_ca: a}}", `coord.yaml:1: serve.tls: client_ca without certificate and key`},
		{"serve: {callers: []}", `coord.yaml:1: serve.callers: a list: want a list such as [{name: web, token: "${WEB_TOKEN}", allow: [{prefix: web/, rights: [lock]}]}]`},
		{"serve: {callers: [{token: b, allow: [{rights: [read]}]}]}", `coord.yaml:1: serve.callers.0: no name`},
		{"serve: {callers: [{name: a b, token: b, allow: [{rights: [read]}]}]}", `coord.yaml:1: serve.callers.0.name: "a b": want 1 to 64 bytes of printable ASCII without spaces`},
		{"serve: {callers: [{name: a, token: b, allow: [{rights: [read]}]}, {name: a, token: b, allow: [{rights: [read]}]}]}", `coord.yaml:1: serve.callers.1: name "a" again`},
		{"serve: {callers: [{name: a, allow: [{rights: [read]}]}]}", `coord.yaml:1: serve.callers.0: want a token or a certificate`},
		{"serve: {callers: [{name: a, token: s3cret, certificate: c, allow: [{rights: [read]}]}]}", `coord.yaml:1: serve.callers.0: want a token or a certificate`},
		{
			"serve: {callers: [{name: a, certificate: c, allow: [{rights: [read]}]}, {name: b, certificate: c, allow: [{rights: [lock]}]}]}",
			`coord.yaml:1: serve.callers.1: certificate "c" again`,
		},
		{"serve: {callers: [{name: a, certificate: c, allow: [{rights: [read]}]}]}", `coord.yaml:1: serve.callers.0: a certificate without tls.client_ca`},
		{"serve: {callers: [{name: a, token: [s3cret], allow: [{rights: [read]}]}]}", `coord.yaml:1: serve.callers.0.token: want a string, ${NAME} or ${file:/path}`},
		{"serve: {callers: [{name: a, token: 's3cret${B}', allow: [{rights: [read]}]}]}", `coord.yaml:1: serve.callers.0.token: want ${NAME} or ${file:/path} alone`},
		{"serve: {callers: [{name: a, token: b}]}", `coord.yaml:1: serve.callers.0: no allow: want a list of prefix and rights`},
		{"serve: {callers: [{name: a, token: b, allow: []}]}", `coord.yaml:1: serve.callers.0.allow: a list: want a list such as [{prefix: web/, rights: [lock, take]}]`},
		{"serve: {callers: [{name: a, token: b, allow: [{prefix: x}]}]}", `coord.yaml:1: serve.callers.0.allow.0: no rights: want some of read, take, lock, break`},
		{"serve: {callers: [{name: a, token: b, allow: [{rights: [write]}]}]}", `coord.yaml:1: serve.callers.0.allow.0.rights.0: "write": want one of read, take, lock, break`},
		{"url: memory://\nlock:\n  ttl: 10\n", `coord.yaml:3: lock.ttl: "10": want a duration such as 30s`},
		{"lock: {ttl: [1s]}", `coord.yaml:1: lock.ttl: a list: want a duration such as 30s`},
		{"lock: {ttl: }", `coord.yaml:1: lock.ttl: nothing: want a duration such as 30s`},
		{"lock: {ttl: 1 day}", `coord.yaml:1: lock.ttl: "1 day": want a duration such as 30s`},
		{"lock: {ttl: 0}", `coord.yaml:1: lock.ttl: "0": want at least 1ns, at most 87840h0m0s`},
		{"lock: {wait: -1s}", `coord.yaml:1: lock.wait: "-1s": want at least 1ns, at most 87840h0m0s`},
		{"lock: {max_hold: 99999h}", `coord.yaml:1: lock.max_hold: "99999h": want at least 1ns, at most 87840h0m0s`},
		{"lock: {ttl: 'redis://u:s3cret@h'}", `coord.yaml:1: lock.ttl: "…": want a duration such as 30s`},
		{"lock: {ttl: " + long + "}", `coord.yaml:1: lock.ttl: "` + long[:60] + `…": want a duration such as 30s`},
		{"lock:\n  min_hold: 2m\n  max_hold: 1m\n", `coord.yaml:2: lock.min_hold: 2m0s is above 1m0s in lock.max_hold`},

		{"limits: 2000/1m", `coord.yaml:1: limits: "2000/1m": want a mapping`},
		{"limits: {a: 2000}", `coord.yaml:1: limits.a: "2000": want a form like 2000/1m, or a mapping of rate, per, burst, algorithm`},
		{"limits: {a: [1/1s]}", `coord.yaml:1: limits.a: a list: want a form like 2000/1m, or a mapping of rate, per, burst, algorithm`},
		{"limits: {a: 'redis://u:s3cret@h'}", `coord.yaml:1: limits.a: "…": want a form like 2000/1m, or a mapping of rate, per, burst, algorithm`},
		{"limits: {a: 2000/1x}", `coord.yaml:1: limits.a: limit "2000/1x": period "1x" is not a duration: want one, such as 1s, 5m, 1h or 1d`},
		{"limits: {a: 0/1m}", `coord.yaml:1: limits.a: limit "0/1m": rate 0: want 1 to 1000000000000`},
		{"limits: {a: 1/1m burst=2 fixed-window}", `coord.yaml:1: limits.a: limit "1/1m burst=2 fixed-window": burst 2 with fixed-window: only a token-bucket has a burst`},
		{"limits:\n  a: 1/1s\n  a: 2/1s\n", `coord.yaml:3: limits: key "a" again: it is on line 2`},
		{"limits: {a: {per: 1m}}", `coord.yaml:1: limits.a: no rate: want a number of permits such as 2000`},
		{"limits: {a: {rate: 5}}", `coord.yaml:1: limits.a: no per: want a duration such as 1m`},
		{"limits: {a: {rate: 5, per: 1m, brust: 2}}", `coord.yaml:1: limits.a: unknown key "brust": want one of rate, per, burst, algorithm, lease`},
		{"limits: {a: {rate: 5.5, per: 1m}}", `coord.yaml:1: limits.a.rate: "5.5": want a whole number from 1 to 1000000000000`},
		{"limits: {a: {rate: -5, per: 1m}}", `coord.yaml:1: limits.a.rate: "-5": want a whole number from 1 to 1000000000000`},
		{"limits: {a: {rate: '5', per: 1m}}", `coord.yaml:1: limits.a.rate: "5": want a whole number from 1 to 1000000000000`},
		{"limits: {a: {rate: 5, per: 1m, lease: 5}}", `coord.yaml:1: limits.a.lease: "5": want true, false, or a mapping of max, for, lessees`},
		{"limits: {a: {rate: 5, per: 1m, lease: 'true'}}", `coord.yaml:1: limits.a.lease: "true": want true, false, or a mapping of max, for, lessees`},
		{"limits: {a: {rate: 5, per: 1m, lease: {most: 5}}}", `coord.yaml:1: limits.a.lease: unknown key "most": want one of max, for, lessees`},
		{"limits: {a: {rate: 5, per: 1m, lease: {max: 0}}}", `coord.yaml:1: limits.a.lease.max: "0": want a whole number from 1 to 1000000000000`},
		{"limits: {a: {rate: 5, per: 1m, lease: {for: 1m}}}", `coord.yaml:1: limits.a.lease.for: "1m": want at least 1ms, at most 10s`},
		{"limits: {a: {rate: 5, per: 1m, lease: {lessees: 2000000}}}", `coord.yaml:1: limits.a.lease.lessees: "2000000": want a whole number from 1 to 1000000`},
		{"limits:\n  a: 5/1m\n  b: {rate: 5, per: 1m, lease: true}\n", `coord.yaml:3: limits.b: the same limit as limits.a with another lease: a lease is of a limit, whatever its name`},
		{"rules: [{name: a, limits: [{rate: 5, per: 1m, lease: true}]}]", `coord.yaml:1: rules.a.limits: unknown key "lease": want one of rate, per, burst, algorithm`},
		{"limits: {a: {rate: 5, per: 1m, burst: 0}}", `coord.yaml:1: limits.a.burst: "0": want a whole number from 1 to 1000000000000`},
		{"limits: {a: {rate: 5, per: 1us}}", `coord.yaml:1: limits.a.per: "1us": want at least 1ms, at most 8784h0m0s`},
		{"limits: {a: {rate: 5, per: 1500001ns}}", `coord.yaml:1: limits.a: period 1.500001ms: want whole microseconds`},
		{"limits: {a: {rate: 5, per: 1m, algorithm: leaky}}", `coord.yaml:1: limits.a.algorithm: "leaky": want sliding-window, token-bucket or fixed-window`},
		{"limits: {a: {rate: 5, per: 1m, algorithm: 1}}", `coord.yaml:1: limits.a.algorithm: "1": want sliding-window, token-bucket or fixed-window`},
		{"limits:\n  a:\n    rate: 5\n    per: 1m\n    burst: 9\n    algorithm: sliding-window\n", `coord.yaml:3: limits.a: burst 9 with sliding-window: only a token-bucket has a burst`},
		{"limits: {" + long + ": 1/1s}", `coord.yaml:1: limits: name "` + long[:60] + `…": want 1 to 100 bytes of printable UTF-8`},
		{`limits: {"a\x07": 1/1s}`, `coord.yaml:1: limits: name "a\a": want 1 to 100 bytes of printable UTF-8`},

		// Two stores.
		{"url: {locks: 'redis://h'}", "coord.yaml:1: url: no limits: want a store for each of locks and limits"},
		{"url:\n  limits: redis://h\n", "coord.yaml:2: url: no locks: want a store for each of locks and limits"},
		{"url: {}", "coord.yaml:1: url: no locks: want a store for each of locks and limits"},
		{"url:\n  lock: redis://h\n", `coord.yaml:2: url: unknown key "lock": want one of locks, limits`},
		{"url:\n  locks: 7\n", "coord.yaml:2: url.locks: not a string: want a URL such as redis://host:6379/0"},
		{"url:\n  locks: redis://u:s3cret@h:x\n", "coord.yaml:2: url.locks: its port is not a number"},
		{"url:\n  locks: redis://h?prefix=a\n  limits: redis://h?prefix=b\n", `coord.yaml:2: url.locks: prefix "a" contradicts prefix "b" in url.limits`},

		// References to secrets.
		{"url: 'redis://u:${PASSWORD@h'", "coord.yaml:1: url: a ${ that does not end: want ${NAME} or ${file:/path}"},
		{"url: 'redis://u:${}@h'", "coord.yaml:1: url: a malformed ${…}: want ${NAME}, of the environment, or ${file:/path}"},
		{"url: 'redis://u:${PASS WORD}@h'", "coord.yaml:1: url: a malformed ${…}: want ${NAME}, of the environment, or ${file:/path}"},
		{"url: 'redis://u:${file:}@h'", "coord.yaml:1: url: a malformed ${…}: want ${NAME}, of the environment, or ${file:/path}"},
		{"url: 'redis://${HOST}/0'", "coord.yaml:1: url: " + misplaced},
		{"url: 'redis://${USER}:p@h/0'", "coord.yaml:1: url: " + misplaced},
		{"url: 'redis://h/${DB}'", "coord.yaml:1: url: " + misplaced},
		{"url: 'redis://h/?client_name=${NAME}'", "coord.yaml:1: url: " + misplaced},
		{"url: 'redis://h/?${NAME}=1'", "coord.yaml:1: url: " + misplaced},
		{"url: '${URL}'", "coord.yaml:1: url: not a URL: want a form like redis://host:6379/0 or file:///var/lib/app/coord"},

		{"best_effort: yes", `coord.yaml:1: best_effort: "yes": want true or false`},
		{"best_effort: 'true'", `coord.yaml:1: best_effort: "true": want true or false`},
		{"lock: {fair: 1}", `coord.yaml:1: lock.fair: "1": want true or false`},
		{"lock: {renew: [true]}", `coord.yaml:1: lock.renew: a list: want true or false`},

		// Rules.
		{"rules: {a: {}}", "coord.yaml:1: rules: a mapping: want a list of rules"},
		{"rules:", "coord.yaml:1: rules: nothing: want a list of rules"},
		{"rules:\n- 5/1s\n", `coord.yaml:2: rules[1]: "5/1s": want a mapping`},
		{"rules:\n- limits: [5/1s]\n", "coord.yaml:2: rules[1]: no name: want one, which also tells the store's accounts of the rule from others'"},
		{"rules:\n- name: 7\n", `coord.yaml:2: rules[1].name: "7": want a name such as orders`},
		{"rules:\n- name: ''\n", `coord.yaml:2: rules[1]: name "": want 1 to 100 bytes of printable UTF-8`},
		{"rules:\n- {name: a, final: true, match: {path: /}}\n- {name: a, limits: [1/1s]}\n", `coord.yaml:3: rules[2].name: "a" again: it is on line 2`},
		{"rules:\n- {name: a, limit: 5/1s}\n", `coord.yaml:2: rules.a: unknown key "limit": want one of name, match, subject, limits, cost, failure_policy, final, shadow`},
		{"rules:\n- name: a\n  name: b\n", `coord.yaml:3: rules.a: key "name" again: it is on line 2`},
		{"rules:\n- name: a\n", "coord.yaml:2: rules.a: neither limits nor final: true: it does nothing"},
		{"rules:\n- {name: a, final: false}\n", "coord.yaml:2: rules.a: neither limits nor final: true: it does nothing"},
		{"rules:\n- {name: a, final: 1}\n", `coord.yaml:2: rules.a.final: "1": want true or false`},
		{"rules:\n- {name: a, final: true}\n- {name: b, limits: [1/1s]}\n", `coord.yaml:3: rules.b: never applies: rule "a" on line 2 is final and matches everything`},
		{"rules: [" + strings.Repeat("{},", 256) + "{}]", "coord.yaml:1: rules: 257 rules: want at most 256"},

		{"rules:\n- name: a\n  match: /orders\n", `coord.yaml:3: rules.a.match: "/orders": want a mapping`},
		{"rules:\n- name: a\n  match: {method: GET}\n", `coord.yaml:3: rules.a.match: unknown key "method": want one of methods, path, exact_slash, rpc, networks, except_networks`},
		{"rules:\n- name: a\n  match: {methods: GET}\n", `coord.yaml:3: rules.a.match.methods: "GET": want a list such as [GET, POST]`},
		{"rules:\n- name: a\n  match: {methods: []}\n", "coord.yaml:3: rules.a.match.methods: an empty list: want a list such as [GET, POST], or leave it out"},
		{"rules:\n- name: a\n  match:\n    methods:\n    - GET\n    - get\n", `coord.yaml:6: rules.a.match.methods: method "get": want capitals, such as GET`},
		{"rules:\n- name: a\n  match: {methods: [GETT]}\n", `coord.yaml:3: rules.a.match.methods: method "GETT": want a method of IANA's registry, such as GET`},
		{"rules:\n- name: a\n  match: {methods: [GET, GET]}\n", `coord.yaml:3: rules.a.match.methods: "GET" again`},
		{"rules:\n- name: a\n  match: {methods: [1]}\n", `coord.yaml:3: rules.a.match.methods: "1": want a method such as GET`},
		{"rules:\n- name: a\n  match: {path: orders}\n", `coord.yaml:3: rules.a.match.path: path "orders": want it to begin with /`},
		{"rules:\n- name: a\n  match: {path: ''}\n", `coord.yaml:3: rules.a.match.path: "": want a pattern such as /orders/{id}, or leave it out`},
		{"rules:\n- name: a\n  match: {path: /a//b}\n", `coord.yaml:3: rules.a.match.path: path "/a//b": want it without empty, . and .. segments`},
		{"rules:\n- name: a\n  match: {path: '/{a}/{a}'}\n", `coord.yaml:3: rules.a.match.path: path "/{a}/{a}": {a} twice`},
		{"rules:\n- name: a\n  match: {path: 'redis://u:s3cret@h'}\n", `coord.yaml:3: rules.a.match.path: "…": want no URL`},
		{"rules:\n- name: a\n  match: {rpc: shop.Orders}\n", `coord.yaml:3: rules.a.match.rpc: rpc "shop.Orders": want /package.Service/Method, with * at the end or nowhere`},
		{"rules:\n- name: a\n  match: {rpc: 7}\n", `coord.yaml:3: rules.a.match.rpc: "7": want a pattern such as /shop.Orders/*`},
		{"rules:\n- name: a\n  match: {rpc: /a/b, path: /a}\n", `coord.yaml:3: rules.a.match: a match by rpc and by method or path: no request has both`},

		{"rules:\n- name: a\n  subject: session\n", `coord.yaml:3: rules.a.subject: "session": want ` + subjects},
		{"rules:\n- name: a\n  subject: [ip]\n", `coord.yaml:3: rules.a.subject: 1 subjects combined: want 2 to 4`},
		{"rules:\n- name: a\n  subject: []\n", `coord.yaml:3: rules.a.subject: an empty list: want a list of 2 to 4 different subjects, such as [user, {header: X-Tenant}], or leave it out`},
		{"rules:\n- name: a\n  subject: [ip, [user]]\n", `coord.yaml:3: rules.a.subject: a list in a list: want a list of 2 to 4 different subjects, such as [user, {header: X-Tenant}]`},
		{"rules:\n- name: a\n  subject: [user, user]\n", `coord.yaml:3: rules.a.subject: subject "user" twice in one combination`},
		{"rules:\n- name: a\n  subject: [user, everyone]\n", `coord.yaml:3: rules.a.subject: subject "everyone" as a part of another: want one of ip, header, user, api-key, cookie, path, constant, func`},
		{"rules:\n- name: a\n  subject: {}\n", `coord.yaml:3: rules.a.subject: 0 keys: want ` + subjects},
		{"rules:\n- name: a\n  subject: {header: A, constant: b}\n", `coord.yaml:3: rules.a.subject: 2 keys: want ` + subjects},
		{"rules:\n- name: a\n  subject: {query: A}\n", `coord.yaml:3: rules.a.subject: unknown key "query": want one of ip, header, api_key, cookie, path, func, constant`},
		{"rules:\n- name: a\n  subject: {header: 1}\n", `coord.yaml:3: rules.a.subject.header: "1": want a name`},
		{"rules:\n- name: a\n  subject: {api_key: ''}\n", `coord.yaml:3: rules.a.subject.api_key: name "": want 1 to 100 bytes of printable UTF-8`},
		{"rules:\n- name: a\n  subject: {ip: 56}\n", `coord.yaml:3: rules.a.subject.ip: "56": want a mapping`},
		{"rules:\n- name: a\n  subject: {ip: {ipv6_bits: 129}}\n", `coord.yaml:3: rules.a.subject.ip.ipv6_bits: "129": want a whole number from 1 to 128`},
		{"rules:\n- name: a\n  subject: {ip: {bits: 56}}\n", `coord.yaml:3: rules.a.subject.ip: unknown key "bits": want one of ipv6_bits`},

		{"rules:\n- name: a\n  subject: {cookie: a b}\n", `coord.yaml:3: rules.a.subject.cookie: cookie "a b": want a name without spaces, = and the like (RFC 6265)`},
		{"rules:\n- name: a\n  match: {rpc: /a.B/C}\n  limits: [1/1s]\n  subject: {cookie: a}\n", `coord.yaml:5: rules.a.subject: subject "cookie a" of a rule by rpc: calls of gRPC have no cookies`},
		{"rules:\n- name: a\n  subject: {path: id}\n  limits: [1/1s]\n  match: {path: /orders/}\n", `coord.yaml:3: rules.a.subject: subject "path id": path "/orders/" has no {id}: want a rule by a path such as /orders/{id}`},
		{"rules:\n- name: a\n  subject:\n  - user\n  - {path: no}\n  final: true\n", `coord.yaml:4: rules.a.subject: subject "path no": path "" has no {no}: want a rule by a path such as /orders/{id}`},
		{"rules:\n- name: a\n  subject: [{path: id}, {path: id}]\n", `coord.yaml:3: rules.a.subject: subject "path id" twice in one combination`},
		{"rules:\n- name: a\n  subject: {path: 9x}\n", `coord.yaml:3: rules.a.subject.path: path "/{9x}": {9x}: want a name of letters, digits and _`},

		{"rules:\n- name: a\n  match: {networks: 10.0.0.0/8}\n", `coord.yaml:3: rules.a.match.networks: "10.0.0.0/8": want a list such as [10.0.0.0/8, 2001:db8::/32]`},
		{"rules:\n- name: a\n  match: {networks: []}\n", `coord.yaml:3: rules.a.match.networks: an empty list: want a list such as [10.0.0.0/8, 2001:db8::/32], or leave it out`},
		{"rules:\n- name: a\n  match:\n    networks:\n    - 10.0.0.0/8\n    - 10.0.0.1/8\n", `coord.yaml:6: rules.a.match.networks: "10.0.0.1/8": want 10.0.0.0/8`},
		{"rules:\n- name: a\n  match: {except_networks: [10.0.0.0/33]}\n", `coord.yaml:3: rules.a.match.except_networks: "10.0.0.0/33": want a network such as 10.0.0.0/8, or an address`},
		{"rules:\n- name: a\n  match: {except_networks: ['::ffff:10.0.0.0/104']}\n", `coord.yaml:3: rules.a.match.except_networks: "::ffff:10.0.0.0/104": want it in the form of IPv4, such as 10.0.0.0/8`},
		{"rules:\n- name: a\n  match: {except_networks: [10.0.0.1, 10.0.0.1/32]}\n", `coord.yaml:3: rules.a.match.except_networks: "10.0.0.1/32" again`},
		{"rules:\n- name: a\n  match: {except_networks: ['fe80::1%eth0', 7]}\n", `coord.yaml:3: rules.a.match.except_networks: "fe80::1%eth0": want a network such as 10.0.0.0/8, or an address` + "\n" + `coord.yaml:3: rules.a.match.except_networks: "7": want a network such as 10.0.0.0/8`},
		{"rules:\n- name: a\n  failure_policy: half\n", `coord.yaml:3: rules.a.failure_policy: "half": want closed or open`},
		{"rules:\n- name: a\n  shadow: yes\n", `coord.yaml:3: rules.a.shadow: "yes": want true or false`},
		{"rules:\n- {name: a, shadow: true}\n", "coord.yaml:2: rules.a: neither limits nor final: true: it does nothing"},
		{"rules:\n- {name: a, shadow: true, final: true, limits: [1/1s]}\n", "coord.yaml:2: rules.a: shadow: true and final: true: want one of the two"},

		{"rules:\n- name: a\n  limits: 5/1s\n", `coord.yaml:3: rules.a.limits: "5/1s": want a list such as [5/1s, 1000/1h] or of names of limits`},
		{"rules:\n- name: a\n  limits: []\n", "coord.yaml:3: rules.a.limits: an empty list: want a list such as [5/1s, 1000/1h] or of names of limits, or leave it out"},
		{"rules:\n- name: a\n  limits: [supplier]\n", `coord.yaml:3: rules.a.limits: no limit "supplier": there are none`},
		{"limits: {b: 1/1s, c: 1/1s}\nrules:\n- name: a\n  limits: [d]\n", `coord.yaml:4: rules.a.limits: no limit "d": want one of b, c`},
		{"rules:\n- name: a\n  limits: ['5/1x']\n", `coord.yaml:3: rules.a.limits: limit "5/1x": period "1x" is not a duration: want one, such as 1s, 5m, 1h or 1d`},
		{"rules:\n- name: a\n  limits: [7]\n", `coord.yaml:3: rules.a.limits: "7": want a form like 2000/1m, or a mapping of rate, per, burst, algorithm`},
		{"rules:\n- name: a\n  limits: [{rate: 7}]\n", "coord.yaml:3: rules.a.limits: no per: want a duration such as 1m"},
		{"rules:\n- name: a\n  limits: ['redis://u:s3cret@h']\n", `coord.yaml:3: rules.a.limits: "…": want a form like 2000/1m, or a mapping of rate, per, burst, algorithm`},
		{"rules:\n- name: a\n  limits: [5/1s, 6/1s]\n", `coord.yaml:3: rules.a.limits: 5/1s and 6/1s would be one account: give them different names`},
		{"rules:\n- name: a\n  limits: [" + strings.Repeat("5/1s,", 65) + "]\n", "coord.yaml:3: rules.a.limits: more than 64 limits in all rules"},
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range refusals() {
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
		"redis://u:s3cret@h?prefix=b%2F": fmt.Sprintf("COORD_URL: prefix \"b/\" contradicts prefix \"a/\" in %s:2", path),
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

// FuzzParse: what is accepted is in range, what is refused says so in one
// line for each mistake, and nothing panics.
func FuzzParse(f *testing.F) {
	s := compiled(f)
	f.Add([]byte(whole))
	for _, text := range accepted {
		f.Add([]byte(text))
	}
	for _, r := range refusals() {
		f.Add([]byte(r.text))
	}
	for _, text := range []string{"", "a: &x [*x]", "lock: {ttl: 10}", "limits: {a: {rate: 1, per: 1s}}", "- -\n- ?", "? |\n  url\n: x", "\xff\xfe", "url: !!binary aGk="} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := config.Parse("coord.yaml", text)
		if err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if !errors.Is(err, coord.ErrInvalid) || !strings.HasPrefix(line, "coord.yaml") || strings.Contains(line, "\r") {
					t.Errorf("refused as %q", err)
				}
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
		if _, err := rules.New(c.Rules.Rules()...); err != nil {
			t.Errorf("accepted rules: %v", err)
		}
		for _, v := range c.Values() {
			if v.Key == "" || v.Value == "" || v.From == "" {
				t.Errorf("accepted %+v", v)
			}
		}
		v, err := instance(text)
		if err != nil {
			t.Fatalf("%q is accepted, and is no JSON: %v", text, err)
		}
		if err := s.Validate(v); err != nil {
			t.Errorf("%q is accepted, but not by the schema: %v", text, err)
		}
	})
}
