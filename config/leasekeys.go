package config

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

// The ranges of a lease.
const (
	minLeaseFor = time.Millisecond
	maxLeaseFor = 10 * time.Second
	maxLessees  = 1_000_000
)

// lease reads true, false, or a mapping: permits that are taken in advance.
func (p *parser) lease(path string, n *yaml.Node, c *Config, name string) error {
	var l coord.PermitLease
	switch {
	case n.Kind == yaml.MappingNode:
		err := p.mapping(path, n, []field{
			{"max", func(key string, n *yaml.Node) (err error) { l.Max, err = p.number(key, n, driver.MaxRate); return err }},
			{"for", func(key string, n *yaml.Node) (err error) {
				l.For, err = p.duration(key, n, minLeaseFor, maxLeaseFor)
				return err
			}},
			{"lessees", func(key string, n *yaml.Node) (err error) { l.Lessees, err = p.number(key, n, maxLessees); return err }},
		})
		if err != nil {
			return err
		}
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!bool" && n.Value == "true":
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!bool" && n.Value == "false":
		return nil
	default:
		return p.bad(path, n, "%s: want true, false, or a mapping of max, for, lessees", kind(n))
	}
	if c.Leases == nil {
		c.Leases = make(map[string]coord.PermitLease)
	}
	c.Leases[name] = l
	return nil
}

// leaseClash refuses two names of one limit that say different things of its leases: a
// client knows a limit by its numbers.
func (c *Config) leaseClash() error {
	said := make(map[coord.Limit]string)
	for _, name := range slices.Sorted(maps.Keys(c.Limits)) {
		l, err := c.Limits[name].Normal()
		if err != nil {
			return err // it was checked
		}
		other, ok := said[l]
		if !ok {
			said[l] = name
			continue
		}
		a, leasedA := c.Leases[other]
		b, leasedB := c.Leases[name]
		if leasedA != leasedB || a != b {
			key := join("limits", name)
			return c.places[key].mistake(key, fmt.Sprintf("the same limit as %s with another lease: a lease is of a limit, whatever its name", join("limits", other)))
		}
	}
	return nil
}

// leases are the limits that are leased, in normal form, and how: a limit may have two names,
// and be written in two ways.
func (c *Config) leases() map[coord.Limit]coord.PermitLease {
	all := make(map[coord.Limit]coord.PermitLease)
	for name, lease := range c.Leases {
		if l, err := c.Limits[name].Normal(); err == nil { // it was checked
			all[l] = lease
		}
	}
	return all
}

// changeLeases makes what next says of leases so, where it differs from c.
func (c *Config) changeLeases(client *coord.Client, next *Config) error {
	old, leases := c.leases(), next.leases()
	for limit := range old {
		if _, ok := leases[limit]; !ok {
			if err := client.LeasePermits(coord.PermitLease{Max: 1}, limit); err != nil {
				return err
			}
		}
	}
	for limit, lease := range leases {
		if was, ok := old[limit]; ok && was == lease {
			continue
		}
		if err := client.LeasePermits(lease, limit); err != nil {
			return err
		}
	}
	return nil
}

// describeLease is ", leased" and how, after a limit.
func describeLease(l coord.PermitLease) string {
	text := ", leased"
	if l.Max > 0 {
		text += fmt.Sprintf(" max=%d", l.Max)
	}
	if l.For > 0 {
		text += fmt.Sprintf(" for=%v", l.For)
	}
	if l.Lessees > 0 {
		text += fmt.Sprintf(" lessees=%d", l.Lessees)
	}
	return text
}
