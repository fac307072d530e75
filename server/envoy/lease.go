package envoy

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/coordgo/coord"
)

// lease reads true, false, or a mapping: permits that are taken in advance.
func (l *loader) lease(n *yaml.Node, to **coord.PermitLease) error {
	if n.Kind != yaml.MappingNode {
		var leased bool
		if err := l.flag(&leased, "lease")(n); err != nil {
			return l.bad(n, "lease: want true, false, or a mapping of max, for and lessees")
		}
		if leased {
			*to = new(coord.PermitLease)
		}
		return nil
	}
	var most, lessees uint32
	lease := new(coord.PermitLease)
	err := l.mapping(n, "lease", fields{
		"max":     l.count(&most, "max", 1, maxRequests),
		"lessees": l.count(&lessees, "lessees", 1, 1_000_000),
		"for": func(n *yaml.Node) (err error) {
			lease.For, err = time.ParseDuration(n.Value)
			if err != nil || lease.For < time.Millisecond || lease.For > 10*time.Second {
				err = l.bad(n, "for: want a duration from 1ms to 10s")
			}
			return err
		},
	})
	lease.Max, lease.Lessees = int(most), int(lessees)
	*to = lease
	return err
}

// leases are the limits of which permits are taken in advance. A client knows a limit by its numbers: so those of one
// limit have to be the same wherever it stands, in coord.yaml too.
func (r *Rules) leases(named map[string]coord.Limit, leased map[string]coord.PermitLease) (map[coord.Limit]coord.PermitLease, error) {
	type said struct {
		by    string
		lease *coord.PermitLease
	}
	all := make(map[coord.Limit]said)
	say := func(limit coord.Limit, s said) error {
		limit, err := limit.Normal()
		if err != nil {
			return err // it was checked
		}
		other, ok := all[limit]
		if ok && ((other.lease == nil) != (s.lease == nil) || s.lease != nil && *s.lease != *other.lease) {
			return fmt.Errorf("%w: %s has the limit of %s, with another lease: want the same, or another limit", coord.ErrInvalid, s.by, other.by)
		}
		all[limit] = s
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		s := said{by: "limits." + name}
		if lease, ok := leased[name]; ok {
			s.lease = &lease
		}
		if err := say(named[name], s); err != nil {
			return nil, err
		}
	}
	out := make(map[coord.Limit]coord.PermitLease)
	for _, rule := range r.exact() {
		limit := rule.limit(rule.current.RequestsPerUnit, rule.per)
		if err := say(limit, said{rule.name, rule.lease}); err != nil {
			return nil, err
		}
		if limit, err := limit.Normal(); err == nil && rule.lease != nil {
			out[limit] = *rule.lease
		}
	}
	return out, nil
}

// exact gives the rules of counting: exact that have permits, in order.
func (r *Rules) exact() (list []*rule) {
	for _, name := range r.Domains() {
		if d := r.domains[name]; d.exact {
			d.walk(func(rule *rule) {
				if !rule.unlimited && rule.current.RequestsPerUnit > 0 {
					list = append(list, rule)
				}
			})
		}
	}
	return list
}

// lease makes the client take permits in advance of those limits, and of those of before no more.
func (s *Service) lease(leases map[coord.Limit]coord.PermitLease) error {
	for limit := range s.leased {
		if _, ok := leases[limit]; !ok {
			if err := s.client.LeasePermits(coord.PermitLease{Max: 1}, limit); err != nil {
				return err
			}
		}
	}
	for limit, lease := range leases {
		if was, ok := s.leased[limit]; ok && was == lease {
			continue
		}
		if err := s.client.LeasePermits(lease, limit); err != nil {
			return err
		}
	}
	s.leased = leases
	return nil
}
