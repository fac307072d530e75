package config

import (
	"net"
	"net/netip"
	"testing"

	"github.com/coordgo/coord/rules"
)

// What is read as a network is one for net.ParseCIDR and for package rules, and has the address with which it begins.
func FuzzNetwork(f *testing.F) {
	for _, seed := range []string{"10.0.0.0/8", "10.0.0.1", "10.0.0.1/8", "2001:db8::/32", "2001:db8::1", "fe80::1%eth0", "::ffff:10.0.0.0/104", "0.0.0.0/0", "::/0", "10.0.0.0/33", "10.0.0.0/08", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, problem := network(text)
		if problem != "" {
			return
		}
		ip, cidr, err := net.ParseCIDR(p.String())
		if err != nil || !cidr.IP.Equal(ip) || cidr.String() != p.String() || !p.Contains(p.Addr()) {
			t.Errorf("%q is read as %v: net says %v, %v", text, p, cidr, err)
		}
		rule := rules.Rule{Name: "r", Match: rules.Match{Networks: []netip.Prefix{p}}, Final: true}
		if _, err := rules.New(rule); err != nil {
			t.Errorf("%q is read as %v: %v", text, p, err)
		}
	})
}
