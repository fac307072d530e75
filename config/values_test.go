package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coordgo/coord/config"
)

func values(c *config.Config) string {
	var b strings.Builder
	for _, v := range c.Values() {
		fmt.Fprintf(&b, "%s = %s (%s)\n", v.Key, v.Value, v.From)
	}
	return b.String()
}

// What is in force, and where each value is from.
func TestValues(t *testing.T) {
	path := file(t, whole)
	c, err := config.LoadEnv(t.Context(), path, environ{"COORD_LOCK_TTL": "1m", "COORD_URL_LOCKS": "etcd://e"}.lookup)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.ReplaceAll(values(c), path, "coord.yaml")
	want := `url.locks = etcd://e (COORD_URL_LOCKS)
url.limits = redis://xxxxx@localhost:6379/0?dial_timeout=1s (coord.yaml:2)
prefix = shop/ (coord.yaml:3)
require = per-hold-ttl, server-clock (coord.yaml:4)
failure_policy = open (coord.yaml:5)
best_effort = true (coord.yaml:6)
overrides = false (default)
lock.ttl = 1m0s (COORD_LOCK_TTL)
lock.wait = 10s (coord.yaml:7)
lock.max_hold = 5m0s (coord.yaml:7)
lock.min_hold = 1s (coord.yaml:7)
lock.fair = true (coord.yaml:7)
lock.renew = false (coord.yaml:7)
limits.api = 50/1s burst=5 (coord.yaml:12)
limits.mail = 100/1h burst=20 (coord.yaml:10)
limits.sms = 10/1s fixed-window (coord.yaml:11)
limits.supplier = 2000/1m (coord.yaml:9)
rules.health = /healthz (final) (coord.yaml:14)
rules.orders = POST,PUT /orders/{id} by user: 5/1s, 1000/1h, supplier (2000/1m) (coord.yaml:15)
rules.partners = RPC /shop.Orders/* by api-key X-Api-Key: 100/1m (coord.yaml:19)
rules.tenants = everything by header X-Tenant: 10/1s burst=20 (coord.yaml:20)
rules.addresses = everything by ip/56: 3/1s (coord.yaml:21)
rules.narrow = everything by ip: 30/1m (coord.yaml:22)
rules.batch = everything by constant batch: api (50/1s burst=5) (coord.yaml:23)
rules.all = everything by everyone: 500/1s (coord.yaml:24)
`
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// A lease is shown with its limit.
func TestValuesOfLeases(t *testing.T) {
	c, err := config.Parse("coord.yaml", []byte("limits: {a: {rate: 9, per: 1s, lease: true}, b: {rate: 8, per: 1s, lease: {max: 5, for: 20ms, lessees: 3}}, c: {rate: 7, per: 1s, lease: false}}"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"limits.a = 9/1s, leased (", "limits.b = 8/1s, leased max=5 for=20ms lessees=3 (", "limits.c = 7/1s ("} {
		if got := values(c); !strings.Contains(got, want) {
			t.Errorf("want %s in:\n%s", want, got)
		}
	}
}

func TestValuesOfNothing(t *testing.T) {
	c, err := config.Parse("coord.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	const want = `url = none (default)
prefix = none (default)
require = none (default)
failure_policy = closed (default)
best_effort = false (default)
overrides = false (default)
lock.ttl = 30s (default)
lock.wait = unbounded (default)
lock.max_hold = unbounded (default)
lock.min_hold = none (default)
lock.fair = false (default)
lock.renew = true (default)
`
	if got := values(c); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if err := c.SetURL("--url", "redis://u:s3cret@h"); err != nil {
		t.Fatal(err)
	}
	if got := values(c); !strings.HasPrefix(got, "url = redis://xxxxx@h (--url)\n") {
		t.Errorf("got:\n%s", got)
	}
}
