package rules

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/coordgo/coord"
)

// Account gives the limits of the rule of this name for one subject, as a request has them that the rule matches:
// with the Demand of each an operator asks a [coord.Client] to Peek, Reset or Charge. values are what the rule
// counts by: an address, a user, the value of a header, a cookie, a variable of the path or a function; of a
// combination, one for each part, in its order; none for a rule that counts everyone or has a constant. Any other
// number of values is [coord.ErrInvalid], as is a rule that the chain does not have.
func (c *Chain) Account(rule string, values ...string) ([]Bound, error) {
	for i := range c.links {
		l := &c.links[i]
		if l.Name != rule {
			continue
		}
		v, err := l.viewOf(values)
		if err != nil {
			return nil, fmt.Errorf("rule %q: %w: %w", rule, coord.ErrInvalid, err)
		}
		return v.bounds(nil)
	}
	return nil, fmt.Errorf("%w: no rule %q", coord.ErrInvalid, rule)
}

// viewOf is a request whose subject has these values.
func (l *link) viewOf(values []string) (*view, error) {
	r, of := new(Request), make(map[string]string)
	value := func(kind Kind, name string) string { return of[string(kind)+" "+name] }
	for _, s := range l.Subject.counted() {
		if len(values) == 0 {
			return nil, fmt.Errorf("no value for the subject %s", s.source())
		}
		v := values[0]
		values = values[1:]
		switch s.Kind {
		case KindIP:
			ip, err := netip.ParseAddr(v)
			if err != nil {
				return nil, fmt.Errorf("%q is no IP address", v)
			}
			r.IP = ip
		case KindUser:
			r.User = v
		case KindHeader, KindAPIKey:
			of["header "+strings.ToLower(s.Name)] = v
		default:
			of[string(s.Kind)+" "+s.Name] = v
		}
	}
	if len(values) > 0 {
		return nil, fmt.Errorf("%d values too many", len(values))
	}
	r.Header = func(name string) string { return of["header "+strings.ToLower(name)] }
	r.Cookie = func(name string) string { return value(KindCookie, name) }
	r.Func = func(name string) (string, bool) { return value(KindFunc, name), true }
	return &view{Request: r, rule: l, variable: func(name string) string { return value(KindPath, name) }}, nil
}

// counted are the subjects that have a value in each request.
func (s Subject) counted() (list []Subject) {
	parts := s.Parts
	if s.Kind != KindCombined {
		parts = []Subject{s}
	}
	for _, p := range parts {
		if p.Kind != KindEveryone && p.Kind != KindConstant {
			list = append(list, p)
		}
	}
	return list
}
