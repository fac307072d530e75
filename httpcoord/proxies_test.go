package httpcoord

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

func prefixes(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func TestProxies(t *testing.T) {
	behind := prefixes("10.0.0.0/8", "2001:db8:ffff::/48")
	xff, forwarded := Proxies{Trusted: behind}, Proxies{Trusted: behind, Header: "forwarded"}
	for _, tc := range []struct {
		name   string
		p      Proxies
		remote string
		values []string
		want   string
	}{
		{"nobody is trusted", Proxies{}, "192.0.2.1:4", []string{"198.51.100.7"}, "192.0.2.1"},
		{"the peer is no proxy", xff, "192.0.2.1:4", []string{"198.51.100.7"}, "192.0.2.1"},
		{"no header", xff, "10.0.0.1:4", nil, "10.0.0.1"},
		{"one proxy", xff, "10.0.0.1:4", []string{"198.51.100.7"}, "198.51.100.7"},
		{"two proxies", xff, "10.0.0.1:4", []string{"198.51.100.7, 10.2.2.2"}, "198.51.100.7"},
		{"two headers", xff, "10.0.0.1:4", []string{"198.51.100.7", "10.2.2.2"}, "198.51.100.7"},
		{"a forged address on the left", xff, "10.0.0.1:4", []string{"203.0.113.9, 198.51.100.7"}, "198.51.100.7"},
		{"a forged proxy on the left", xff, "10.0.0.1:4", []string{"203.0.113.9, 10.9.9.9, 198.51.100.7"}, "198.51.100.7"},
		{"a client in the trusted network", xff, "10.0.0.1:4", []string{"10.3.3.3, 10.2.2.2"}, "10.3.3.3"},
		{"damaged", xff, "10.0.0.1:4", []string{"198.51.100.7, x, 10.2.2.2"}, "10.2.2.2"},
		{"empty element", xff, "10.0.0.1:4", []string{"198.51.100.7, "}, "10.0.0.1"},
		{"with a port", xff, "10.0.0.1:4", []string{"198.51.100.7:5678"}, "198.51.100.7"},
		{"IPv6", xff, "[2001:db8:ffff::1]:4", []string{"2001:db8::5"}, "2001:db8::5"},
		{"IPv6 with a port", xff, "[2001:db8:ffff::1]:4", []string{"[2001:db8::5]:99"}, "2001:db8::5"},
		{"IPv6 with a zone", xff, "10.0.0.1:4", []string{"fe80::1%eth0"}, "fe80::1"},
		{"IPv4 in IPv6", xff, "[::ffff:10.0.0.1]:4", []string{"::ffff:198.51.100.7"}, "198.51.100.7"},
		{"a prefix of IPv4 in IPv6", Proxies{Trusted: prefixes("::ffff:10.0.0.0/104")}, "10.0.0.1:4", []string{"198.51.100.7"}, "198.51.100.7"},
		{"a socket that is not trusted", xff, "@", []string{"198.51.100.7"}, ""},
		{"a socket that is", Proxies{Unix: true}, "@", []string{"198.51.100.7"}, "198.51.100.7"},
		{"the other header", Proxies{Trusted: behind, Header: "X-Real-IP"}, "10.0.0.1:4", []string{"198.51.100.7"}, "198.51.100.7"},

		{"forwarded", forwarded, "10.0.0.1:4", []string{"for=198.51.100.7;proto=https;by=10.0.0.1"}, "198.51.100.7"},
		{"in any case", forwarded, "10.0.0.1:4", []string{"Proto=https;FOR=198.51.100.7"}, "198.51.100.7"},
		{"quoted IPv6", forwarded, "10.0.0.1:4", []string{`for="[2001:db8::5]:4711"`}, "2001:db8::5"},
		{"IPv6 without brackets", forwarded, "10.0.0.1:4", []string{`for="2001:db8::5"`}, "10.0.0.1"},
		{"two elements", forwarded, "10.0.0.1:4", []string{"for=198.51.100.7, for=10.2.2.2"}, "198.51.100.7"},
		{"hidden port", forwarded, "10.0.0.1:4", []string{`for="198.51.100.7:_x"`}, "198.51.100.7"},
		{"hidden", forwarded, "10.0.0.1:4", []string{"for=_secret, for=10.2.2.2"}, "10.2.2.2"},
		{"unknown", forwarded, "10.0.0.1:4", []string{"for=unknown"}, "10.0.0.1"},
		{"without for", forwarded, "10.0.0.1:4", []string{"proto=https"}, "10.0.0.1"},
		{"for twice", forwarded, "10.0.0.1:4", []string{"for=203.0.113.9;for=198.51.100.7"}, "10.0.0.1"},
		{"a forged quote on the left", forwarded, "10.0.0.1:4", []string{`for="203.0.113.9, for=198.51.100.7`}, "198.51.100.7"},
		{"a forged backslash on the left", forwarded, "10.0.0.1:4", []string{`for="\, for=198.51.100.7`}, "198.51.100.7"},
		{"a forged comma in a host", forwarded, "10.0.0.1:4", []string{`for=198.51.100.7;host="x\", for=203.0.113.9"`}, "198.51.100.7"},
		{"a backslash at the end of a host", forwarded, "10.0.0.1:4", []string{`for=203.0.113.9, for=198.51.100.7;host="x\\"`}, "198.51.100.7"},
		{"spaces around =", forwarded, "10.0.0.1:4", []string{"for = 198.51.100.7"}, "10.0.0.1"},
		{"semicolon at the end", forwarded, "10.0.0.1:4", []string{"for=198.51.100.7;"}, "10.0.0.1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr = tc.remote
			for _, v := range tc.values {
				r.Header.Add(tc.p.header(), v)
			}
			var want netip.Addr
			if tc.want != "" {
				want = netip.MustParseAddr(tc.want)
			}
			if got := tc.p.Of(r); got != want {
				t.Errorf("%v: want %v", got, want)
			}
		})
	}
}

func TestPrivateNetworks(t *testing.T) {
	p := Proxies{Trusted: PrivateNetworks()}
	for s, want := range map[string]bool{"127.0.0.1": true, "10.1.2.3": true, "172.31.0.1": true, "172.32.0.1": false, "fd00::1": true, "2001:db8::1": false, "8.8.8.8": false} {
		if p.trusts(netip.MustParseAddr(s)) != want {
			t.Errorf("%s: want trusted %v", s, want)
		}
	}
}

// What a client puts into the header never hides the element that a trusted proxy
// appends after it.
func FuzzProxies(f *testing.F) {
	for _, s := range []string{"", "203.0.113.9", `for="203.0.113.9`, `for="\`, "for=_x, ", `for="[2001:db8::1]:4711";proto=https`, `;;,,""\\`, "[::1", "1.2.3.4:99999"} {
		f.Add(s)
	}
	client := netip.MustParseAddr("198.51.100.7")
	behind := prefixes("10.0.0.0/8", "2001:db8:ffff::/48")
	f.Fuzz(func(t *testing.T, forged string) {
		for header, own := range map[string]string{"X-Forwarded-For": "198.51.100.7", "Forwarded": `for="198.51.100.7:80";host="a, \"b\\"`} {
			p := Proxies{Trusted: behind, Header: header}
			for _, values := range [][]string{{forged, own}, {forged + ", " + own}, {forged + "," + own + ", " + strings.Replace(own, "198.51.100.7", "10.1.1.1", 1)}} {
				if got := p.Addr(netip.MustParseAddr("10.0.0.1"), func(string) []string { return values }); got != client {
					t.Errorf("%s: %q: %v", header, values, got)
				}
			}
			alone := func(string) []string { return []string{forged} }
			// Alone it may say anything, but only from a proxy.
			if got := p.Addr(netip.MustParseAddr("192.0.2.1"), alone); got != netip.MustParseAddr("192.0.2.1") {
				t.Errorf("%s: %q is believed from a stranger: %v", header, forged, got)
			}
			if got := p.Addr(netip.MustParseAddr("10.0.0.1"), alone); !got.IsValid() || got.Is4In6() || got.Zone() != "" {
				t.Errorf("%s: %q: %v", header, forged, got)
			}
		}
	})
}

// An address reads back as it is written, in each form that proxies use.
func FuzzAddrForms(f *testing.F) {
	f.Add([]byte{192, 0, 2, 1})
	f.Add([]byte("0123456789abcdef"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		a, valid := netip.AddrFromSlice(raw)
		if !valid {
			if len(raw) == 4 || len(raw) == 16 {
				t.Fatal("no address")
			}
			return
		}
		forms := []string{a.String(), netip.AddrPortFrom(a, 4711).String()}
		if a.Is6() {
			forms = append(forms, "["+a.String()+"]")
		}
		for _, s := range forms {
			if got := parseAddr(s); got != a.Unmap() {
				t.Errorf("%q: %v", s, got)
			}
		}
	})
}

func BenchmarkProxies(b *testing.B) {
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "10.0.0.1:4711"
	for header, v := range map[string]string{"X-Forwarded-For": "198.51.100.7, 10.1.1.1", "Forwarded": `for=198.51.100.7, for="[2001:db8:ffff::1]"`} {
		b.Run(header, func(b *testing.B) {
			r.Header = http.Header{header: {v}}
			p := Proxies{Trusted: prefixes("10.0.0.0/8", "2001:db8:ffff::/48"), Header: header}
			b.ReportAllocs()
			for b.Loop() {
				p.Of(r)
			}
		})
	}
}
