package rules

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/coordgo/coord"
)

func networks(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

// A rule may spare some networks, or be about some, and a final one exempts them from all that follow. An address that
// is not known is in no network, and so is never exempt.
func TestNetworks(t *testing.T) {
	ch := chain(
		t,
		Rule{Name: "office", Match: Match{Networks: networks("203.0.113.0/24", "2001:db8:1::/48")}, Final: true},
		Rule{Name: "per address", Match: Match{ExceptNetworks: networks("10.0.0.0/8")}, Subject: IP(), Limits: hour(1)},
		Rule{Name: "inside", Match: Match{Networks: networks("10.0.0.0/8"), ExceptNetworks: networks("10.1.0.0/16")}, Limits: hour(1)},
		Rule{Name: "all", Limits: hour(1)},
	)
	for ip, want := range map[string][]string{
		"203.0.113.7":        nil,
		"::ffff:203.0.113.7": nil,
		"2001:db8:1::7":      nil,
		"2001:db8:1::7%eth0": nil,
		"2001:db8:2::7":      {"per address", "all"},
		"203.0.114.7":        {"per address", "all"},
		"10.0.0.7":           {"inside", "all"},
		"10.1.0.7":           {"all"},
		"":                   {"per address", "all"},
	} {
		r := Request{Method: "GET", Path: "/"}
		if ip != "" {
			r.IP = netip.MustParseAddr(ip)
		}
		for _, r := range []Request{r, {RPC: "/a.B/C", IP: r.IP}} {
			var got []string
			for _, b := range ch.Bounds(&r) {
				got = append(got, b.Rule)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%q: %q: want %q", ip, got, want)
			}
		}
	}
}

func TestNetworkRefusals(t *testing.T) {
	mapped := netip.PrefixFrom(netip.MustParseAddr("::ffff:10.0.0.0"), 104)
	for want, m := range map[string]Match{
		"invalid network: want one such as 10.0.0.0/8": {Networks: []netip.Prefix{{}}},
		"network 10.0.0.1/8: want 10.0.0.0/8":          {ExceptNetworks: networks("10.0.0.1/8")},
		"network ::ffff:10.0.0.0/104: want 10.0.0.0/8": {Networks: []netip.Prefix{mapped}},
		"network ::ffff:0.0.0.0/90: want one of IPv4":  {Networks: networks("::ffff:0.0.0.0/90")},
	} {
		if _, err := New(Rule{Name: "r", Match: m, Limits: hour(1)}); !errors.Is(err, coord.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
}

// A chain does not change with the list that it was made of.
func TestNetworksAreCopies(t *testing.T) {
	in, except := networks("10.0.0.0/8"), networks("10.1.0.0/16")
	ch := chain(t, Rule{Name: "r", Match: Match{Networks: in, ExceptNetworks: except}, Limits: hour(1)})
	in[0], except[0] = networks("192.0.2.0/24")[0], networks("192.0.3.0/24")[0]
	if m := ch.Rules()[0].Match; m.Networks[0] != networks("10.0.0.0/8")[0] || m.ExceptNetworks[0] != networks("10.1.0.0/16")[0] {
		t.Errorf("%v: the chain has changed", m)
	}
}
