package rules

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/coordgo/coord"
)

// checkNetworks refuses networks that no address is in as it is compared: without a zone, and IPv4 as IPv4.
func (m *Match) checkNetworks() error {
	for _, p := range slices.Concat(m.Networks, m.ExceptNetworks) {
		switch {
		case !p.IsValid():
			return fmt.Errorf("%w: an invalid network: want one such as 10.0.0.0/8", coord.ErrInvalid)
		case p.Addr().Is4In6() && p.Bits() < 96:
			return fmt.Errorf("%w: network %v: want one of IPv4, such as 10.0.0.0/8", coord.ErrInvalid, p)
		case p.Addr().Is4In6():
			return fmt.Errorf("%w: network %v: want %v", coord.ErrInvalid, p, netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96).Masked())
		case p != p.Masked():
			return fmt.Errorf("%w: network %v: want %v", coord.ErrInvalid, p, p.Masked())
		}
	}
	return nil
}

// network reports whether the rule is about a client with that address.
func (m *Match) network(ip netip.Addr) bool {
	if len(m.Networks) == 0 && len(m.ExceptNetworks) == 0 {
		return true
	}
	ip = ip.Unmap().WithZone("")
	has := func(p netip.Prefix) bool { return p.Contains(ip) }
	return (len(m.Networks) == 0 || slices.ContainsFunc(m.Networks, has)) && !slices.ContainsFunc(m.ExceptNetworks, has)
}
