package config_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/config"
)

// All mistakes of a file are told at once, in the order of its lines, and none twice: a rule that names a limit with a
// mistake has none of its own.
func TestAllMistakes(t *testing.T) {
	const text = `url: redis:s3cret@h
rules:
  - name: orders
    limits: [supplier, nosuch, 5/1x]
  - name: orders
    subject: nobody
require: [wake, flying, wake]
lock: {ttl: 10, color: red, wait: -1s}
limits:
  supplier: 2000/1x
  partner: {rate: 0, per: 1y}
  tenant: 5/min
failure_policy: ajar
`
	path := file(t, text)
	_, err := config.LoadEnv(t.Context(), path, environ{"COORD_LOCK_TTL": "soon", "COORD_URL": "s3cret"}.lookup)
	want := strings.Join([]string{
		"FILE:1: url: no // after the scheme: want a form like redis://host:6379/0 or file:///var/lib/app/coord",
		"FILE:4: rules.orders.limits: no limit \"nosuch\": want one of tenant",
		"FILE:4: rules.orders.limits: limit \"5/1x\": period \"1x\" is not a duration: want one, such as 1s, 5m, 1h or 1d",
		"FILE:6: rules.orders.subject: \"nobody\": want everyone, ip, user, or one of {ip: {ipv6_bits: 56}}, {header: NAME}, {api_key: HEADER}, {cookie: NAME}, {path: NAME}, {constant: NAME}, {func: NAME}",
		"FILE:7: require: \"flying\": want one of " + allClaims,
		"FILE:7: require: \"wake\" again",
		"FILE:8: lock.ttl: \"10\": want a duration such as 30s",
		"FILE:8: lock: unknown key \"color\": want one of ttl, wait, max_hold, min_hold, fair, renew",
		"FILE:8: lock.wait: \"-1s\": want at least 1ns, at most 87840h0m0s",
		"FILE:10: limits.supplier: limit \"2000/1x\": period \"1x\" is not a duration: want one, such as 1s, 5m, 1h or 1d",
		"FILE:11: limits.partner.rate: \"0\": want a whole number from 1 to 1000000000000",
		"FILE:11: limits.partner.per: \"1y\": want a duration such as 30s",
		"FILE:13: failure_policy: \"ajar\": want closed or open",
		"COORD_LOCK_TTL: \"soon\": want a duration such as 30s",
		"COORD_URL: not a URL: want a form like redis://host:6379/0 or file:///var/lib/app/coord",
	}, "\n")
	if err == nil || strings.ReplaceAll(err.Error(), path, "FILE") != want || !errors.Is(err, coord.ErrInvalid) {
		t.Errorf(" got: %v\nwant: %s", err, want)
	}
	var first *config.Error
	if !errors.As(err, &first) || first.Line != 1 {
		t.Errorf("the first mistake: %+v", first)
	}
	_, err = config.Parse("coord.yaml", []byte("prefix: a/\nurl: redis://h?prefix=b/\nlock: {min_hold: 2s, max_hold: 1s}\n"))
	if err == nil || strings.Count(err.Error(), "coord.yaml:") != 2 || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("two contradictions: %v", err)
	}
}
