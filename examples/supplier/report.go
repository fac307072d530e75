package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// slices of time in which calls are counted for the plot.
const columns = 60

// report is what was measured. It is what --json writes.
type report struct {
	Store     string        `json:"store"`
	Server    string        `json:"server"`
	Alone     bool          `json:"alone,omitempty"`
	InOne     bool          `json:"in_one_process,omitempty"` // clients of one process, not processes
	Rate      int           `json:"rate"`
	Per       time.Duration `json:"per_ns"`
	For       time.Duration `json:"for_ns"`
	Processes int           `json:"processes"`
	When      string        `json:"when"` // the day
	OS        string        `json:"os"`
	Arch      string        `json:"arch"`
	CPUs      int           `json:"cpus"`
	Load      float64       `json:"load"`
	Calls     int           `json:"calls"`
	Denied    int           `json:"denied"`
	Most      int           `json:"most_in_any_period"`
	Slice     time.Duration `json:"slice_ns"`
	Counts    []int         `json:"calls_per_slice"`  // calls in each slice
	Sums      []int         `json:"most_in_a_period"` // most calls in a period that ended in each slice, wherever it began
}

// newReport counts calls from began on.
func newReport(began int64, made []call) *report {
	r := &report{
		Alone: *alone, Rate: *rate, Per: *per, For: *during, Processes: *processes, Load: *load,
		When: time.Unix(0, began).UTC().Format(time.DateOnly), OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(),
		Calls: len(made), Slice: *during / columns, Counts: make([]int, columns), Sums: make([]int, columns),
	}
	slices.SortFunc(made, func(a, b call) int { return cmp.Compare(a.Sent, b.Sent) })
	for _, c := range made {
		i := int((c.Admitted - began) / int64(r.Slice))
		r.Counts[max(0, min(i, columns-1))]++
	}
	for i := range r.Sums {
		end := began + int64(r.Slice)*int64(i+1)
		r.Sums[i] = within(made, end-int64(r.Per), end)
	}
	for i, c := range made {
		end := c.Sent + int64(r.Per)
		n := within(made[i:], c.Sent, end)
		r.Most = max(r.Most, n)
		if at := (end - began) / int64(r.Slice); at < columns {
			r.Sums[at] = max(r.Sums[at], n)
		}
	}
	return r
}

// within counts the calls of a list, in the order of Sent, that were admitted from one moment on, and before another. One
// whose admission may lie outside is left out: no count is above what the limit admitted in that time.
func within(made []call, from, to int64) (n int) {
	first, _ := slices.BinarySearchFunc(made, from, func(c call, t int64) int { return cmp.Compare(c.Sent, t) })
	for _, c := range made[first:] {
		if c.Sent >= to {
			break
		}
		if c.Admitted < to {
			n++
		}
	}
	return n
}

// terminal is the plot as two lines of text.
func (r *report) terminal() string {
	sums := slices.Max(r.Sums)
	return fmt.Sprintf("calls in each %-8v %s  at most %d\nin any %-15v %s  at most %d",
		r.Slice.Round(time.Millisecond), bars(r.Counts, slices.Max(r.Counts)), slices.Max(r.Counts), r.Per, bars(r.Sums, max(r.Rate, sums)), sums)
}

// bars draws values as blocks, the highest as high as a line is.
func bars(values []int, highest int) string {
	const levels = " ▁▂▃▄▅▆▇█"
	steps := []rune(levels)
	var b strings.Builder
	for _, v := range values {
		level := 0
		if highest > 0 {
			level = (v*(len(steps)-1) + highest - 1) / highest // what is not nothing can be seen
		}
		b.WriteRune(steps[level])
	}
	return b.String()
}

// write writes the files that have names.
func (r *report) write(svg, figures string) error {
	if svg != "" {
		if err := os.WriteFile(svg, []byte(r.svg()), 0o644); err != nil {
			return err
		}
	}
	if figures == "" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(figures, append(text, '\n'), 0o644)
}
