package rules

import (
	"cmp"
	"fmt"

	"github.com/coordgo/coord"
)

// MaxParts is the most subjects that Combine takes.
const MaxParts = 4

// Combine counts for each combination of values, such as each user of each tenant: requests are counted together
// if all parts are the same. It takes 2 to MaxParts subjects of kinds other than everyone and KindCombined; a rule
// with others is refused. The order of the parts matters: rules that share a named limit have the same one.
func Combine(parts ...Subject) Subject {
	return Subject{Kind: KindCombined, Parts: parts}
}

func (s Subject) checkParts() error {
	switch {
	case s.Kind != KindCombined && len(s.Parts) > 0:
		return fmt.Errorf("%w: subject %q with parts: want none", coord.ErrInvalid, s.Kind)
	case s.Kind == KindCombined && (len(s.Parts) < 2 || len(s.Parts) > MaxParts):
		return fmt.Errorf("%w: %d subjects combined: want 2 to %d", coord.ErrInvalid, len(s.Parts), MaxParts)
	}
	for i, p := range s.Parts {
		if p.Kind == KindEveryone || p.Kind == KindCombined {
			return fmt.Errorf("%w: subject %q as a part of another: want one of %s", coord.ErrInvalid, cmp.Or(p.Kind, "everyone"), kinds)
		}
		if err := p.check(); err != nil {
			return err
		}
		for _, other := range s.Parts[:i] {
			if other.source() == p.source() {
				return fmt.Errorf("%w: subject %q twice in one combination", coord.ErrInvalid, p.source())
			}
		}
	}
	return nil
}

// account is what r is counted under, as parts of a key: a source and a value for each subject. A combination has
// more parts than a single subject, so that their keys differ. missing says what the program does not give for r.
func (s Subject) account(r *view) (list []string, missing string) {
	if s.Kind != KindCombined {
		v, missing := s.value(r)
		return []string{s.source(), v}, missing
	}
	list = make([]string, 0, 2*len(s.Parts))
	for _, p := range s.Parts {
		v, without := p.value(r)
		missing = cmp.Or(missing, without)
		if len(coord.Key(v)) > maxValue { // escaped, several such values do not fit into a key
			v = hashed(v)
		}
		list = append(list, p.source(), v)
	}
	return list, missing
}

// value is that of a subject that is no combination.
func (s Subject) value(r *view) (v, missing string) {
	switch {
	case s.Kind == KindUser && r.NoUser:
		return "", "the user is not known: set User"
	case s.Kind != KindFunc:
		return s.of(r), ""
	}
	ok := false
	if r.Func != nil {
		v, ok = r.Func(s.Name)
	}
	if !ok {
		missing = fmt.Sprintf("no function %q: add it to Funcs", s.Name)
	}
	return short(v), missing
}
