package conformance

import (
	"fmt"
	"testing"
	"time"
)

// Run runs every case as a subtest of t, named "LOCK-07/what-it-shows", and
// gives the report. A case that is unsupported or unproven is skipped with the
// reason.
//
//	go test -run 'TestConformance/LOCK-07'
func Run(t *testing.T, h Harness) *Report {
	t.Helper()
	s := &Suite{Harness: h, Alone: fmt.Sprintf("go test -run '^%s$/^%%s$' .", t.Name())}
	r, err := s.prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.stop()
	r.each(func(c *Case) {
		// Run may be called from several goroutines, and so the cases of one
		// store run side by side without being parallel tests, which would
		// be as many at a time as the machine has processors.
		t.Run(c.FullName(), func(t *testing.T) {
			res := r.runCase(t.Context(), c)
			r.add(res)
			tell(t, s, res)
		})
	})
	report := r.finish()
	t.Logf("%s %s: %d passed, %d failed, %d unsupported, %d unproven in %v; seed %d",
		report.Store.Name, report.Store.Server, report.Count(Pass), report.Count(Fail),
		report.Count(Unsupported), report.Count(Unproven), report.Took.Round(time.Millisecond), report.Seed)
	if list := report.Unchecked(); len(list) > 0 && len(report.Results) == len(r.cases) {
		t.Logf("claimed, and not decided by any case of this run: %s", list)
	}
	for _, c := range report.Unclaimed() {
		t.Logf("works, but is not claimed: %s", c)
	}
	return report
}

// tell hands a result on to its subtest.
func tell(t *testing.T, s *Suite, res Result) {
	t.Helper()
	for name, d := range res.Measures {
		t.Logf("%s: %v", name, d)
	}
	switch res.Outcome {
	case Fail:
		t.Error(s.Explain(res))
	case Unsupported, Unproven:
		t.Skipf("%s: %s", res.Outcome, res.Reason)
	case Pass:
		for _, m := range res.Messages {
			t.Logf("%s: %s", m.At, m.Text)
		}
	}
}
