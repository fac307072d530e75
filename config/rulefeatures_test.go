package config_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/rules"
)

const features = `url: memory://
rules:
  - {name: office, match: {networks: [203.0.113.0/24]}, final: true}
  - {name: orders, match: {path: "/orders/{id}"}, subject: [{cookie: session}, {path: id}], limits: [1/1h]}
  - {name: addresses, match: {except_networks: [10.0.0.7]}, subject: ip, shadow: true, failure_policy: open, limits: [1/1h]}
`

// verdicts are which rules admit a request, which deny it, and which do so in shadow mode.
func verdicts(t *testing.T, client *config.Client, ip, session, path string) string {
	t.Helper()
	d, err := client.Rules().Allow(t.Context(), client, &rules.Request{
		Method: "GET", Path: path, IP: netip.MustParseAddr(ip), Cookie: func(string) string { return session },
	})
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, b := range d.Bounds {
		list = append(list, b.Rule+map[bool]string{true: "+", false: "-"}[b.Result.Allowed])
	}
	for _, s := range d.Shadow {
		list = append(list, "shadow "+s.Rule+map[bool]string{true: "-", false: "+"}[s.Denied()])
	}
	return strings.Join(list, ", ")
}

// What a file says of cookies, variables of the path, networks and shadow mode holds, is shown, and changes by a reload.
func TestRuleFeatures(t *testing.T) {
	path := file(t, features)
	client, err := config.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, tc := range [][4]string{
		{"203.0.113.7", "a", "/orders/7", ""},
		{"192.0.2.1", "a", "/orders/7", "orders+, shadow addresses+"},
		{"192.0.2.1", "a", "/orders/8", "orders+, shadow addresses-"},
		{"192.0.2.1", "a", "/orders/7", "orders-"},
		{"192.0.2.1", "b", "/orders/7", "orders+, shadow addresses-"},
		{"10.0.0.7", "c", "/orders/7", "orders+"},
	} {
		if got := verdicts(t, client, tc[0], tc[1], tc[2]); got != tc[3] {
			t.Errorf("%q: %s: want %s", tc[:3], got, tc[3])
		}
	}
	var shown []string
	for _, v := range client.Config().Values() {
		if strings.HasPrefix(v.Key, "rules.") {
			shown = append(shown, v.Value)
		}
	}
	if want := []string{
		"everything from 203.0.113.0/24 (final)",
		"/orders/{id} by cookie session + path id: 1/1h",
		"everything except 10.0.0.7/32 by ip: 1/1h (failure_policy open) (shadow)",
	}; !slices.Equal(shown, want) {
		t.Errorf("shown: %q: want %q", shown, want)
	}

	text := strings.NewReplacer("203.0.113.0/24", "198.51.100.0/24", "{cookie: session}", "user", "shadow: true", "shadow: false").Replace(features)
	write(t, path, text)
	if err := client.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, tc := range [][4]string{
		{"198.51.100.7", "a", "/orders/9", ""},
		{"203.0.113.7", "a", "/orders/9", "orders+, addresses+"},
		{"203.0.113.7", "b", "/orders/10", "orders-, addresses-"},
		{"203.0.113.8", "b", "/orders/9", "orders-, addresses-"},
	} {
		if got := verdicts(t, client, tc[0], tc[1], tc[2]); got != tc[3] {
			t.Errorf("reloaded: %q: %s: want %s", tc[:3], got, tc[3])
		}
	}
	before := client.Config()
	write(t, path, strings.Replace(text, "{path: id}", "{path: order}", 1))
	want := path + `:4: rules.orders.subject: subject "path order": path "/orders/{id}" has no {order}: want a rule by a path such as /orders/{id}`
	if err := client.Reload(t.Context()); err == nil || err.Error() != want || client.Config() != before {
		t.Errorf("a mistake\n got: %v\nwant: %s", err, want)
	}
}
