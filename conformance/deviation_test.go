package conformance

import (
	"slices"
	"strings"
	"testing"
)

func only(ids ...string) func(Case) bool {
	return func(c Case) bool { return slices.Contains(ids, c.ID) }
}

// run runs cases of the suite on a store in memory.
func run(t *testing.T, s *Suite) *Report {
	t.Helper()
	if s.Harness.Open == nil {
		deviations := s.Harness.Deviations
		s.Harness = memoryHarness()
		s.Harness.Deviations = deviations
	}
	r, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestDeviationsOfTheHarness(t *testing.T) {
	for name, test := range map[string]struct {
		d    Deviation
		says string
	}{
		"neither":        {Deviation{Reason: "so"}, "want one of them"},
		"both":           {Deviation{Case: "LOCK-02", Clause: "L1", Reason: "so"}, "want one of them"},
		"unknown case":   {Deviation{Case: "LOCK-00", Reason: "so"}, "about LOCK-00, which the suite does not have"},
		"unknown clause": {Deviation{Clause: "L99", Reason: "so"}, "about clause L99, which the suite does not have"},
		"no reason":      {Deviation{Clause: "L1"}, "has no reason"},
	} {
		t.Run(name, func(t *testing.T) {
			h := memoryHarness()
			h.Deviations = []Deviation{test.d}
			if _, err := (&Suite{Harness: h}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, want an error that says %q", err, test.says)
			}
		})
	}
}

func TestDeclaredDeviation(t *testing.T) {
	c := Case{run: func(e *env) { e.Errorf("saw 1, want 2") }}
	for what, list := range map[string][]Deviation{
		"by case":   {{Case: "LOCK-00", Reason: "the store can do no better"}},
		"by clause": {{Clause: "L1", Reason: "the store can do no better"}},
		"by both":   {{Clause: "L1", Reason: "all of it"}, {Case: "LOCK-00", Reason: "the store can do no better"}},
	} {
		h := memoryHarness()
		s := &Suite{Harness: h, Only: func(Case) bool { return false }}
		r, err := s.prepare(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.Harness.Deviations = list // LOCK-00 is not of the suite
		c.ID, c.Clause = "LOCK-00", "L1"
		r.add(r.runCase(t.Context(), &c))
		report := r.finish()
		if res := report.Results[0]; res.Outcome != Deviates || res.Reason != "the store can do no better" || res.Messages[0].Text != "saw 1, want 2" {
			t.Errorf("%s: %s, %q, %d messages, want a deviation with its reason and what was seen", what, res.Outcome, res.Reason, len(res.Messages))
		}
		if d := report.Summary.Deviations[0]; report.Failed() || !slices.Equal(d.Failed, []string{"LOCK-00"}) || d.Stale {
			t.Errorf("%s: failed %v, %+v, want a report that did not fail, and names the case", what, report.Failed(), d)
		}
	}
}

// A deviation that is none is a failure, unless its cases did not run.
func TestStaleDeviation(t *testing.T) {
	h := Harness{Deviations: []Deviation{{Case: "LOCK-02", Reason: "it was so"}, {Case: "LOCK-17", Reason: "it cannot be emptied"}}}
	r := run(t, &Suite{Harness: h, Only: only("LOCK-02", "LOCK-17")})
	stale := r.Stale()
	if !r.Failed() || len(stale) != 1 || stale[0].Case != "LOCK-02" {
		t.Errorf("failed %v, stale %+v, want LOCK-02 alone: LOCK-17 did not run", r.Failed(), stale)
	}
}
