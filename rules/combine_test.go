package rules

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
)

// combined is the key of a request by user and two headers.
func combined(t *testing.T, s Subject, user, tenant, region string) string {
	t.Helper()
	r := Request{User: user, IP: netip.MustParseAddr("192.0.2.1"), Header: func(name string) string {
		return map[string]string{"X-Tenant": tenant, "X-Region": region}[name]
	}}
	return chain(t, Rule{Name: "r", Subject: s, Limits: []Limit{{Limit: coord.PerHour(1)}}}).Bounds(&r)[0].Demand.Key
}

// Different values never have one key, whatever they consist of.
func TestCombinedKeysDoNotCollide(t *testing.T) {
	s := Combine(User(), Header("X-Tenant"), Header("X-Region"))
	values := []string{"", "a", "b", "/", "%", "%2F", "a/b", "header x-tenant", "#", strings.Repeat("a", 65), strings.Repeat("/", 64), strings.Repeat("%", 64)}
	keys := make(map[string][3]string)
	for _, u := range values {
		for _, v := range values {
			for _, w := range values {
				key := combined(t, s, u, v, w)
				if before, ok := keys[key]; ok {
					t.Fatalf("%q and %q have the key %q", before, [3]string{u, v, w}, key)
				}
				keys[key] = [3]string{u, v, w}
			}
		}
	}
	single := chain(t, Rule{Name: "r", Subject: Header("x/user"), Limits: []Limit{{Limit: coord.PerHour(1)}}})
	key := single.Bounds(&Request{Header: func(string) string { return "a/b" }})[0].Demand.Key
	if key == combined(t, Combine(Header("x"), User()), "b", "a", "") {
		t.Errorf("a single subject and a combination have the key %q", key)
	}
}

// The longest values still fit into a key.
func TestCombinedKeysFit(t *testing.T) {
	client, err := coord.New(memory.New(), coord.WithPrefix(strings.Repeat("p", coord.MaxPrefix)))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ch := chain(t, Rule{
		Name: strings.Repeat("n", 100), Limits: []Limit{{Limit: coord.PerHour(1)}},
		Subject: Combine(User(), IP(), Header("X-Tenant"), APIKey("X-Api-Key")),
	})
	long := strings.Repeat("/", 64)
	d, err := ch.Allow(t.Context(), client, &Request{User: long, IP: netip.MustParseAddr("2001:db8::1"), Header: func(string) string { return long }})
	if err != nil || !d.Allowed {
		t.Errorf("%+v, %v", d, err)
	}
}

// Each part counts, and a part of a secret is only a hash.
func TestCombine(t *testing.T) {
	s := Combine(User(), Header("X-Tenant"))
	base := combined(t, s, "ann", "acme", "")
	for name, other := range map[string]string{
		"another user":   combined(t, s, "bob", "acme", ""),
		"another tenant": combined(t, s, "ann", "emca", ""),
		"no tenant":      combined(t, s, "ann", "", ""),
		"the user alone": combined(t, User(), "ann", "acme", ""),
	} {
		if other == base {
			t.Errorf("%s has the same key %q", name, base)
		}
	}
	if other := combined(t, s, "ann", "acme", "north"); other != base {
		t.Errorf("a header that is no part makes a difference: %q, %q", other, base)
	}
	if key := combined(t, Combine(User(), APIKey("X-Tenant")), "ann", "acme", ""); strings.Contains(key, "acme") {
		t.Errorf("the key %q shows the secret", key)
	}
}

func TestCombineRefusals(t *testing.T) {
	for want, s := range map[string]Subject{
		"1 subjects combined":            Combine(User()),
		"5 subjects combined":            Combine(User(), IP(), Header("a"), Header("b"), Header("c")),
		`subject "everyone" as a part`:   Combine(User(), Everyone()),
		`subject "combined" as a part`:   Combine(User(), Combine(User(), IP())),
		`subject "header" without a nam`: Combine(User(), Header("")),
		`subject "header a" twice`:       Combine(Header("A"), Header("a")),
		`subject "user" with parts`:      {Kind: KindUser, Parts: []Subject{IP()}},
	} {
		_, err := New(Rule{Name: "r", Subject: s, Final: true})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v: want %q", s, err, want)
		}
	}
}
