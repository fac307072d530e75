package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordgo/coord/internal/bench"
)

// measurement is one round of one subject.
type measurement struct {
	subject
	st      *store
	key     string
	forEach time.Duration
}

// patience is how long after its time an operation counts as hung. Tests have less.
var patience = 10 * time.Second

var errNothing = errors.New("nothing was done in the time")

// open opens clients, and has each of them lock something.
func (m *measurement) open(ctx context.Context, openers ...opener) (list []*locks, end func(), err error) {
	end = func() {
		for _, c := range list {
			closing(c.close)
		}
	}
	for i, open := range openers {
		c, err := open(ctx, m.st)
		if err == nil {
			list = append(list, c)
			err = c.try(ctx, fmt.Sprintf("%s-warm-%d", m.key, i))
		}
		if err != nil {
			end()
			return nil, nil, err
		}
	}
	return list, end, nil
}

// closing closes a client, and does not wait for one that hangs.
func closing(end func() error) {
	done := make(chan error, 1)
	go func() { done <- end() }()
	select {
	case <-done: // whether it worked is not measured
	case <-time.After(patience):
	}
}

// repeat is so many openers of one kind.
func repeat(open opener, n int) (list []opener) {
	for range max(n, 1) {
		list = append(list, open)
	}
	return list
}

// counted runs fn, and tells what the store was asked meanwhile.
func (m *measurement) counted(fn func() error) (counts, error) {
	before, err := m.st.count()
	if err != nil {
		return counts{}, err
	}
	if err := fn(); err != nil {
		return counts{}, err
	}
	after, err := m.st.count()
	return after.minus(before), err
}

func (f figures) counts(c counts, ops int) {
	if c.Commands > 0 {
		f["commands"] = c.Commands / float64(ops)
	}
	if c.Reads > 0 {
		f["reads"] = c.Reads / float64(ops)
	}
}

func millis(d time.Duration) float64 { return bench.Micros(d) / 1000 }

// lockLoad is a use of locks by one client, or by more of them on a server.
type lockLoad struct {
	clients, workers, keys int
	section                time.Duration
	most                   int64 // how many may hold a key at once; 0 is one
}

func (l lockLoad) measure(ctx context.Context, m *measurement) (figures, error) {
	if m.store == "memory" {
		l.clients = 1
	}
	if l.workers > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, m.forEach+patience)
		defer cancel()
	}
	clients, end, err := m.open(ctx, repeat(m.locks, l.clients)...)
	if err != nil {
		return nil, err
	}
	defer end()
	load := bench.LockLoad{
		Load: bench.Load{Workers: l.workers, For: m.forEach / 10, Patience: patience, Endless: l.workers == 1},
		Key:  m.key + "-first", Keys: l.keys, Section: l.section, Most: l.most,
	}
	if _, err := bench.Locks(ctx, clients, load); err != nil { // connections and sessions are made
		return nil, err
	}
	load.Key, load.For = m.key, m.forEach
	var s *bench.LockSample
	asked, err := m.counted(func() (err error) {
		s, err = bench.Locks(ctx, clients, load)
		return err
	})
	if err != nil {
		return nil, err
	}
	if s.Ops == 0 {
		return nil, errNothing
	}
	f := figures{
		"us": bench.Micros(s.Mean()), "ops_s": s.PerSecond(), "p50_us": bench.Micros(s.Wait.Quantile(0.5)), "p99_us": bench.Micros(s.Wait.Quantile(0.99)),
		"allocs": s.Allocs, "jain": bench.Jain(s.PerWorker), "changes_s": s.Moving * s.PerSecond(), "overlaps": float64(s.Overlaps),
	}
	f.counts(asked, s.Ops)
	return f, nil
}

func wake(ctx context.Context, m *measurement) (figures, error) {
	ctx, cancel := context.WithTimeout(ctx, m.forEach+patience)
	defer cancel()
	clients, end, err := m.open(ctx, m.locks, m.locks)
	if err != nil {
		return nil, err
	}
	defer end()
	h, overlaps, err := bench.Wake(ctx, [2]*locks(clients), m.key, time.Now().Add(m.forEach))
	if err != nil {
		return nil, err
	}
	return figures{
		"p50_ms": millis(h.Quantile(0.5)), "p99_ms": millis(h.Quantile(0.99)), "handovers": float64(h.N()), "overlaps": float64(overlaps),
	}, nil
}

func herd(ctx context.Context, m *measurement) (figures, error) {
	const n = 200
	ctx, cancel := context.WithTimeout(ctx, 2*m.forEach+patience)
	defer cancel()
	clients, end, err := m.open(ctx, repeat(m.locks, 5)...)
	if err != nil {
		return nil, err
	}
	defer end()
	count := func() (float64, error) {
		c, err := m.st.count()
		return c.Commands, err
	}
	s, err := bench.HoldUp(ctx, clients[0], clients[1:], m.key, n, m.forEach, count)
	if err != nil {
		return nil, err
	}
	f := figures{"drain_ms": millis(s.Drain), "overlaps": float64(s.Overlaps)}
	if s.Drained > 0 {
		f["waiting_s"], f["handover"] = max(s.Idle, 0)/s.Waiting.Seconds(), s.Drained/n
	}
	return f, nil
}

// writerAmongReaders is one writer, worker 0, beside readers.
func writerAmongReaders(ctx context.Context, m *measurement) (figures, error) {
	const readers, all = 200, 1 << 20
	ctx, cancel := context.WithTimeout(ctx, m.forEach+patience)
	defer cancel()
	clients, end, err := m.open(ctx, m.locks, m.reads, m.reads)
	if err != nil {
		return nil, err
	}
	defer end()
	var register bench.Register
	var wait bench.Hist
	var s *bench.Sample
	load := bench.Load{Workers: 1 + readers, For: m.forEach, Patience: patience}
	asked, err := m.counted(func() (err error) {
		s, err = bench.Run(ctx, load, func(ctx context.Context, worker int) error {
			if worker > 0 {
				_, err := inside(ctx, clients[1+worker%2], m.key, &register, 1, all, time.Millisecond)
				return err
			}
			time.Sleep(10 * time.Millisecond)
			waited, err := inside(ctx, clients[0], m.key, &register, all, all, 0)
			wait.Add(waited)
			return err
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	if wait.N() == 0 || s.Ops == 0 {
		return nil, errNothing
	}
	f := figures{
		"p50_us": bench.Micros(wait.Quantile(0.5)), "p99_us": bench.Micros(wait.Quantile(0.99)), "overlaps": float64(register.Overlaps()),
		"writes_s": float64(wait.N()) / s.Took.Seconds(), "reads_s": float64(s.Ops-s.PerWorker[0]) / s.Took.Seconds(),
	}
	f.counts(asked, s.Ops)
	return f, nil
}

// inside takes key for a time, with its weight of what may be in at once, and tells how long it waited.
func inside(ctx context.Context, l *locks, key string, r *bench.Register, weight, bound int64, section time.Duration) (time.Duration, error) {
	began := time.Now()
	leave, err := l.lock(ctx, key)
	if err != nil {
		return 0, err
	}
	waited := time.Since(began)
	r.EnterShared(weight, bound)
	if section > 0 {
		time.Sleep(section)
	}
	r.LeaveShared(weight)
	return waited, leave(ctx)
}

// limitLoad is a use of limits by one client.
type limitLoad struct {
	workers, keys, batch int
	rate                 bench.Rate
}

func (l limitLoad) measure(ctx context.Context, m *measurement) (figures, error) {
	c, err := m.limits(ctx, m.st, l.rate)
	if err != nil {
		return nil, err
	}
	defer closing(c.close)
	load := bench.LimitLoad{Load: bench.Load{Workers: l.workers, For: m.forEach / 10, Batch: l.batch, Patience: patience, Endless: true}, Key: m.key, Keys: l.keys}
	if _, err := bench.Limits(ctx, c, load); err != nil { // connections are made
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
		"us": bench.Micros(s.Mean()), "ns": float64(s.Took.Nanoseconds()) / float64(s.Ops), "ops_s": s.PerSecond(),
		"p99_us": bench.Micros(s.Latency.Quantile(0.99)), "allocs": s.Allocs,
	}
	f.counts(asked, s.Ops)
	return f, nil
}
