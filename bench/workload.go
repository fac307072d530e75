package main

import (
	"context"
	"time"

	"github.com/coordgo/coord/internal/bench"
)

// workload is one use, at which subjects are compared.
type workload struct {
	name, title string
	about       string // Markdown, for the page
	takes       func(subject) bool
	measure     func(context.Context, *measurement) (figures, error)
	lower       bool    // less of the first column is better
	base        string  // the subject that others are divided by; "" is the bare commands
	share       float64 // of the time of others; 0 is all of it
	columns     []column
}

// column is a figure in a table. The first one is compared.
type column struct{ figure, title string }

// figures are what one measurement found, by name.
type figures map[string]float64

// permits is of how many permits the contended semaphore is.
const permits = 16

var (
	plenty = bench.Rate{N: 1_000_000_000, Per: time.Second} // never denied
	scarce = bench.Rate{N: 1, Per: time.Hour}               // denied from the second on

	timeColumns  = []column{{"us", "µs each"}, {"p99_us", "p99, µs"}, {"allocs", "allocations"}, {"commands", "commands"}, {"reads", "reads"}, {"overlaps", "overlaps"}}
	rateColumns  = []column{{"ops_s", "a second"}, {"p50_us", "wait p50, µs"}, {"p99_us", "wait p99, µs"}, {"jain", "fairness"}, {"changes_s", "owner changes a second"}, {"commands", "commands each"}, {"reads", "reads each"}, {"overlaps", "overlaps"}}
	wakeColumns  = []column{{"p50_ms", "p50, ms"}, {"p99_ms", "p99, ms"}, {"handovers", "hand-overs"}, {"overlaps", "overlaps"}}
	limitColumns = []column{{"ops_s", "a second"}, {"us", "µs for one"}, {"p99_us", "p99, µs"}, {"allocs", "allocations"}, {"commands", "commands"}, {"reads", "reads"}}
	inProcess    = []column{{"ns", "ns each"}, {"ops_s", "a second"}, {"allocs", "allocations"}}
)

func at(u use) func(subject) bool { return func(s subject) bool { return s.use&u != 0 } }

// onServers takes those whose store is a server, inMemory the others.
func onServers(takes func(subject) bool) func(subject) bool {
	return func(s subject) bool { return s.store != "memory" && takes(s) }
}

func inMemory(takes func(subject) bool) func(subject) bool {
	return func(s subject) bool { return s.store == "memory" && takes(s) }
}

func isLimit(s subject) bool { return s.limits != nil }

func workloads() []*workload {
	return []*workload{
		{
			name: "lock-alone", title: "Lock and Unlock, nobody else there",
			about: "One goroutine locks and unlocks one key. The context has no end, as in most calls of the other libraries' own benchmarks.",
			takes: onServers(at(alone)), measure: lockLoad{workers: 1, keys: 1}.measure, lower: true, columns: timeColumns,
		},
		{
			name: "lock-keys", title: "64 goroutines, each with a key of its own",
			about: "One client, so one pool of connections.",
			takes: onServers(at(alone)), measure: lockLoad{workers: 64, keys: 64}.measure,
			columns: []column{{"ops_s", "a second"}, {"p50_us", "Lock p50, µs"}, {"p99_us", "Lock p99, µs"}, {"commands", "commands each"}, {"overlaps", "overlaps"}},
		},
		{
			name: "lock-contended", title: "16 goroutines of one client want one key, and hold it for no time",
			about: "How often the key was held, and whether everybody had it: *fairness* is Jain's index over the goroutines, 1 if all had it as often, 1/16 if one had it always. " +
				"A library that polls lets the goroutine that has just unlocked lock again: holds a second are many then, and *owner changes* few.",
			takes: at(contended), measure: lockLoad{workers: 16, keys: 1}.measure, columns: rateColumns,
		},
		{
			name: "lock-section", title: "The same, each holding it for 1 ms",
			about: "At most some 900 holds of a sleep of 1 ms fit into a second.",
			takes: at(contended), measure: lockLoad{workers: 16, keys: 1, section: time.Millisecond}.measure, columns: rateColumns,
		},
		{
			name: "lock-clients", title: "4 clients with 4 goroutines each want one key",
			about: "Holds of no time.",
			takes: onServers(at(contended)), measure: lockLoad{clients: 4, workers: 16, keys: 1}.measure, columns: rateColumns,
		},
		{
			name: "lock-crowd", title: "64 clients want one key",
			about: "Each is a process of an application, with connections of its own. Holds of no time.",
			takes: onServers(at(contended | crowded)), measure: lockLoad{clients: 64, workers: 64, keys: 1}.measure, base: "coord", columns: rateColumns,
		},
		{
			name: "wake", title: "From Unlock of one client to the waiter of another",
			about: "Two clients hand one key to and fro. The waiter has waited for 5 to 15 ms when the holder calls Unlock.",
			takes: onServers(at(contended)), measure: wake, lower: true, share: 2, columns: wakeColumns,
		},
		{
			name: "herd", title: "200 goroutines of 4 clients wait for one key",
			about: "The key is held while they wait, for twice as long as other things are measured, and what the server is asked is counted. Then it is let go: each has it once, and gives it back at once. " +
				"What sends nothing while it waits may still send keep-alives.",
			takes: onServers(at(contended)), measure: herd, lower: true, share: 2,
			columns: []column{{"drain_ms", "all served in, ms"}, {"waiting_s", "commands a second while waiting"}, {"handover", "commands for each hand-over"}, {"overlaps", "overlaps"}},
		},
		{
			name: "lock-memory", title: "Locks in the process",
			about: "One goroutine, `memory://`. What has no lease and no token costs next to nothing.",
			takes: inMemory(at(alone)), measure: lockLoad{workers: 1, keys: 1}.measure, lower: true, share: 0.5,
			columns: []column{{"us", "µs each"}, {"allocs", "allocations"}, {"overlaps", "overlaps"}},
		},
		{
			name: "limit-alone", title: "A decision, nobody else there", about: "One goroutine, one key, never denied.",
			takes: onServers(isLimit), measure: limitLoad{1, 1, 1, plenty}.measure, lower: true, share: 0.5,
			columns: []column{{"us", "µs for one"}, {"p99_us", "p99, µs"}, {"ops_s", "a second"}, {"allocs", "allocations"}, {"commands", "commands"}, {"reads", "reads"}},
		},
		{
			name: "limit-hot", title: "64 goroutines of one client on one key",
			about: "Never denied. Asks of one client that come together travel together in coord.",
			takes: onServers(isLimit), measure: limitLoad{64, 1, 1, plenty}.measure, share: 0.5, columns: limitColumns,
		},
		{
			name: "limit-keys", title: "64 goroutines on 10,000 keys",
			about: "Never denied. Each decision is on a key that is drawn by chance, and most keys are asked for the first time.",
			takes: onServers(isLimit), measure: limitLoad{64, 10_000, 1, plenty}.measure, share: 0.5, columns: limitColumns,
		},
		{
			name: "limit-denied", title: "64 goroutines, all denied",
			about: "One key, one permit in an hour. coord remembers until when a key is denied, at most for a second, and asks nobody meanwhile.",
			takes: onServers(isLimit), measure: limitLoad{64, 1, 1, scarce}.measure, share: 0.5, columns: limitColumns,
		},
		{
			name: "memory-alone", title: "In memory: one goroutine, one key",
			about: "In the process, without a store. `x/time/rate` has no keys: it is in a `sync.Map` here. So it is below.",
			takes: inMemory(isLimit), measure: limitLoad{1, 1, 100, plenty}.measure, lower: true, share: 0.5, columns: inProcess,
		},
		{
			name: "memory-keys", title: "In memory: 64 goroutines, 10,000 keys", about: "Never denied.",
			takes: inMemory(isLimit), measure: limitLoad{64, 10_000, 100, plenty}.measure, lower: true, share: 0.5, columns: inProcess,
		},
		{
			name: "memory-denied", title: "In memory: one goroutine, always denied", about: "One key, one permit in an hour.",
			takes: inMemory(isLimit), measure: limitLoad{1, 1, 100, scarce}.measure, lower: true, share: 0.5, columns: inProcess,
		},
		{
			name: "shared-alone", title: "Shared holds, taken and given back, nobody else there",
			about: "One goroutine and one key. *coord* is the exclusive lock.",
			takes: at(shared), measure: lockLoad{workers: 1, keys: 1}.measure, lower: true, columns: timeColumns,
		},
		{
			name: "shared-contended", title: "64 goroutines want one of 16 permits, each for 1 ms",
			about: "Of 4 clients, in memory of one. More than 16 inside at once fail the benchmark if they are coord's.",
			takes: at(saturated), measure: lockLoad{clients: 4, workers: 64, keys: 1, section: time.Millisecond, most: permits}.measure, base: "coord, Semaphore(16)",
			columns: []column{{"ops_s", "a second"}, {"p50_us", "wait p50, µs"}, {"p99_us", "wait p99, µs"}, {"jain", "fairness"}, {"commands", "commands each"}, {"overlaps", "overlaps"}},
		},
		{
			name: "shared-writer", title: "One writer beside 200 readers",
			about: "200 goroutines of two clients read for 1 ms each, again and again. The writer, of a third client, waits for 10 ms before each write, and then for the 50 ms in which each client of readers passes its place " +
				"at the head of the queue on. With 10 ms it waits a quarter to a third as long, but a read costs half as many requests again on ZooKeeper and 1.7 times as many on etcd: it stays.",
			takes: onServers(at(amongReaders)), measure: writerAmongReaders, lower: true, base: "coord, Write", share: 2,
			columns: []column{{"p50_us", "writer's wait p50, µs"}, {"p99_us", "p99, µs"}, {"writes_s", "writes a second"}, {"reads_s", "reads a second"}, {"commands", "commands each"}, {"overlaps", "overlaps"}},
		},
		{
			name: "shared-wake", title: "Shared holds, from Unlock of one client to the waiter of another",
			about: "As for exclusive locks, of which *coord* is one. A semaphore of 1, and a writer after a writer.",
			takes: at(sharedWake), measure: wake, lower: true, base: "coord", share: 2, columns: wakeColumns,
		},
	}
}

// isBase reports whether others are compared with this subject.
func (w *workload) isBase(s subject) bool {
	if w.base != "" {
		return s.name == w.base
	}
	return s.kind == floor
}

// ratio is how much worse one round is than another: 0 if one of them gave no figures.
func (w *workload) ratio(one, other figures) float64 {
	a, b := one[w.columns[0].figure], other[w.columns[0].figure]
	if a <= 0 || b <= 0 {
		return 0
	}
	if w.lower {
		return a / b
	}
	return b / a
}
