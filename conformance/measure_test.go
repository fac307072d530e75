package conformance

import (
	"testing"
	"time"
)

// The figures tell how many cases ran twice.
func TestFiguresTellWhatRanAgain(t *testing.T) {
	results := []Result{{Again: "a lease"}, {}, {Again: "another"}}
	if list := figures(results, 0); len(list) != 1 || list[0].Value != "2" || list[0].Of != 3 {
		t.Errorf("saw %+v, want the 2 of 3 that ran again", list)
	}
}

// What is measured in a scope of a case is the case's.
func TestScopeMeasures(t *testing.T) {
	res := outcome(t, memoryHarness(), Case{run: func(e *env) {
		e.Measure("wait", time.Second)
		e.scope(func(e *env) {
			e.Measure("wait", 3*time.Second)
			e.Count("calls", 4)
		})
	}})
	if got := res.Measures.Times["wait"]; got.N != 2 || got.Max != 3*time.Second || res.Measures.Counts["calls"] != 4 {
		t.Errorf("measured %+v, want both times and the count", res.Measures)
	}
}
