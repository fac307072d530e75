package config

import (
	"net/netip"

	"go.yaml.in/yaml/v3"
)

// networks reads a list of networks, each once.
func (r *ruleReader) networks(path string, n *yaml.Node, list *[]netip.Prefix) error {
	seen := make(map[netip.Prefix]bool)
	return r.list(path, n, "a list such as [10.0.0.0/8, 2001:db8::/32]", func(item *yaml.Node) error {
		text, err := r.text(path, item, "a network such as 10.0.0.0/8")
		if err != nil {
			return err
		}
		p, problem := network(text)
		switch {
		case problem != "":
			return r.bad(path, item, "%s: %s", show(text), problem)
		case seen[p]:
			return r.bad(path, item, "%s again", show(text))
		}
		seen[p] = true
		*list = append(*list, p)
		return nil
	})
}

// network reads a network, or an address as the network of it alone; problem says what keeps text from being one.
func network(text string) (p netip.Prefix, problem string) {
	p, err := netip.ParsePrefix(text)
	if addr, aerr := netip.ParseAddr(text); aerr == nil && addr.Zone() == "" {
		p, err = netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	switch {
	case err != nil:
		return p, "want a network such as 10.0.0.0/8, or an address"
	case p.Addr().Is4In6():
		return p, "want it in the form of IPv4, such as 10.0.0.0/8"
	case p != p.Masked():
		return p, "want " + p.Masked().String()
	}
	return p, ""
}
