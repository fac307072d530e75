package main

import (
	"context"
	"fmt"
	"time"

	"github.com/coordgo/coord/internal/bench"
)

func sharedWorkloads() []*workload {
	return []*workload{
		{
			name: "shared-alone", title: "Taken and given back, nobody else there",
			about: "One goroutine and one key. *coord* is the exclusive lock.",
			takes: takes(alone), measure: lockAlone, chief: "us", lower: true, axis: "µs for both", columns: timeColumns,
		},
		{
			name: "shared-contended", title: "64 goroutines want one of 16 permits, each for 1 ms",
			about: "4 processes with 16 goroutines and a client each; in memory one process. More than 16 inside at once fail the benchmark if they are coord's.",
			takes: takes(saturated), measure: sharedContended, chief: "ops_s", base: "coord, Semaphore(16)", axis: "permits a second",
			columns: []column{{"ops_s", "a second"}, {"p50_us", "wait p50, µs"}, {"p99_us", "wait p99, µs"}, {"jain", "fairness"}, {"commands", "commands each"}, {"overlaps", "overlaps"}},
		},
		{
			name: "shared-writer", title: "One writer beside 200 readers",
			about: "200 goroutines of two clients read for 1 ms each, again and again. The writer, of a third client, waits for 10 ms before each write. The writer waits for the 50 ms in which each client of readers passes its place at the head of the queue on. With 10 ms it waits a quarter to a third as long, but a read costs half as many requests again on ZooKeeper and 1.7 times as many on etcd: it stays.",
			takes: takes(amongReaders), measure: writerAmongReaders, chief: "p50_us", lower: true, base: "coord, Write", axis: "µs until the writer has it, median", share: 2,
			columns: []column{{"p50_us", "writer's wait p50, µs"}, {"p99_us", "p99, µs"}, {"writes_s", "writes a second"}, {"reads_s", "reads a second"}, {"commands", "commands each"}, {"overlaps", "overlaps"}},
		},
		{
			name: "shared-wake", title: "From Unlock in one process to the waiter in another",
			about: "As for exclusive locks, of which *coord* is one: the waiter has waited for 5 to 15 ms. A semaphore of 1, and a writer after a writer.",
			takes: takes(woken), measure: wake, chief: "p50_ms", lower: true, base: "coord", axis: "ms, median", share: 2,
			columns: []column{{"p50_ms", "p50, ms"}, {"p99_ms", "p99, ms"}, {"handovers", "hand-overs"}, {"overlaps", "overlaps"}},
		},
	}
}

func sharedContended(ctx context.Context, m *measurement) (figures, error) {
	const workers, section = 64, time.Millisecond
	if m.store != "memory" {
		return lockProcesses(job{Workers: workers / 4, Section: section, Most: permits})(ctx, m)
	}
	ctx, cancel := context.WithTimeout(ctx, m.forEach+patience)
	defer cancel()
	return m.load(ctx, bench.LockLoad{
		Load: bench.Load{Workers: workers, For: m.forEach, Patience: patience}, Key: m.key, Keys: 1, Section: section, Most: permits,
	})
}

// writerAmongReaders is one writer, worker 0, beside readers.
func writerAmongReaders(ctx context.Context, m *measurement) (figures, error) {
	const readers, all = 200, 1 << 20
	writer, reads, end, err := m.writerAndReaders(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	ctx, cancel := context.WithTimeout(ctx, m.forEach+patience)
	defer cancel()
	var register bench.Register
	var wait bench.Hist
	var s *bench.Sample
	load := bench.Load{Workers: 1 + readers, For: m.forEach, Patience: patience}
	asked, err := m.counted(func() (err error) {
		s, err = bench.Run(ctx, load, func(ctx context.Context, worker int) error {
			if worker > 0 {
				_, err := inside(ctx, reads[worker%2], m.key, &register, 1, all, time.Millisecond)
				return err
			}
			time.Sleep(10 * time.Millisecond)
			waited, err := inside(ctx, writer, m.key, &register, all, all, 0)
			wait.Add(waited)
			return err
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	writes := s.PerWorker[0]
	if writes == 0 {
		return nil, errNothing
	}
	f := figures{
		"p50_us": micros(wait.Quantile(0.5)), "p99_us": micros(wait.Quantile(0.99)), "overlaps": float64(register.Overlaps()),
		"writes_s": float64(writes) / s.Took.Seconds(), "reads_s": float64(s.Ops-writes) / s.Took.Seconds(),
	}
	f.counts(asked, s.Ops)
	return f, nil
}

// inside takes key for a time, with its weight of what may be in at once, and tells how long it waited.
func inside(ctx context.Context, l bench.Locker, key string, r *bench.Register, weight, bound int64, section time.Duration) (time.Duration, error) {
	began := time.Now()
	held, err := l.Lock(ctx, key)
	if err != nil {
		return 0, err
	}
	waited := time.Since(began)
	r.EnterShared(weight, bound)
	if section > 0 {
		time.Sleep(section)
	}
	r.LeaveShared(weight)
	return waited, held.Unlock(ctx)
}

// writerAndReaders opens a client that writes and two that read.
func (m *measurement) writerAndReaders(ctx context.Context) (writer lockClient, readers [2]lockClient, end func(), err error) {
	var opened []lockClient
	end = func() {
		for _, c := range opened {
			closing(c)
		}
	}
	for i, open := range []func(context.Context, *store) (lockClient, error){m.locks, m.reads, m.reads} {
		c, err := open(ctx, m.st)
		if err != nil {
			end()
			return nil, readers, nil, err
		}
		opened = append(opened, c)
		if err := tryLock(ctx, c, fmt.Sprintf("%s-warm-%d", m.key, i)); err != nil {
			end()
			return nil, readers, nil, err
		}
	}
	return opened[0], [2]lockClient(opened[1:]), end, nil
}
