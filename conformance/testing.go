package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Run runs every case as a subtest of t, named "LOCK-07/what-it-shows", and
// gives the report. A case that is unsupported or unproven is skipped with the
// reason. With -short it is a fast pass, which leaves slow cases unproven.
//
//	go test -run 'TestConformance/LOCK-07'
//
// The environment variable COORD_CONFORMANCE_SEED is the seed, COORD_CONFORMANCE_REPORTS a
// directory into which the report of a whole run is written, by the store's name and the
// name of the test: TestConformanceCluster of Redis gives redis-cluster.json.
func Run(t *testing.T, h Harness) *Report {
	t.Helper()
	return (&Suite{Harness: h}).Test(t)
}

// Test runs the cases that the suite selects as [Run] does. It sets Alone, Fast if tests are short, and the seed if
// the environment has one; it does not call Started and Finished.
func (s *Suite) Test(t *testing.T) *Report {
	t.Helper()
	s.Fast = s.Fast || testing.Short()
	if seed := seedFromEnv(t); seed != 0 {
		s.Seed = seed
	}
	r, err := s.prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.Seed = r.report.Seed
	s.Alone = fmt.Sprintf("%s={seed} go test -run '^%s$/^{case}$' .", seedEnv, t.Name())
	if len(r.cases) == 0 {
		t.Fatal(ErrNoCase)
	}
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
	t.Log(report.Line())
	if list := report.Unchecked(); len(list) > 0 && len(report.Results) == len(r.cases) {
		t.Logf("claimed, and not decided by any case of this run: %s", list)
	}
	for _, c := range report.Unclaimed() {
		t.Logf("works, but is not claimed: %s", c)
	}
	for _, d := range report.Stale() {
		t.Errorf("a deviation from %s is declared (%s), but its cases pass: remove it", d.what(), d.Reason)
	}
	if dir := os.Getenv(reportsEnv); dir != "" && !report.Selection.Partial && len(report.Results) == len(r.cases) {
		if err := WriteFile(filepath.Join(dir, reportName(report, t.Name())), report); err != nil {
			t.Error(err)
		}
	}
	return report
}

const (
	seedEnv    = "COORD_CONFORMANCE_SEED"
	reportsEnv = "COORD_CONFORMANCE_REPORTS"
)

func seedFromEnv(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv(seedEnv)
	if text == "" {
		return 0
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", seedEnv, err)
	}
	return seed
}

// reportName is redis.json for TestConformance of redis, redis-cluster.json for
// TestConformanceCluster: what the name of the test says beyond that, in lower case.
func reportName(r *Report, test string) string {
	name, more := r.Store.Name, strings.TrimPrefix(test, "Test")
	more = strings.ToLower(strings.TrimPrefix(more, "Conformance"))
	if more != "" {
		name += "-" + more
	}
	safe := func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' {
			return c
		}
		return '-'
	}
	return strings.Map(safe, strings.ToLower(name)) + ".json"
}

// tell hands a result on to its subtest.
func tell(t *testing.T, s *Suite, res Result) {
	t.Helper()
	switch res.Outcome {
	case Fail:
		t.Error(s.Explain(res))
	case Deviates:
		t.Logf("a declared deviation: %s\n%s", res.Reason, s.Explain(res))
	case Unsupported, Unproven:
		t.Skipf("%s: %s", res.Outcome, res.Reason)
	case Pass:
		for _, m := range res.Messages {
			t.Logf("%s: %s", m.At, m.Text)
		}
	}
}
