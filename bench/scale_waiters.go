package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/all"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/bench"
)

func waitersGrowing() *growing {
	return &growing{
		name: "waiters", title: "Waiters for one key", item: "waiters",
		about: "One client holds a key, and waiters in four processes want it (`memory://`: in one). It is counted what the store is asked while nothing happens; then the holder unlocks, and each waiter has the key once. " +
			"*Client* is heap and stacks of the waiting processes for each waiter, its goroutine included. *fair* waits with `Fair()`, where each waiter stands in the store's own line.",
		takes: func(string) bool { return true }, subjects: []string{"coord", "fair"}, measure: waiters,
		chief: "drain_ms", axis: "ms from Unlock until the last waiter has had the key",
		columns: []column{
			{"waiting_s", "commands a second while they wait"},
			{"client_B", "client, B each"},
			{"goroutines", "goroutines each"},
			{"drain_ms", "all served in, ms"},
			{"handover_us", "µs each"},
			{"handover_commands", "commands each"},
			{"overlaps", "overlaps"},
		},
		rules: []rule{
			{figure: "waiting_s", what: "commands a second for a waiter", total: true, floor: 0.1, atMost: 2},
			{figure: "client_B", what: "client memory for a waiter, B", floor: 8192, atMost: 2},
			{timed: true, figure: "drain_ms", what: "serving a waiter, ms", total: true, floor: 0.002, atMost: 3},
			{figure: "handover_commands", what: "commands to serve a waiter", floor: 0.1, atMost: 2},
		},
	}
}

// fairStore reports whether waiters queue at a store.
func fairStore(name string) bool { return all.Claims(name).Has(driver.Fair) }

// fairLocks wait their turn.
type fairLocks struct{ *coord.Client }

func (f fairLocks) Lock(ctx context.Context, key string) (bench.Held, error) {
	l, err := f.Client.Lock(ctx, key, coord.Fair())
	if err != nil {
		return nil, err
	}
	return l, nil
}

// waitAtMost bounds a step of waiters.
const waitAtMost = 90 * time.Second

func waiters(ctx context.Context, s *scaler, st *store, series *Series) error {
	for i, n := range s.size.waiters {
		f, err := s.herdOf(ctx, st, n, fmt.Sprintf("herd%d", i), series.Subject == "fair")
		if err != nil {
			return fmt.Errorf("%d waiters: %w", n, err)
		}
		s.point(series, n, f)
	}
	return nil
}

// herdOf lets n waiters want a key.
func (s *scaler) herdOf(ctx context.Context, st *store, n int, key string, fair bool) (figures, error) {
	ctx, cancel := context.WithTimeout(ctx, waitAtMost)
	defer cancel()
	path, words, remove, err := newWords()
	if err != nil {
		return nil, err
	}
	defer remove()
	var jobs []job
	processes := min(4, n)
	if st.name == "memory" {
		processes = 1
	}
	for first := 0; first < n; {
		j := job{Kind: "waiters", Store: st.name, Addr: st.addr, Key: key, Words: path, First: first, For: waitAtMost, Fair: fair}
		j.Workers = (n - first) / (processes - len(jobs))
		jobs = append(jobs, j)
		first += j.Workers
	}
	c, err := coord.Open(ctx, st.url())
	if err != nil {
		return nil, err
	}
	defer closing(c)
	var broken error
	settled := false
	count := func(ctx context.Context) float64 {
		if !settled { // they have come, and are asking
			settled = true
			broken = errors.Join(broken, st.settle(ctx))
			words.Settle()
		}
		now, err := st.count()
		broken = errors.Join(broken, err)
		return now.requests()
	}
	var replies []reply
	party := func(ctx context.Context) (err error) {
		replies, err = waitTogether(ctx, c, jobs, words)
		return err
	}
	sample, err := bench.HoldUp(ctx, coordLocks{c}, key, n, s.size.wait, words, party, count)
	if err := errors.Join(err, broken); err != nil {
		return nil, err
	}
	f := figures{
		"drain_ms": millis(sample.Drain), "handover_us": micros(sample.Drain) / float64(n), "overlaps": float64(sample.Overlaps),
	}
	if st.pid != 0 {
		f["waiting_s"], f["handover_commands"] = max(sample.Idle, 0)/sample.Waiting.Seconds(), sample.Drained/float64(n)
	}
	for _, r := range replies {
		share := float64(jobs[0].Workers) / float64(n) // they are as good as equal
		if len(replies) == 1 {
			share = 1
		}
		f["client_B"] += r.Heap * share
		f["goroutines"] += r.Routines * share
	}
	return f, nil
}

// settle waits until the store is asked no more than 300 times a second, for a while: those who have
// come to wait are in the queue then.
func (s *store) settle(ctx context.Context) error {
	const look, calm = 100 * time.Millisecond, 3
	last := math.Inf(1)
	quiet := 0
	for end := time.Now().Add(waitAtMost / 3); quiet < calm && time.Now().Before(end) && ctx.Err() == nil; time.Sleep(look) {
		now, err := s.count()
		if err != nil {
			return err
		}
		if quiet++; math.Abs(now.Commands-last) > 30 {
			quiet = 0
		}
		last = now.Commands
	}
	return context.Cause(ctx)
}

// waitTogether has processes wait, or, on a store that one process has for itself, goroutines of this one.
func waitTogether(ctx context.Context, c *coord.Client, jobs []job, words *bench.Words) ([]reply, error) {
	if jobs[0].Store != "memory" {
		return together(ctx, jobs)
	}
	r, err := jobs[0].waitFor(ctx, c, words)
	if err != nil {
		return nil, err
	}
	return []reply{*r}, nil
}

// waiters is the job of a process that waits.
func (j *job) waiters(ctx context.Context, st *store, words *bench.Words, in *bufio.Reader, out io.Writer) (*reply, error) {
	c, err := coord.Open(ctx, st.url())
	if err != nil {
		return nil, err
	}
	if err := tryLock(ctx, coordLocks{c}, fmt.Sprintf("%s-warm-%d", j.Key, os.Getpid())); err != nil {
		return nil, err
	}
	if err := j.awaitGo(in, out); err != nil {
		return nil, err
	}
	return j.waitFor(ctx, c, words)
}

// waitFor waits with all goroutines, and weighs them meanwhile.
func (j *job) waitFor(ctx context.Context, c *coord.Client, words *bench.Words) (*reply, error) {
	var l bench.Locker = coordLocks{c}
	if j.Fair {
		l = fairLocks{c}
	}
	before, goroutines := heap()
	done := make(chan error, 1)
	go func() { done <- bench.Herd(ctx, l, j.Key, j.Workers, j.First, words) }()
	for !words.Settled() { // then they are held up for a while
		select {
		case err := <-done:
			if err != nil {
				return nil, err
			}
			done <- nil // they have settled, and been served, meanwhile
		case <-time.After(time.Millisecond):
		}
	}
	now, more := heap()
	r := &reply{Heap: (now - before) / float64(j.Workers), Routines: float64(more-goroutines) / float64(j.Workers)}
	return r, <-done
}
