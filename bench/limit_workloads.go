package main

import (
	"context"
	"time"

	"github.com/coordgo/coord/internal/bench"
)

var (
	plenty = bench.Rate{N: 1_000_000_000, Per: time.Second} // never denied
	scarce = bench.Rate{N: 1, Per: time.Hour}               // denied from the second on

	limitColumns = []column{{"ops_s", "a second"}, {"us", "µs for one"}, {"p99_us", "p99, µs"}, {"allocs", "allocations"}, {"commands", "commands"}, {"reads", "reads"}}
	inProcess    = []column{{"ns", "ns each"}, {"ops_s", "a second"}, {"allocs", "allocations"}}
)

func limitWorkloads() []*workload {
	server := func(name, title, about string, workers, keys int, r bench.Rate) *workload {
		w := &workload{
			name: name, title: title, about: about, takes: limitsOfServers, measure: limitLoad(workers, keys, 1, r),
			chief: "ops_s", axis: "decisions a second", columns: limitColumns, share: 0.5,
		}
		if workers == 1 && r == plenty {
			w.chief, w.lower, w.axis = "us", true, "µs for a decision"
		}
		return w
	}
	memory := func(name, title string, workers, keys int, r bench.Rate) *workload {
		return &workload{
			name: name, title: title, about: "In the process, without a store. `x/time/rate` has no keys: it is in a `sync.Map` here.", takes: limitsInMemory,
			measure: limitLoad(workers, keys, 100, r), chief: "ns", lower: true, axis: "ns from one decision to the next, of all goroutines", columns: inProcess, share: 0.5,
		}
	}
	return []*workload{
		server("limit-alone", "A decision, nobody else there", "One goroutine, one key, never denied.", 1, 1, plenty),
		server("limit-hot", "64 goroutines of one process on one key", "Never denied. Asks of one process that come together travel together in coord.", 64, 1, plenty),
		server("limit-keys", "64 goroutines on 10,000 keys", "Never denied. Each decision is on a key that is drawn anew, and most keys are asked for the first time.", 64, 10_000, plenty),
		server("limit-denied", "64 goroutines, all denied", "One key, one permit in an hour. coord remembers until when a key is denied, at most for a second, and asks nobody meanwhile.", 64, 1, scarce),
		{
			name: "exact", title: "12 processes, one limit of 2000 in a window",
			about: "A permit is taken, most of a window passes, and then 12 processes ask for as much as there is for more than two windows. The window is twice as long as other things are measured " +
				"(two seconds in a full run, for a minute), so that the run ends today. *Worst* is the most permits that were given in any one window, counted from request to answer. A limit that promises \"at most 2000 in any window\" may not " +
				"exceed 2000 there; a token bucket of that size may give up to 4000, and so may a fixed window. Fewer are given where so many deciders defeat each other at the store.",
			takes: limitsThatPromise, measure: exact, chief: "worst", lower: true, noRatio: true, axis: "permits in the worst window (2000 are meant)", share: 2, halfRounds: true,
			columns: []column{{"first", "in the first window"}, {"worst", "in the worst window"}},
		},
		memory("memory-alone", "In memory: one goroutine, one key", 1, 1, plenty),
		memory("memory-hot", "In memory: 64 goroutines, one key", 64, 1, plenty),
		memory("memory-keys", "In memory: 64 goroutines, 10,000 keys", 64, 10_000, plenty),
		memory("memory-denied", "In memory: one goroutine, always denied", 1, 1, scarce),
	}
}

func limitLoad(workers, keys, batch int, r bench.Rate) func(context.Context, *measurement) (figures, error) {
	return func(ctx context.Context, m *measurement) (figures, error) {
		c, err := m.limits(ctx, m.st, r)
		if err != nil {
			return nil, err
		}
		defer closing(c)
		load := bench.LimitLoad{Load: bench.Load{Workers: workers, For: m.forEach / 10, Batch: batch, Patience: patience, Endless: true}, Key: m.key, Keys: keys}
		if _, err := bench.Limits(ctx, c, load); err != nil {
			return nil, err
		}
		load.For = m.forEach
		var s *bench.LimitSample
		asked, err := m.counted(func() (err error) {
			s, err = bench.Limits(ctx, c, load)
			return err
		})
		if err != nil {
			return nil, err
		}
		if s.Ops == 0 {
			return nil, errNothing
		}
		f := figures{
			"ops_s": s.PerSecond(), "us": micros(s.Mean()), "ns": float64(s.Took.Nanoseconds()) / float64(s.Ops),
			"p99_us": micros(s.Latency.Quantile(0.99)), "allocs": s.Allocs,
			"denied": float64(s.Denied) / float64(s.Allowed+s.Denied),
		}
		f.counts(asked, s.Ops)
		return f, nil
	}
}

func exact(ctx context.Context, m *measurement) (figures, error) {
	r := bench.Rate{N: 2000, Per: m.forEach}
	jobs, _, remove, err := m.jobs(12, job{Kind: "permits", Workers: 2, For: r.Per * 22 / 10, Rate: r})
	if err != nil {
		return nil, err
	}
	defer remove()
	ws, err := startWorkers(ctx, jobs)
	if err != nil {
		return nil, err
	}
	c, err := m.limits(ctx, m.st, r)
	if err != nil {
		endWorkers(ws)
		return nil, err
	}
	defer closing(c)
	before := time.Now().UnixNano()
	if _, err := c.Allow(ctx, m.key); err != nil {
		endWorkers(ws)
		return nil, err
	}
	permits := []bench.Permit{{Sent: before, Got: time.Now().UnixNano()}}
	time.Sleep(r.Per * 8 / 10)
	from := time.Now().UnixNano()
	if err := let(ws); err != nil {
		endWorkers(ws)
		return nil, err
	}
	all, err := replies(ctx, ws)
	if err != nil {
		return nil, err
	}
	for _, one := range all {
		permits = append(permits, one.Permits...)
	}
	first, worst := bench.Windows(permits, from, r.Per)
	return figures{"first": float64(first), "worst": float64(worst)}, nil
}
