package report

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// Spread is the distribution of the times that were measured under one name.
type Spread struct {
	N                  int // how many were measured
	Min, P50, P99, Max time.Duration
}

// maxSamples is how many times of one name are kept. Of more, each is kept with the same chance. The shortest and the
// longest are always exact.
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

// join adds the times of another. The shortest and the longest of both stay exact.
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

// Meter collects what one case measures: times, and how often something was done or seen.
type Meter struct {
	times  map[string]*samples
	counts map[string]int64
}

// Time adds a time to those of one name.
func (m *Meter) Time(name string, d time.Duration) { m.of(name).add(d) }

func (m *Meter) of(name string) *samples {
	if m.times == nil {
		m.times = make(map[string]*samples)
	}
	if m.times[name] == nil {
		m.times[name] = &samples{}
	}
	return m.times[name]
}

// Count adds n to a number.
func (m *Meter) Count(name string, n int) {
	if m.counts == nil {
		m.counts = make(map[string]int64)
	}
	m.counts[name] += int64(n)
}

// Join adds what another meter has.
func (m *Meter) Join(other *Meter) {
	for name, s := range other.times {
		m.of(name).join(s)
	}
	for name, n := range other.counts {
		m.Count(name, int(n))
	}
}

// Counts are the numbers by name.
func (m *Meter) Counts() map[string]int64 { return maps.Clone(m.counts) }

// Spreads are the distributions of the times by name.
func (m *Meter) Spreads() map[string]Spread {
	all := make(map[string]Spread)
	for name, s := range m.times {
		all[name] = s.spread()
	}
	return all
}

// String is the distribution in words.
func (s Spread) String() string {
	if s.N == 1 {
		return s.Max.String()
	}
	return fmt.Sprintf("%d × %v to %v, median %v, p99 %v", s.N, s.Min, s.Max, s.P50, s.P99)
}
