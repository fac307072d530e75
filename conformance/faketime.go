package conformance

import (
	"testing"
	"testing/synctest"
)

// RunInFakeTime runs every case as [Run] does, each in a bubble of testing/synctest of its own: a case takes no longer
// than it computes, and what it says of time is exact. harness is called in the bubble of each case, and so makes a new
// store for each. It is for stores that live in the memory of the process and wait for nothing outside it.
func RunInFakeTime(t *testing.T, harness func(tb TB) Harness) {
	t.Helper()
	seed := seedFromEnv(t)
	for _, c := range Cases() {
		t.Run(c.FullName(), func(t *testing.T) {
			t.Parallel()
			s := &Suite{Only: func(d Case) bool { return d.ID == c.ID }, Fast: testing.Short(), Seed: seed}
			var report *Report
			synctest.Test(t, func(t *testing.T) {
				s.Harness = harness(t)
				s.Harness.FakeTime = true
				var err error
				if report, err = s.Run(t.Context()); err != nil {
					t.Fatal(err)
				}
			})
			tell(t, s, report.Results[0])
		})
	}
}
