package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/coordgo/coord/internal/bench"
)

// runner measures everything: it has the stores, and how to measure.
type runner struct {
	*options
	log    io.Writer
	stores map[string]*store
	serial int // of the keys: none is used twice
}

// results are what one run has found.
type results struct {
	date      time.Time
	machine   bench.Machine
	loadAfter float64
	libraries map[string]string
	stores    map[string]string // with their versions
	rounds    int
	forEach   time.Duration
	complete  bool // everything was measured, on every store, at the usual settings
	took      time.Duration
	rows      []*row
}

// row is one subject at one workload.
type row struct {
	subject
	workload *workload
	rounds   []figures // nil of one that failed
	failures []string
}

// values are a figure, of the rounds that have it, in order of size.
func (r *row) values(figure string) (list []float64) {
	for _, f := range r.rounds {
		if v, ok := f[figure]; ok {
			list = append(list, v)
		}
	}
	slices.Sort(list)
	return list
}

// slowerThan is how much worse r is than other, in the median of the rounds; 0 if there is no round of both.
func (r *row) slowerThan(other *row) float64 {
	var ratios []float64
	for i := range min(len(r.rounds), len(other.rounds)) {
		if ratio := r.workload.ratio(r.rounds[i], other.rounds[i]); ratio > 0 {
			ratios = append(ratios, ratio)
		}
	}
	return bench.Median(ratios)
}

// breached is an error if more held a lock of coord at once than may.
func (r *results) breached() (err error) {
	for _, row := range r.rows {
		if n := row.values("overlaps"); row.kind == ours && len(n) > 0 && n[len(n)-1] > 0 {
			err = errors.Join(err, fmt.Errorf("%s, %s, %s: %v times more held it than may", row.workload.name, row.store, row.name, n[len(n)-1]))
		}
	}
	return err
}

// all measures every workload, until it is through or ctx ends.
func (b *runner) all(ctx context.Context) *results {
	r := &results{
		date: time.Now().UTC(), machine: bench.ThisMachine(), libraries: versions(), stores: map[string]string{},
		rounds: b.Rounds, forEach: b.ForEach,
	}
	for name, s := range b.stores {
		r.stores[name] = s.version
	}
	for _, w := range workloads() {
		r.rows = append(r.rows, b.workload(ctx, w)...)
	}
	r.loadAfter, r.took = bench.LoadAverage(), time.Since(r.date)
	r.complete = ctx.Err() == nil && b.Run.String() == "" && b.Rounds >= 5 && b.ForEach >= time.Second && len(b.stores) == len(storeNames)
	return r
}

// workload measures all subjects in turn: A B C, A B C; each round begins with another.
func (b *runner) workload(ctx context.Context, w *workload) (rows []*row) {
	for _, s := range subjects() {
		if b.stores[s.store] != nil && w.takes(s) && b.Run.MatchString(w.name+"/"+s.store+"/"+s.name) {
			rows = append(rows, &row{subject: s, workload: w})
		}
	}
	for round := range b.Rounds {
		for i := range rows {
			if ctx.Err() == nil {
				b.measureOne(ctx, rows[(i+round)%len(rows)])
			}
		}
	}
	slices.SortStableFunc(rows, func(a, b *row) int { return slices.Index(storeNames, a.store) - slices.Index(storeNames, b.store) })
	return rows
}

// failuresAtMost is how often a subject is tried again in another round after it failed: each
// time may take as long as the patience.
const failuresAtMost = 2

func (b *runner) measureOne(ctx context.Context, r *row) {
	if len(r.failures) >= failuresAtMost {
		r.rounds = append(r.rounds, nil)
		return
	}
	runtime.GC()
	b.serial++
	w := r.workload
	m := &measurement{subject: r.subject, st: b.stores[r.store], key: fmt.Sprintf("bench%d", b.serial), forEach: b.ForEach}
	if w.share > 0 {
		m.forEach = time.Duration(float64(m.forEach) * w.share)
	}
	f, err := w.measure(ctx, m)
	told := w.told(f)
	if err != nil {
		told = strings.Join(strings.Fields(err.Error()), " ")
		told = told[:min(len(told), 200)]
		r.failures = append(r.failures, told)
		f = nil
	}
	r.rounds = append(r.rounds, f)
	fmt.Fprintf(b.log, "%-16s %-10s %-24s %s\n", w.name, r.store, r.name, told)
}

// told is a line about one measurement.
func (w *workload) told(f figures) string {
	var parts []string
	for _, c := range w.columns {
		if v, ok := f[c.figure]; ok {
			parts = append(parts, c.title+" "+bench.Figure(v))
		}
	}
	return strings.Join(parts, ", ")
}
