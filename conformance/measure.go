package conformance

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// Spread is how the times that a case measured under one name lie.
type Spread struct {
	N   int           `json:"n"` // how many were measured
	Min time.Duration `json:"min_ns"`
	P50 time.Duration `json:"p50_ns"`
	P99 time.Duration `json:"p99_ns"` // of fewer than a hundred, the longest
	Max time.Duration `json:"max_ns"`
}

// Measures are what a case has measured: times, and how often something was done or seen.
type Measures struct {
	Times  map[string]Spread `json:"times,omitempty"`
	Counts map[string]int64  `json:"counts,omitempty"`
}

// maxSamples is how many times of one name are kept. Of more, each is kept with the same
// chance; the shortest and the longest are exact all the same.
const maxSamples = 2048

// samples are the times of one name.
type samples struct {
	n        int
	min, max time.Duration
	kept     []time.Duration
}

func (s *samples) add(d time.Duration) {
	if s.n == 0 || d < s.min {
		s.min = d
	}
	if s.n == 0 || d > s.max {
		s.max = d
	}
	s.n++
	if len(s.kept) < maxSamples {
		s.kept = append(s.kept, d)
	} else if i := rand.IntN(s.n); i < maxSamples {
		s.kept[i] = d
	}
}

// join takes over the times of another. Its shortest and its longest are among those that are exact.
func (s *samples) join(other *samples) {
	n := s.n + other.n
	for _, d := range other.kept {
		s.add(d)
	}
	s.n, s.min, s.max = n, min(s.min, other.min), max(s.max, other.max)
}

func (s *samples) spread() Spread {
	sorted := slices.Sorted(slices.Values(s.kept))
	// rank is the place of a percentile: so many of a hundred are at most that.
	rank := func(percent int) int { return (percent*len(sorted)+99)/100 - 1 }
	return Spread{N: s.n, Min: s.min, P50: sorted[rank(50)], P99: sorted[rank(99)], Max: s.max}
}

// meter collects what one case measures.
type meter struct {
	times  map[string]*samples
	counts map[string]int64
}

func (m *meter) time(name string, d time.Duration) {
	if m.times == nil {
		m.times = make(map[string]*samples)
	}
	if m.times[name] == nil {
		m.times[name] = &samples{}
	}
	m.times[name].add(d)
}

func (m *meter) count(name string, n int) {
	if m.counts == nil {
		m.counts = make(map[string]int64)
	}
	m.counts[name] += int64(n)
}

func (m *meter) measures() Measures {
	out := Measures{Counts: maps.Clone(m.counts)}
	for name, s := range m.times {
		if out.Times == nil {
			out.Times = make(map[string]Spread)
		}
		out.Times[name] = s.spread()
	}
	return out
}

// join takes over what another meter has.
func (m *meter) join(other *meter) {
	for name, s := range other.times {
		if m.times == nil {
			m.times = make(map[string]*samples)
		}
		if m.times[name] == nil {
			m.times[name] = &samples{}
		}
		m.times[name].join(s)
	}
	for name, n := range other.counts {
		m.count(name, int(n))
	}
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

func (s Spread) String() string {
	if s.N == 1 {
		return s.Max.String()
	}
	return fmt.Sprintf("%d × %v to %v, median %v, p99 %v", s.N, s.Min, s.Max, s.P50, s.P99)
}
