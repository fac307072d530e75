package soak

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
)

func TestMain(m *testing.M) {
	conformance.WorkerMain()
	redis.SetLogger(silent{})
	goleak.VerifyTestMain(m)
}

// silent keeps go-redis from telling of each connection that a case breaks.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// TestSoak proves that a driver which keeps the contract is never failed. COORD_SOAK_PASSES is how often
// the suite passes over each store, ten times as often over memory; COORD_SOAK_STORES selects stores.
// COORD_SOAK_REPORT is the file that the report is written to.
func TestSoak(t *testing.T) {
	passes, err := strconv.Atoi(os.Getenv("COORD_SOAK_PASSES"))
	if err != nil || passes < 1 {
		t.Skip("unsupported: repeated passes are a part of make soak, which sets COORD_SOAK_PASSES")
	}
	report := &Report{
		Suite: conformance.Version, Started: time.Now(),
		Env: conformance.Environment{Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU()},
	}
	results := make([]*Result, len(stores))
	t.Run("stores", func(t *testing.T) {
		only := os.Getenv("COORD_SOAK_STORES")
		for i, store := range stores {
			if only == "" || slices.Contains(strings.Split(only, ","), store.name) {
				t.Run(store.name, func(t *testing.T) {
					t.Parallel() // two at a time on a machine with two processors
					results[i] = soak(t, i, passes)
				})
			}
		}
	})
	for _, r := range results {
		if r != nil {
			report.Stores = append(report.Stores, *r)
			report.Env.Starved = max(report.Env.Starved, r.Starved)
		}
	}
	report.Took = time.Since(report.Started)
	if path := os.Getenv("COORD_SOAK_REPORT"); path != "" {
		if err := report.Write(path); err != nil {
			t.Error(err)
		}
	}
}

// soak passes over one store, and fails t for every case that failed.
func soak(t *testing.T, i, passes int) *Result {
	s := Store{Name: stores[i].name, Passes: passes}
	if s.Name == "memory" {
		s.Passes *= 10
	}
	for range min(stores[i].harnesses, s.Passes) {
		s.Harnesses = append(s.Harnesses, stores[i].harness(t))
	}
	r, err := s.Run(t.Context())
	if err != nil {
		t.Error(err)
	}
	t.Logf("%d passes of %d cases in %v, the longest %v: %d failed", r.Passes, r.Cases, r.Took.Round(time.Second), r.Longest.Round(time.Millisecond), len(r.Failures))
	for _, f := range r.Failures {
		t.Errorf("pass %d, seed %d:\n%s", f.Pass, f.Seed, f.Text)
	}
	return r
}

func few(c conformance.Case) bool {
	return slices.Contains([]string{"CORE-01", "LOCK-02", "LIMIT-05"}, c.ID)
}

func TestPassesAreCounted(t *testing.T) {
	s := Store{Name: "memory", Passes: 5, Harnesses: []conformance.Harness{onMemory(t), onMemory(t)}, Only: few}
	r, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.Passes != 5 || r.Cases != 3 || r.Passed != 15 || len(r.Failures) != 0 || r.Longest <= 0 || r.Longest > r.Took {
		t.Errorf("5 passes of 3 cases on a store without a bug: saw %+v", r)
	}
}

// generous has one permit more than its limit.
type generous struct {
	driver.Backend
	driver.Locker
	driver.Limiter
}

func (b generous) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	l.Rate, l.Burst = l.Rate+1, l.Burst+1
	if l.Algorithm != driver.TokenBucket {
		l.Burst = 0
	}
	return b.Limiter.Take(ctx, key, l, asks)
}

func TestFailuresAreKept(t *testing.T) {
	store := memory.NewStore()
	h := conformance.Harness{
		Open: func(conformance.TB) driver.Backend {
			b := store.Open()
			return generous{b, b.(driver.Locker), b.(driver.Limiter)}
		},
		Claims: memory.Claims,
	}
	r, err := Store{Name: "generous", Passes: 2, Harnesses: []conformance.Harness{h}, Only: few}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.Passes != 2 || r.Passed != 4 || len(r.Failures) != 2 {
		t.Fatalf("2 passes of 3 cases of which one fails: saw %+v", r)
	}
	for i, f := range r.Failures {
		if f.Pass != i+1 || f.Case != "LIMIT-05" || f.Seed == 0 || !strings.Contains(f.Text, "clause R1") {
			t.Errorf("failure %d: saw %+v, want pass %d, LIMIT-05, its seed and what it says", i, f, i+1)
		}
	}
}

func TestReportIsReadAsItWasWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	want := Report{
		Suite: "1.0", Started: time.Now().UTC().Truncate(time.Second), Took: time.Minute,
		Stores: []Result{{
			Store: "a", Server: "A 1", Passes: 2, Cases: 3, Passed: 5, Longest: time.Second,
			Failures: []Failure{{Pass: 2, Case: "LOCK-01", Seed: 1<<64 - 1, Text: "why"}},
		}},
	}
	if err := want.Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if !got.Started.Equal(want.Started) || got.Took != want.Took || len(got.Stores) != 1 || got.Stores[0].Failures[0] != want.Stores[0].Failures[0] || got.Stores[0].Passed != 5 {
		t.Errorf("saw %+v, want %+v", got, want)
	}
}

func TestReportsThatCannotBeTrue(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":         `{`,
		"another report":  `{"schema": 2, "cases": []}`,
		"no stores":       `{"suite": "1", "started": "2026-01-01T00:00:00Z", "stores": []}`,
		"no passes":       `{"suite": "1", "started": "2026-01-01T00:00:00Z", "stores": [{"store": "a", "passes": 0, "cases": 9}]}`,
		"a store twice":   `{"suite": "1", "started": "2026-01-01T00:00:00Z", "stores": [{"store": "a", "passes": 1, "cases": 1}, {"store": "a", "passes": 1, "cases": 1}]}`,
		"more than there": `{"suite": "1", "started": "2026-01-01T00:00:00Z", "stores": [{"store": "a", "passes": 2, "cases": 2, "passed": 5}]}`,
	} {
		path := filepath.Join(t.TempDir(), "report.json")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if r, err := Read(path); err == nil {
			t.Errorf("%s: saw it read as %+v, want an error", name, r)
		}
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Errorf("a file that is not there: saw it read, want an error")
	}
}

// TestCheckedInReport: the soak that is checked in ran over every store, often enough, and no sound driver failed.
func TestCheckedInReport(t *testing.T) {
	r, err := Read("../../../docs/soak/conformance.json")
	if err != nil {
		t.Fatal(err)
	}
	ran := make(map[string]Result)
	for _, s := range r.Stores {
		ran[s.Store] = s
	}
	for _, s := range stores {
		want := 20
		if s.name == "memory" {
			want = 200
		}
		got := ran[s.name]
		if got.Passes < want || len(got.Failures) > 0 || got.Passed != got.Passes*got.Cases {
			t.Errorf("%s: %d passes, %d of %d cases passed, %d failures: want %d passes or more and no failure", s.name, got.Passes, got.Passed, got.Passes*got.Cases, len(got.Failures), want)
		}
	}
}
