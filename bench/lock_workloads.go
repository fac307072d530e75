package main

import (
	"context"
	"time"

	"github.com/coordgo/coord/internal/bench"
)

var (
	rateColumns = []column{{"ops_s", "a second"}, {"p50_us", "wait p50, µs"}, {"p99_us", "wait p99, µs"}, {"jain", "fairness"}, {"changes_s", "owner changes a second"}, {"commands", "commands each"}, {"reads", "reads each"}, {"overlaps", "overlaps"}}
	timeColumns = []column{{"us", "µs each"}, {"p99_us", "p99, µs"}, {"allocs", "allocations"}, {"commands", "commands"}, {"reads", "reads"}, {"overlaps", "overlaps"}}
)

func lockWorkloads() []*workload {
	return []*workload{
		{
			name: "lock-alone", title: "Lock and Unlock, nobody else there",
			about: "One goroutine locks and unlocks one key. The context has no end, as in most calls of the other libraries' own benchmarks.",
			takes: locksWithoutWait, measure: lockAlone, chief: "us", lower: true, axis: "µs for Lock and Unlock", columns: timeColumns,
		},
		{
			name: "lock-keys", title: "64 goroutines, each with a key of its own",
			about: "One client, so one pool of connections.",
			takes: locksWithoutWait, measure: lockLoad(64, 64, 0), chief: "ops_s", axis: "holds a second",
			columns: []column{{"ops_s", "a second"}, {"p50_us", "Lock p50, µs"}, {"p99_us", "Lock p99, µs"}, {"commands", "commands each"}, {"overlaps", "overlaps"}},
		},
		{
			name: "lock-contended", title: "16 goroutines of one process want one key, and hold it for no time",
			about: "How often the key was held, and whether everybody had it: *fairness* is Jain's index over the goroutines, 1 if all had it as often, 1/16 if one had it always. " +
				"A library that polls lets the goroutine that has just unlocked lock again: holds a second are many then, and *owner changes* few.",
			takes: locksThatWait, measure: lockLoad(16, 1, 0), chief: "ops_s", axis: "holds a second", columns: rateColumns,
		},
		{
			name: "lock-section", title: "The same, each holding it for 1 ms",
			about: "At most some 900 holds of a sleep of 1 ms fit into a second.",
			takes: locksThatWait, measure: lockLoad(16, 1, time.Millisecond), chief: "ops_s", axis: "holds a second", columns: rateColumns,
		},
		{
			name: "lock-processes", title: "4 processes with 4 goroutines each want one key",
			about: "Holds of no time. Each process has a client of its own.",
			takes: sharedLocksThatWait, measure: lockProcesses(job{Workers: 4}), chief: "ops_s", axis: "holds a second", columns: rateColumns,
		},
		{
			name: "wake", title: "From Unlock in one process to the waiter in another",
			about: "Two processes hand one key to and fro. The waiter has waited for 5 to 15 ms when the holder calls Unlock.",
			takes: sharedLocksThatWait, measure: wake, chief: "p50_ms", lower: true, axis: "ms, median", share: 2,
			columns: []column{{"p50_ms", "p50, ms"}, {"p99_ms", "p99, ms"}, {"handovers", "hand-overs"}, {"overlaps", "overlaps"}},
		},
		{
			name: "herd", title: "200 goroutines of 4 processes wait for one key",
			about: "The key is held while they wait, for twice as long as other things are measured, and what the server is asked is counted. Then it is let go: each has it once, and gives it back at once. " +
				"What sends nothing while it waits may still send keep-alives.",
			takes: sharedLocksThatWait, measure: herd, chief: "drain_ms", lower: true, axis: "ms until all 200 have had it", share: 2,
			columns: []column{{"waiting_s", "commands a second while waiting"}, {"handover", "commands for each hand-over"}, {"handover_reads", "reads for each"}, {"drain_ms", "all served in, ms"}, {"overlaps", "overlaps"}},
		},
		{
			name: "lock-memory", title: "Locks in the process",
			about: "One goroutine, `memory://`. What has no lease and no token costs next to nothing.",
			takes: func(s subject) bool { return s.locks != nil && s.store == "memory" }, measure: lockAlone, chief: "us", lower: true, axis: "µs for Lock and Unlock", share: 0.5,
			columns: []column{{"us", "µs each"}, {"allocs", "allocations"}, {"overlaps", "overlaps"}},
		},
	}
}

func (m *measurement) openLocks(ctx context.Context) (lockClient, error) {
	c, err := m.locks(ctx, m.st)
	if err != nil {
		return nil, err
	}
	if err := tryLock(ctx, c, m.key+"-warm"); err != nil {
		closing(c)
		return nil, err
	}
	return c, nil
}

func lockAlone(ctx context.Context, m *measurement) (figures, error) {
	return m.load(ctx, bench.LockLoad{Load: bench.Load{Workers: 1, For: m.forEach, Patience: patience, Endless: true}, Key: m.key, Keys: 1})
}

func lockLoad(workers, keys int, section time.Duration) func(context.Context, *measurement) (figures, error) {
	return func(ctx context.Context, m *measurement) (figures, error) {
		ctx, cancel := context.WithTimeout(ctx, m.forEach+patience)
		defer cancel()
		return m.load(ctx, bench.LockLoad{Load: bench.Load{Workers: workers, For: m.forEach, Patience: patience}, Key: m.key, Keys: keys, Section: section})
	}
}

func (m *measurement) load(ctx context.Context, load bench.LockLoad) (figures, error) {
	c, err := m.openLocks(ctx)
	if err != nil {
		return nil, err
	}
	defer closing(c)
	// Connections and sessions are made before.
	warm := load
	warm.Key, warm.For = load.Key+"-first", load.For/10
	if _, err := bench.Locks(ctx, c, warm, new(bench.Words)); err != nil {
		return nil, err
	}
	var s *bench.LockSample
	asked, err := m.counted(func() (err error) {
		s, err = bench.Locks(ctx, c, load, new(bench.Words))
		return err
	})
	if err != nil {
		return nil, err
	}
	if s.Ops == 0 {
		return nil, errNothing
	}
	f := figures{
		"us": micros(s.Mean()), "ops_s": s.PerSecond(), "p50_us": micros(s.Wait.Quantile(0.5)), "p99_us": micros(s.Wait.Quantile(0.99)),
		"allocs": s.Allocs, "jain": s.Jain, "changes_s": s.Moving * s.PerSecond(), "overlaps": float64(s.Overlaps),
	}
	f.counts(asked, s.Ops)
	return f, nil
}

// jobs are of n processes on this subject.
func (m *measurement) jobs(n int, j job) (jobs []job, words *bench.Words, remove func(), err error) {
	path, words, remove, err := newWords()
	if err != nil {
		return nil, nil, nil, err
	}
	j.Store, j.Addr, j.Subject, j.Key, j.Words, j.Patience = m.st.name, m.st.addr, m.name, m.key, path, patience
	for i := range n {
		jobs = append(jobs, j)
		jobs[i].First = i * max(j.Workers, 1)
	}
	return jobs, words, remove, nil
}

// together runs jobs at once.
func together(ctx context.Context, jobs []job) ([]reply, error) {
	ws, err := launch(ctx, jobs)
	if err != nil {
		return nil, err
	}
	return replies(ctx, ws)
}

// lockProcesses has four processes do the job at once.
func lockProcesses(j job) func(context.Context, *measurement) (figures, error) {
	return func(ctx context.Context, m *measurement) (figures, error) {
		j.Kind, j.For = "locks", m.forEach
		jobs, words, remove, err := m.jobs(4, j)
		if err != nil {
			return nil, err
		}
		defer remove()
		var all []reply
		asked, err := m.counted(func() (err error) {
			all, err = together(ctx, jobs)
			return err
		})
		if err != nil {
			return nil, err
		}
		return processFigures(all, words, asked)
	}
}

func processFigures(all []reply, words *bench.Words, asked counts) (figures, error) {
	var per []int
	var wait bench.Hist
	var rate float64
	ops := 0
	for _, r := range all {
		per = append(per, r.PerWorker...)
		wait.Merge(r.Wait)
		sum := 0
		for _, n := range r.PerWorker {
			sum += n
		}
		ops += sum
		rate += float64(sum) / r.Took.Seconds()
	}
	if ops == 0 {
		return nil, errNothing
	}
	f := figures{
		"ops_s": rate, "p50_us": micros(wait.Quantile(0.5)), "p99_us": micros(wait.Quantile(0.99)), "jain": bench.Jain(per),
		"changes_s": words.Register().Moving() * rate, "overlaps": float64(words.Register().Overlaps()),
	}
	f.counts(asked, ops)
	delete(f, "reads")
	return f, nil
}

func wake(ctx context.Context, m *measurement) (figures, error) {
	jobs, words, remove, err := m.jobs(2, job{Kind: "wake", For: m.forEach})
	if err != nil {
		return nil, err
	}
	defer remove()
	all, err := together(ctx, jobs)
	if err != nil {
		return nil, err
	}
	h := all[0].Wait
	h.Merge(all[1].Wait)
	if h.N() == 0 {
		return nil, errNothing
	}
	return figures{
		"p50_ms": millis(h.Quantile(0.5)), "p99_ms": millis(h.Quantile(0.99)), "handovers": float64(h.N()),
		"overlaps": float64(words.Register().Overlaps()),
	}, nil
}

func herd(ctx context.Context, m *measurement) (figures, error) {
	const processes, each = 4, 50
	jobs, words, remove, err := m.jobs(processes, job{Kind: "herd", Workers: each, For: m.forEach})
	if err != nil {
		return nil, err
	}
	defer remove()
	ctx, cancel := context.WithTimeout(ctx, m.forEach+patience)
	defer cancel()
	c, err := m.openLocks(ctx)
	if err != nil {
		return nil, err
	}
	defer closing(c)
	var broken error
	var asked []counts // before and after the wait, before and after the drain
	count := func(context.Context) float64 {
		n, err := m.st.count()
		if err != nil {
			broken = err
		}
		asked = append(asked, n)
		return n.Commands
	}
	waiters := func(ctx context.Context) error {
		_, err := together(ctx, jobs)
		return err
	}
	s, err := bench.HoldUp(ctx, c, m.key, processes*each, m.forEach, words, waiters, count)
	if err == nil {
		err = broken
	}
	if err != nil {
		return nil, err
	}
	f := figures{
		"waiting_s": max(s.Idle, 0) / s.Waiting.Seconds(), "drain_ms": millis(s.Drain),
		"handover": s.Drained / (processes * each), "overlaps": float64(s.Overlaps),
	}
	if drained := asked[3].minus(asked[2]); drained.Reads > 0 {
		f["handover_reads"] = drained.Reads / (processes * each)
	}
	return f, nil
}
