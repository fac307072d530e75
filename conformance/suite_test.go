package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
)

func memoryHarness() Harness {
	s := memory.NewStore()
	return Harness{Open: func(TB) driver.Backend { return s.Open() }, Claims: memory.Claims}
}

// outcome runs one case of the test's own.
func outcome(t *testing.T, h Harness, c Case) Result {
	t.Helper()
	s := &Suite{Harness: h, Only: func(Case) bool { return false }, Alone: "run {case} alone"}
	r, err := s.prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.ID, c.Name, c.Clause, c.Why = "LOCK-00", "test", "L1", "it is a test"
	return r.runCase(t.Context(), &c)
}

func TestOutcomes(t *testing.T) {
	pass, fail := func(*env) {}, func(e *env) { e.Errorf("saw 1, want 2") }
	limited := Harness{Open: func(TB) driver.Backend { return onlyLimits{} }}
	for name, test := range map[string]struct {
		harness Harness
		c       Case
		want    Outcome
		says    string
	}{
		"pass":                 {memoryHarness(), Case{run: pass}, Pass, ""},
		"fail":                 {memoryHarness(), Case{run: fail}, Fail, "saw 1, want 2"},
		"fatal":                {memoryHarness(), Case{run: func(e *env) { e.Fatalf("no more") }}, Fail, "no more"},
		"panic":                {memoryHarness(), Case{run: func(*env) { panic("oops") }}, Fail, "oops"},
		"ended from outside":   {memoryHarness(), Case{run: func(*env) { runtime.Goexit() }}, Fail, "ended the goroutine"},
		"cleanup fails":        {memoryHarness(), Case{run: func(e *env) { e.Cleanup(func() { e.Errorf("left over") }) }}, Fail, "left over"},
		"claim proved":         {memoryHarness(), Case{run: pass, Proves: driver.Fair}, Pass, ""},
		"claim broken":         {memoryHarness(), Case{run: fail, Proves: driver.Fair}, Fail, ""},
		"not claimed":          {memoryHarness(), Case{run: fail, Proves: driver.LossPush}, Unsupported, "loss-push"},
		"works unclaimed":      {memoryHarness(), Case{run: pass, Proves: driver.LossPush}, Unsupported, "it could"},
		"claim needed":         {memoryHarness(), Case{run: fail, Needs: driver.Claims{driver.LossPush}}, Unsupported, "loss-push"},
		"hook needed":          {memoryHarness(), Case{run: fail, Hooks: []Hook{HookWipe}}, Unproven, "Faults.Wipe"},
		"hook pointless":       {memoryHarness(), Case{run: fail, Hooks: []Hook{HookPause}}, Unsupported, "no server"},
		"about another":        {memoryHarness(), Case{run: func(e *env) { e.Unsupported("of no concern") }}, Unsupported, "of no concern"},
		"about another, fails": {memoryHarness(), Case{run: func(e *env) { e.Cleanup(func() { e.Errorf("left over") }); e.Unsupported("of no concern") }}, Fail, "left over"},
		"half missing":         {limited, Case{run: fail}, Unsupported, "no locks"},
	} {
		t.Run(name, func(t *testing.T) {
			res := outcome(t, test.harness, test.c)
			text := res.Reason
			for _, m := range res.Messages {
				text += m.Text
			}
			if res.Outcome != test.want || !strings.Contains(text, test.says) {
				t.Errorf("%s: %q, want %s with %q", res.Outcome, text, test.want, test.says)
			}
			if unclaimed := name == "works unclaimed"; (res.Unclaimed != "") != unclaimed {
				t.Errorf("unclaimed %q", res.Unclaimed)
			}
		})
	}
}

type onlyLimits struct{ driver.Unimplemented }

func (onlyLimits) Info() driver.Info { return driver.Info{Name: "limits"} }
func (onlyLimits) Close() error      { return nil }

func (f onlyLimits) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (driver.TakenOne, error) {
	return driver.One(f.Take(ctx, key, l, []driver.Ask{a}))
}

func (onlyLimits) Take(context.Context, string, driver.Limit, []driver.Ask) (driver.Taken, error) {
	return driver.Taken{}, nil
}

// Who ends a run is not kept waiting for a case that ignores its context.
func TestRunEndsThoughACaseDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		release := make(chan struct{})
		defer close(release)
		s := &Suite{Harness: memoryHarness(), Only: func(Case) bool { return false }}
		r, err := s.prepare(ctx)
		if err != nil {
			t.Fatal(err)
		}
		// It returns before release is closed.
		r.runCase(ctx, &Case{ID: "LOCK-00", run: func(*env) {
			cancel()
			<-release
		}})
	})
}

func TestWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		res := outcome(t, memoryHarness(), Case{run: func(e *env) { <-e.Context().Done() }})
		if text := res.explainedBy("did not end within 5m"); res.Outcome != Fail || !strings.Contains(text, "goroutine ") {
			t.Errorf("a case that hangs: %s, %q, want a failure with the stacks of all goroutines", res.Outcome, text)
		}
	})
}

// When something happens is judged in fake time, and nowhere else.
func TestLatenessIsJudgedInFakeTime(t *testing.T) {
	for _, fake := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := memoryHarness()
			h.FakeTime = fake
			late := outcome(t, h, Case{run: func(e *env) {
				start := time.Now()
				e.pass(2 * time.Second)
				e.inTime(start, time.Second, "a call")
			}})
			awaited := outcome(t, h, Case{run: func(e *env) {
				start := time.Now()
				e.until(time.Second, "an event", func() bool { return time.Since(start) > 50*time.Second })
			}})
			never := outcome(t, h, Case{run: func(e *env) { e.until(time.Second, "an event", func() bool { return false }) }})
			want := Pass
			if fake {
				want = Fail
			}
			if late.Outcome != want || awaited.Outcome != want || never.Outcome != Fail {
				t.Errorf("fake time %v: what is late %s, what comes within the watchdog %s, what never comes %s; want %s, %s, fail",
					fake, late.Outcome, awaited.Outcome, never.Outcome, want, want)
			}
			alone := outcome(t, h, Case{Hooks: []Hook{HookFakeTime}, run: func(*env) {}})
			if fake && alone.Outcome != Pass || !fake && (alone.Outcome != Unproven || !strings.Contains(alone.Reason, "fake time")) {
				t.Errorf("fake time %v: a case that needs it: %s, %q", fake, alone.Outcome, alone.Reason)
			}
		})
	}
}

// explainedBy gives the message that says so.
func (res *Result) explainedBy(text string) string {
	for _, m := range res.Messages {
		if strings.Contains(m.Text, text) {
			return m.Text
		}
	}
	return ""
}

func TestExplain(t *testing.T) {
	res := outcome(t, memoryHarness(), Case{run: func(e *env) { e.noError(context.Canceled, "the call") }})
	s := Suite{Alone: "go run . {case}"}
	text := s.Explain(res)
	for _, want := range []string{"LOCK-00", "clause L1", "the call: saw context canceled, want no error", "suite_test.go:", "it is a test", "go run . LOCK-00"} {
		if !strings.Contains(text, want) {
			t.Errorf("a failure is told as %q, want %q in it", text, want)
		}
	}
}

func TestSuiteReports(t *testing.T) {
	var started, finished atomic.Int32
	s := &Suite{
		Harness:  memoryHarness(),
		Only:     func(c Case) bool { return c.ID == "LOCK-02" || c.ID == "LOCK-05" || c.ID == "LOCK-17" },
		Seed:     7,
		Started:  func(Case) { started.Add(1) },
		Finished: func(Result) { finished.Add(1) },
	}
	r, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if started.Load() != 3 || finished.Load() != 3 || r.Failed() || r.Count(Pass) != 2 || r.Count(Unproven) != 1 {
		t.Errorf("%d started, %d finished, report %+v: want 3, 3, two passed and one unproven", started.Load(), finished.Load(), r)
	}
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if back.Schema != Schema || back.Seed != 7 || back.Store.Name != "memory" || len(back.Results) != 3 || back.Results[0].ID != "LOCK-02" {
		t.Errorf("the report read back: %+v", back)
	}
}

func TestSuiteWithoutStore(t *testing.T) {
	if _, err := (&Suite{}).Run(t.Context()); err == nil {
		t.Error("a suite without Open ran")
	}
	if _, err := (&Suite{Harness: memoryHarness(), Parallel: -1}).Run(t.Context()); err == nil {
		t.Error("a suite of -1 cases at a time ran")
	}
	s := &Suite{Harness: Harness{Open: func(tb TB) driver.Backend {
		tb.Fatalf("connection refused")
		return nil
	}}}
	if _, err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("a store that does not open: %v, want its error", err)
	}
}

// Two of three spends fall into one period, the third may not have.
func TestMostWithin(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	spends := []spend{{at(0), at(1), 5}, {at(90), at(99), 7}, {at(95), at(105), 11}}
	if n := mostWithin(spends, 100*time.Millisecond); n != 18 {
		t.Errorf("most within 100ms: %d, want 18", n)
	}
	if n := mostWithin(spends, 106*time.Millisecond); n != 23 {
		t.Errorf("most within 106ms: %d, want 23", n)
	}
}

func TestOverBucket(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	l := normal(driver.Limit{Rate: 10, Per: time.Second, Burst: 5})
	if n := overBucket([]spend{{at(0), at(0), 5}, {at(200), at(300), 3}}, l); n > 0 {
		t.Errorf("5 at once and 3 in 300ms: overdrawn by %d, want not certainly", n)
	}
	if n := overBucket([]spend{{at(0), at(0), 5}, {at(200), at(300), 4}}, l); n != 1 {
		t.Errorf("5 at once and 4 in 300ms: overdrawn by %d, want 1", n)
	}
}

// A store that goes away in the middle is told as such, and not as broken clauses.
func TestStoreThatGoesAway(t *testing.T) {
	for name, back := range map[string]bool{"for good": false, "for a moment": true} {
		t.Run(name, func(t *testing.T) {
			h := memoryHarness()
			open, calls := h.Open, 0
			var mu sync.Mutex
			h.Open = func(tb TB) driver.Backend {
				mu.Lock()
				calls++
				n := calls
				mu.Unlock()
				if n == 2 || n > 2 && !back { // the first is before the cases
					tb.Fatalf("connection refused")
				}
				return open(tb)
			}
			var finished []Result
			s := &Suite{
				Harness: h, Parallel: 1,
				Only:     func(c Case) bool { return c.ID == "LOCK-02" || c.ID == "LOCK-05" },
				Finished: func(r Result) { finished = append(finished, r) },
			}
			r, err := s.Run(t.Context())
			switch {
			case back && (err != nil || r.Count(Fail) != 1 || r.Count(Pass) != 1):
				t.Errorf("%+v, %v: want one failure and one pass", r, err)
			case !back && (!errors.Is(err, ErrNoStore) || !strings.Contains(err.Error(), "any more: connection refused") || len(finished) > 0):
				t.Errorf("%v, and %d results: want only that the store has gone", err, len(finished))
			}
		})
	}
}

// Test runs the selected cases alone, as subtests.
func TestPartOfTheSuite(t *testing.T) {
	s := &Suite{Harness: memoryHarness(), Only: func(c Case) bool { return c.ID == "CORE-01" }}
	r := s.Test(t)
	if len(r.Results) != 1 || r.Results[0].ID != "CORE-01" || r.Results[0].Outcome != Pass || !r.Selection.Partial {
		t.Errorf("one case selected: saw %+v of a selection %+v", r.Results, r.Selection)
	}
}

// A fast pass tells what it left out.
func TestFastPass(t *testing.T) {
	s := &Suite{Harness: memoryHarness(), Fast: true, Only: func(Case) bool { return false }}
	r, err := s.prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	res := r.runCase(t.Context(), &Case{ID: "LOCK-00", Slow: true, run: func(e *env) { e.Errorf("it ran") }})
	if res.Outcome != Unproven || !strings.Contains(res.Reason, "fast pass") {
		t.Errorf("%s, %q, want unproven, left out by the fast pass", res.Outcome, res.Reason)
	}
}
