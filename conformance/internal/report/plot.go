package report

import (
	"maps"
	"math"
	"slices"
	"time"
)

// Plot shows the times of one name, a bar for each store on one logarithmic axis.
type Plot struct {
	Name   string
	Height int
	Bars   []bar
	Ticks  []tick
}

// bar reaches from the shortest to the longest time, with marks at median and p99. All are
// distances from the left, in pixels.
type bar struct {
	Store, Text        string
	Y                  int
	Left, Right        float64
	Median, P99, Width float64
}

type tick struct {
	X     float64
	Label string
}

const (
	plotLeft  = 190 // of the axis, after the names of the stores
	plotWidth = 480
	plotRow   = 22
)

// Plots draws every name that was measured: all has the times of each column.
func Plots(columns []string, all []map[string]Spread) []Plot {
	names := make(map[string]bool)
	for _, times := range all {
		for name := range times {
			names[name] = true
		}
	}
	var list []Plot
	for _, name := range slices.Sorted(maps.Keys(names)) {
		list = append(list, draw(name, columns, all))
	}
	return list
}

func draw(name string, columns []string, all []map[string]Spread) Plot {
	low, high := math.Inf(1), math.Inf(-1)
	for _, times := range all {
		if s, ok := times[name]; ok {
			low, high = min(low, decade(s.Min)), max(high, decade(s.Max))
		}
	}
	low, high = math.Floor(low), math.Max(math.Ceil(high), math.Floor(low)+1)
	x := func(at float64) float64 {
		return plotLeft + math.Round(10*plotWidth*(at-low)/(high-low))/10
	}
	p := Plot{Name: name}
	for at := low; at <= high; at++ {
		p.Ticks = append(p.Ticks, tick{x(at), time.Duration(math.Round(math.Pow(10, at))).String()})
	}
	for i, times := range all {
		s, ok := times[name]
		if !ok {
			continue
		}
		b := bar{
			Store: columns[i], Text: s.shortly(), Y: plotRow * len(p.Bars),
			Left: x(decade(s.Min)), Right: x(decade(s.Max)), Median: x(decade(s.P50)), P99: x(decade(s.P99)),
		}
		b.Width = math.Max(b.Right-b.Left, 2)
		p.Bars = append(p.Bars, b)
	}
	p.Height = plotRow*len(p.Bars) + 24
	return p
}

// decade is the logarithm of a time in nanoseconds. A time below a microsecond, such as a loss that was
// known after the next grant, is at the left end.
func decade(d time.Duration) float64 {
	return math.Log10(float64(max(d, 1000)))
}

func (s Spread) shortly() string {
	if s.N == 1 {
		return Short(s.Max)
	}
	return Short(s.P50) + " median, " + Short(s.P99) + " p99, " + Short(s.Max) + " longest"
}
