package conformance

import (
	"strconv"
	"time"

	"github.com/coordgo/coord/conformance/internal/report"
)

// The names of what several cases measure, and what a report shows first.
const (
	// lossGap is from the moment that a holder knew of its loss to the next grant.
	lossGap = "from the loss being known to the next grant"
	// lossDetection is from the moment that a holder was cut off to the moment that it knew.
	lossDetection = "from the cut to the loss being known"
	// wakeUp is from the holder's Unlock being sent to the waiter's grant.
	wakeUp = "wake-up"
	// overBound counts permits that were granted above a limit's bound.
	overBound = "permits over the bound"
	// granted counts permits that were granted while many asked.
	granted = "permits granted under load"
)

// Figure is one of the headline figures of a report.
type Figure struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// Of says how many measurements it is of.
	Of int `json:"of"`
}

// figures are the headline figures of the results, those that were measured. How long the
// suite itself stood still, starved, is the measure of what may be late.
func figures(results []Result, starved time.Duration) []Figure {
	var all Measures
	for i := range results {
		all.merge(results[i].Measures)
	}
	var list []Figure
	for _, f := range []struct {
		name, of string
		value    func(Spread) time.Duration
	}{
		{"smallest gap between a loss being known and the next grant", lossGap, func(s Spread) time.Duration { return s.Min }},
		{"longest loss detection, from the cut", lossDetection, func(s Spread) time.Duration { return s.Max }},
		{"wake-up, p99", wakeUp, func(s Spread) time.Duration { return s.P99 }},
	} {
		if s, ok := all.Times[f.of]; ok {
			list = append(list, Figure{f.name, report.Short(f.value(s)), s.N})
		}
	}
	if n, ok := all.Counts[overBound]; ok {
		list = append(list, Figure{"over-admission, permits", strconv.FormatInt(n, 10), int(all.Counts[granted])})
	}
	if again := countAgain(results); again > 0 {
		list = append(list, Figure{"cases that were inconclusive, and ran again by themselves", strconv.Itoa(again), len(results)})
	}
	if starved > 0 {
		list = append(list, Figure{"longest time that the suite was not scheduled", report.Short(starved), 1})
	}
	return list
}

// countAgain is how many cases ran twice.
func countAgain(results []Result) int {
	n := 0
	for i := range results {
		if results[i].Again != "" {
			n++
		}
	}
	return n
}

// merge joins what several cases measured by one name. Percentiles cannot be joined: the
// worse one stands.
func (m *Measures) merge(other Measures) {
	for name, b := range other.Times {
		a, ok := m.Times[name]
		if !ok {
			a = b
		} else {
			a = Spread{a.N + b.N, min(a.Min, b.Min), max(a.P50, b.P50), max(a.P99, b.P99), max(a.Max, b.Max)}
		}
		if m.Times == nil {
			m.Times = make(map[string]Spread)
		}
		m.Times[name] = a
	}
	for name, n := range other.Counts {
		if m.Counts == nil {
			m.Counts = make(map[string]int64)
		}
		m.Counts[name] += n
	}
}
