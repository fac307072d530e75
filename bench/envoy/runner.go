package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/coordgo/coord/bench/internal/command"
	"github.com/coordgo/coord/internal/bench"
)

// runner measures everything.
type runner struct {
	*command.Options
	log   io.Writer
	start func(context.Context, subject) (*target, error)
	redis int // the process
}

// results are what one run has found.
type results struct {
	date       time.Time
	machine    bench.Machine
	loadAfter  float64
	versions   []string
	rounds     int
	forEach    time.Duration
	complete   bool // everything was measured, at the usual settings
	took       time.Duration
	cells      []*cell
	admissions []admission
}

// cell is one subject at one row.
type cell struct {
	row
	subject
	rounds []figures
}

// median is that of a figure in the rounds.
func (c *cell) median(of func(figures) float64) float64 {
	var values []float64
	for _, f := range c.rounds {
		values = append(values, of(f))
	}
	return bench.Median(values)
}

// times is how many times the figure of other c has, in the median of the rounds.
func (c *cell) times(other *cell, of func(figures) float64) float64 {
	var ratios []float64
	for i := range min(len(c.rounds), len(other.rounds)) {
		if theirs := of(other.rounds[i]); theirs > 0 {
			ratios = append(ratios, of(c.rounds[i])/theirs)
		}
	}
	return bench.Median(ratios)
}

// breached is an error if a quota was not kept.
func (r *results) breached() (err error) {
	for _, a := range r.admissions {
		if !a.right() {
			err = errors.Join(err, fmt.Errorf("%s admitted %d of %d requests: want %d", a.name, a.admitted, a.asked, most))
		}
	}
	return err
}

// all measures what the options want.
func (b *runner) all(ctx context.Context, versions []string) (*results, error) {
	r := &results{date: time.Now().UTC(), machine: bench.ThisMachine(), versions: versions, rounds: b.Rounds, forEach: b.ForEach}
	started := map[string]*target{}
	for _, row := range rows() {
		cells, err := b.row(ctx, row, started)
		if err != nil {
			return nil, err
		}
		r.cells = append(r.cells, cells...)
	}
	var err error
	if r.admissions, err = b.quotas(ctx); err != nil {
		return nil, err
	}
	r.loadAfter, r.took = bench.LoadAverage(), time.Since(r.date)
	r.complete = b.Run.String() == "" && b.Rounds >= 5 && b.ForEach >= time.Second
	return r, nil
}

// row measures all subjects in turn: A B C, A B C; each round begins with another. All have been started before the first.
func (b *runner) row(ctx context.Context, at row, started map[string]*target) (cells []*cell, err error) {
	for _, s := range subjects() {
		if s.most > 0 && at.descriptors > s.most || !b.Run.MatchString(at.String()+"/"+s.name) {
			continue
		}
		if started[s.name] == nil {
			if started[s.name], err = b.start(ctx, s); err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
		}
		cells = append(cells, &cell{row: at, subject: s})
	}
	for round := range b.Rounds {
		for i := range cells {
			c := cells[(i+round)%len(cells)]
			f, err := newLoad(started[c.name], at).measure(ctx, b.ForEach, b.redis)
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if err != nil {
				return nil, fmt.Errorf("%s/%s: %w", at, c.name, err)
			}
			c.rounds = append(c.rounds, f)
			fmt.Fprintf(b.log, "%-14s %-36s %s a second, %s µs, p99 %s µs\n", at, c.name, bench.Figure(f.rate), bench.Figure(f.us), bench.Figure(f.p99))
		}
	}
	return cells, nil
}

// quotas asks two processes of coord for more than is there.
func (b *runner) quotas(ctx context.Context) (list []admission, err error) {
	i := slices.IndexFunc(subjects(), func(s subject) bool { return s.ours })
	var two [2]*target
	for _, q := range quotas {
		if !b.Run.MatchString("admitted/" + q.key()) {
			continue
		}
		for n := range two {
			if two[n] == nil {
				if two[n], err = b.start(ctx, subjects()[i]); err != nil {
					return nil, err
				}
			}
		}
		a, err := admitted(ctx, q, two)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", q.name, err)
		}
		fmt.Fprintf(b.log, "%s: %d of %d admitted\n", q.name, a.admitted, a.asked)
		list = append(list, a)
	}
	return list, nil
}
