package conformance

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/coordgo/coord/conformance/internal/report"
)

// Spread is how the times that a case measured under one name lie.
type Spread struct {
	N   int           `json:"n"` // how many were measured
	Min time.Duration `json:"min_ns"`
	P50 time.Duration `json:"p50_ns"`
	P99 time.Duration `json:"p99_ns"` // of fewer than a hundred, the longest
	Max time.Duration `json:"max_ns"`
}

func (s Spread) String() string { return report.Spread(s).String() }

// Measures are what a case has measured: times, and how often something was done or seen.
type Measures struct {
	Times  map[string]Spread `json:"times,omitempty"`
	Counts map[string]int64  `json:"counts,omitempty"`
}

// measuresOf reads a meter.
func measuresOf(m *report.Meter) Measures {
	out := Measures{Counts: m.Counts()}
	for name, s := range m.Spreads() {
		if out.Times == nil {
			out.Times = make(map[string]Spread)
		}
		out.Times[name] = Spread(s)
	}
	return out
}

// lines are the measures as a person reads them, by name.
func (m *Measures) lines() []string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(m.Times)) {
		lines = append(lines, name+": "+m.Times[name].String())
	}
	for _, name := range slices.Sorted(maps.Keys(m.Counts)) {
		lines = append(lines, fmt.Sprintf("%s: %d", name, m.Counts[name]))
	}
	return lines
}
