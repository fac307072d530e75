package report

import (
	"testing"
	"time"
)

// A part of a case that measured more than is kept keeps how much it was, and its ends.
func TestJoinedSamplesKeepTheirEnds(t *testing.T) {
	var whole, part Meter
	whole.Time("t", time.Second)
	for i := range 10 * maxSamples {
		part.Time("t", time.Duration(i+1))
	}
	whole.Join(&part)
	s := whole.Spreads()["t"]
	if s.N != 10*maxSamples+1 || s.Min != 1 || s.Max != time.Second {
		t.Errorf("saw %v, want %d times from 1ns to 1s", s, 10*maxSamples+1)
	}
}

func TestSpread(t *testing.T) {
	var m Meter
	for i := 200; i >= 1; i-- {
		m.Time("many", time.Duration(i))
	}
	m.Time("one", 7)
	m.Count("calls", 2)
	m.Count("calls", 3)
	m.Count("none", 0)
	got, counts := m.Spreads(), m.Counts()
	if want := (Spread{N: 200, Min: 1, P50: 100, P99: 198, Max: 200}); got["many"] != want {
		t.Errorf("1 to 200: %+v, want %+v", got["many"], want)
	}
	if want := (Spread{N: 1, Min: 7, P50: 7, P99: 7, Max: 7}); got["one"] != want {
		t.Errorf("one: %+v, want %+v", got["one"], want)
	}
	if n, ok := counts["none"]; counts["calls"] != 5 || n != 0 || !ok {
		t.Errorf("counts %v, want 5 calls, and the 0 that was counted", counts)
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
