package rules

import (
	"fmt"
	"slices"

	"github.com/coordgo/coord"
)

// Rule applies limits to the requests that match. The zero Match is every request, the
// zero Subject everyone together.
type Rule struct {
	// Name of the rule, unique in its chain. It is part of the key under which the
	// store counts, so that a rule with a new name starts with full limits.
	Name string
	// Match says which requests the rule is about.
	Match Match
	// Subject says whose requests are counted together.
	Subject Subject
	// Limits that a request counts against, all at once.
	Limits []Limit
	// Cost is how many permits a request takes from each of the limits, 0 to the most that each ever grants; 0 is 1. It
	// multiplies Request.N. A request that meets one account by several rules takes the largest of their costs.
	Cost int
	// FailurePolicy decides when the store is unavailable; nil: that of the client does. A request that several rules
	// match is admitted without the store if all of them admit it.
	FailurePolicy *coord.FailurePolicy
	// Final ends the chain for requests that match: no later rule applies to
	// them. A final rule without limits exempts. A path that matches only when it is decoded, cleaned or
	// without its slash at the end does not end the chain, because it may be served as another one.
	Final bool
	// Shadow tries the rule out: it decides, and admits whatever it decides. [Decision.Shadow] says what it would have
	// done, and [observe.Decision.Shadow] tells an observer. The rule has accounts of its own, also for named limits, so
	// that it changes nothing for others, and full limits when it leaves shadow mode. It is another call on the store, for
	// requests that the other rules have admitted. It cannot be final.
	Shadow bool
}

// Limit is a limit of a rule.
type Limit struct {
	// Name makes the account of the limit one that other rules of the same
	// subject share. Without it the account is the rule's own. A request that
	// meets one account twice counts once.
	Name string
	coord.Limit
}

// check refuses a rule that cannot work.
func (r *Rule) check() error {
	if r.Name == "" {
		return fmt.Errorf("%w: a rule without a name", coord.ErrInvalid)
	}
	if err := r.Match.check(); err != nil {
		return err
	}
	if err := r.Subject.check(); err != nil {
		return err
	}
	if err := r.checkSubject(); err != nil {
		return err
	}
	if len(r.Limits) == 0 && !r.Final {
		return fmt.Errorf("%w: it has neither limits nor Final, and so does nothing", coord.ErrInvalid)
	}
	if r.Shadow && r.Final {
		return fmt.Errorf("%w: in shadow mode and final: want one of the two", coord.ErrInvalid)
	}
	if p := r.FailurePolicy; p != nil && *p != coord.FailClosed && *p != coord.FailOpen {
		return fmt.Errorf("%w: failure policy %d: want FailClosed or FailOpen", coord.ErrInvalid, *p)
	}
	for i, l := range r.Limits {
		normal, err := l.Normal()
		if err != nil {
			return err
		}
		if r.Cost < 0 || r.Cost > normal.Max() {
			return fmt.Errorf("%w: a cost of %d under %v: want 0 to %d", coord.ErrInvalid, r.Cost, l.Limit, normal.Max())
		}
		for _, o := range r.Limits[:i] {
			other, _ := o.Normal() // it was checked
			if l.Name == o.Name && normal.Shares(other) {
				return fmt.Errorf("%w: %v and %v would be one account: give them different names", coord.ErrInvalid, o.Limit, l.Limit)
			}
		}
	}
	return nil
}

// checkSubject refuses a subject for which no request of the rule has a value.
func (r *Rule) checkSubject() error {
	p, _ := parsePattern(r.Match.Path) // it was checked
	for _, s := range append([]Subject{r.Subject}, r.Subject.Parts...) {
		if s.Kind == KindCookie && r.Match.RPC != "" {
			return fmt.Errorf("%w: subject %q of a rule by rpc: calls of gRPC have no cookies", coord.ErrInvalid, s.source())
		}
		if s.Kind == KindPath && !p.has(s.Name) {
			return fmt.Errorf("%w: subject %q: path %q has no {%s}: want a rule by a path such as /orders/{id}", coord.ErrInvalid, s.source(), r.Match.Path, s.Name)
		}
	}
	return nil
}

// clone is a copy that shares nothing with r.
func (r Rule) clone() Rule {
	r.Match.Methods = slices.Clone(r.Match.Methods)
	r.Match.Networks = slices.Clone(r.Match.Networks)
	r.Match.ExceptNetworks = slices.Clone(r.Match.ExceptNetworks)
	r.Subject.Parts = slices.Clone(r.Subject.Parts)
	r.Limits = slices.Clone(r.Limits)
	if r.FailurePolicy != nil {
		r.FailurePolicy = new(*r.FailurePolicy)
	}
	return r
}
