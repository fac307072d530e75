package conformance

import (
	"testing"
	"time"
)

// A part of a case that measured more than is kept hands on how much it was, and its ends.
func TestJoinedSamplesKeepTheirEnds(t *testing.T) {
	var whole, part meter
	whole.time("t", time.Second)
	for i := range 10 * maxSamples {
		part.time("t", time.Duration(i+1))
	}
	whole.join(&part)
	s := whole.measures().Times["t"]
	if s.N != 10*maxSamples+1 || s.Min != 1 || s.Max != time.Second {
		t.Errorf("saw %v, want %d times from 1ns to 1s", s, 10*maxSamples+1)
	}
}

// The figures tell how many cases ran twice.
func TestFiguresTellWhatRanAgain(t *testing.T) {
	results := []Result{{Again: "a lease"}, {}, {Again: "another"}}
	if list := figures(results, 0); len(list) != 1 || list[0].Value != "2" || list[0].Of != 3 {
		t.Errorf("saw %+v, want the 2 of 3 that ran again", list)
	}
}

func TestSpread(t *testing.T) {
	var m meter
	for i := 200; i >= 1; i-- {
		m.time("many", time.Duration(i))
	}
	m.time("one", 7)
	m.count("calls", 2)
	m.count("calls", 3)
	m.count("none", 0)
	got := m.measures()
	if want := (Spread{N: 200, Min: 1, P50: 100, P99: 198, Max: 200}); got.Times["many"] != want {
		t.Errorf("1 to 200: %+v, want %+v", got.Times["many"], want)
	}
	if want := (Spread{N: 1, Min: 7, P50: 7, P99: 7, Max: 7}); got.Times["one"] != want {
		t.Errorf("one: %+v, want %+v", got.Times["one"], want)
	}
	if n, ok := got.Counts["none"]; got.Counts["calls"] != 5 || n != 0 || !ok {
		t.Errorf("counts %v, want 5 calls, and the 0 that was counted", got.Counts)
	}
}

// More than are kept: the ends are exact, and the middle is about right.
func TestSpreadOfVeryMany(t *testing.T) {
	var s samples
	const n = 50 * maxSamples
	for i := range n {
		s.add(time.Duration(i))
	}
	got := s.spread()
	if len(s.kept) != maxSamples || got.N != n || got.Min != 0 || got.Max != n-1 {
		t.Errorf("%d kept, %+v: want %d, the count and both ends", len(s.kept), got, maxSamples)
	}
	if got.P50 < n/3 || got.P50 > 2*n/3 || got.P99 < got.P50 {
		t.Errorf("median %d, p99 %d of 0 to %d", got.P50, got.P99, n-1)
	}
}

// What is measured in a scope of a case is the case's.
func TestScopeMeasures(t *testing.T) {
	res := outcome(t, memoryHarness(), Case{run: func(e *env) {
		e.measure("wait", time.Second)
		e.scope(func(e *env) {
			e.measure("wait", 3*time.Second)
			e.count("calls", 4)
		})
	}})
	if got := res.Measures.Times["wait"]; got.N != 2 || got.Max != 3*time.Second || res.Measures.Counts["calls"] != 4 {
		t.Errorf("measured %+v, want both times and the count", res.Measures)
	}
}
