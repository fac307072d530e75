package httpcoord

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Proxies says which peers to believe about a client's address. The zero Proxies believes nobody:
// the address is the one that the connection comes from.
//
// Behind a proxy that is trusted, the address is read from one header, from the right: each
// trusted proxy has put the address of its own peer there, and the first that is not
// a trusted proxy is the client. What stands further left came from the client, and may
// be anything; so may every other header, which is why there is only one.
type Proxies struct {
	// Trusted are the addresses of the proxies. An address that clients can
	// have must not be among them.
	Trusted []netip.Prefix
	// Header is the one that the proxies write: "Forwarded" (RFC 7239), or the name of a
	// list of addresses; "" is "X-Forwarded-For". Every trusted proxy must append to
	// it, or replace it.
	Header string
	// Unix trusts a peer on a Unix socket, which has no address.
	Unix bool
}

// PrivateNetworks are loopback, link-local and private addresses (RFC 1918, RFC 4193),
// for Proxies.Trusted where no client has such an address.
func PrivateNetworks() []netip.Prefix {
	list := make([]netip.Prefix, 0, 7)
	for _, s := range []string{"127.0.0.0/8", "::1/128", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fe80::/10"} {
		list = append(list, netip.MustParsePrefix(s))
	}
	return list
}

// Of is the address of the client that r comes from; the zero Addr if it is not known.
func (p Proxies) Of(r *http.Request) netip.Addr {
	return p.Addr(parseAddr(r.RemoteAddr), r.Header.Values)
}

// Addr is Of for a peer and a way to get the values of a header, in order. An invalid peer is
// one without an address. Where the header is missing, damaged, or says that the address is
// hidden, the answer is the last address that is known, which is a proxy's.
func (p Proxies) Addr(peer netip.Addr, header func(name string) []string) netip.Addr {
	peer = peer.Unmap().WithZone("")
	if !p.trusts(peer) {
		return peer
	}
	next := lastAddr
	if strings.EqualFold(p.header(), "Forwarded") {
		next = lastForwarded
	}
	client := peer
	for _, line := range slices.Backward(header(p.header())) {
		for line != "" {
			var addr netip.Addr
			if addr, line = next(line); !addr.IsValid() {
				return client
			}
			if client = addr; !p.trusts(client) {
				return client
			}
		}
	}
	return client
}

func (p Proxies) header() string {
	if p.Header == "" {
		return "X-Forwarded-For"
	}
	return p.Header
}

func (p Proxies) trusts(a netip.Addr) bool {
	if !a.IsValid() {
		return p.Unix
	}
	return slices.ContainsFunc(p.Trusted, func(t netip.Prefix) bool { return unmapped(t).Contains(a) })
}

// unmapped is a prefix of IPv4-mapped addresses as one of IPv4.
func unmapped(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}

// lastAddr takes the last address from a list such as "192.0.2.1, [2001:db8::1]:4711".
func lastAddr(list string) (last netip.Addr, rest string) {
	if at := strings.LastIndexByte(list, ','); at >= 0 {
		list, rest = list[at+1:], list[:at]
	}
	return parseAddr(strings.Trim(list, " \t")), rest
}

// parseAddr reads "192.0.2.1", "192.0.2.1:80", "2001:db8::1", "[2001:db8::1]" and
// "[2001:db8::1]:80". Anything else is the zero Addr.
func parseAddr(s string) netip.Addr {
	host := s
	switch bracket := strings.LastIndexByte(s, ']'); {
	case strings.HasPrefix(s, "["):
		if bracket < 0 || !isPort(s[bracket+1:]) {
			return netip.Addr{}
		}
		host = s[1:bracket]
		if !strings.Contains(host, ":") {
			return netip.Addr{}
		}
	case strings.Count(s, ":") == 1:
		colon := strings.IndexByte(s, ':')
		if !isPort(s[colon:]) {
			return netip.Addr{}
		}
		host = s[:colon]
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	return a.Unmap().WithZone("")
}

// isPort reports whether s is "" or a colon and a port, which may be hidden in a Forwarded
// header: "_x" (RFC 7239, part 6).
func isPort(s string) bool {
	if s == "" {
		return true
	}
	if s[0] != ':' || len(s) == 1 {
		return false
	}
	for _, c := range []byte(s[1:]) {
		if c < '0' || c > '9' {
			return s[1] == '_'
		}
	}
	return len(s) <= len(":65535")
}
