package conformance

import (
	"errors"
	"fmt"
	"slices"
)

// Deviation is where an adapter knowingly does not keep the contract. Nothing can be
// waived: the cases run as ever. Those that fail end as deviation, with the reason,
// and a report shows them before all else; where none fails, the declaration is out of
// date, and that is a failure.
type Deviation struct {
	// Case is the id of a case, Clause the number of a whole clause: one of the two.
	Case   string `json:"case,omitempty"`
	Clause string `json:"clause,omitempty"`
	// Reason tells users what the store does instead, and why.
	Reason string `json:"reason"`
}

// Declared is what came of a deviation.
type Declared struct {
	Deviation
	// Failed are the ids of the cases that failed as declared.
	Failed []string `json:"failed,omitempty"`
	// Stale is true if its cases ran and all passed: the declaration is to be removed.
	Stale bool `json:"stale,omitempty"`
}

// what names the part of the contract.
func (d *Deviation) what() string {
	if d.Case != "" {
		return d.Case
	}
	return "clause " + d.Clause
}

func (d *Deviation) covers(c *Case) bool {
	return d.Case != "" && d.Case == c.ID || d.Clause != "" && d.Clause == c.Clause
}

// checkDeviations refuses what names nothing of the suite or gives no reason.
func checkDeviations(list []Deviation) error {
	var errs []error
	for _, d := range list {
		known := slices.ContainsFunc(Cases(), func(c Case) bool { return d.covers(&c) })
		switch {
		case (d.Case == "") == (d.Clause == ""):
			errs = append(errs, fmt.Errorf("conformance: a deviation names case %q and clause %q: want one of them", d.Case, d.Clause))
		case !known:
			errs = append(errs, fmt.Errorf("conformance: a deviation is about %s, which the suite does not have", d.what()))
		case d.Reason == "":
			errs = append(errs, fmt.Errorf("conformance: the deviation from %s has no reason: say what the store does instead", d.what()))
		}
	}
	return errors.Join(errs...)
}

// deviation finds what was declared of a case, the more particular first.
func (h *Harness) deviation(c *Case) (Deviation, bool) {
	var found Deviation
	for _, d := range h.Deviations {
		if d.covers(c) && (found.Reason == "" || d.Case != "") {
			found = d
		}
	}
	return found, found.Reason != ""
}

// settle says what came of each deviation. Of a run that was stopped none is stale: its other cases may fail.
func settle(list []Deviation, results []Result, stopped bool) []Declared {
	var out []Declared
	for _, d := range list {
		declared, passed := Declared{Deviation: d}, false
		for i := range results {
			r := &results[i]
			if d.covers(&r.Case) {
				passed = passed || r.Outcome == Pass
				if r.Outcome == Deviates {
					declared.Failed = append(declared.Failed, r.ID)
				}
			}
		}
		declared.Stale = passed && !stopped && len(declared.Failed) == 0
		out = append(out, declared)
	}
	return out
}
