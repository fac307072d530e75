package conform

import (
	"context"
	"strings"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/cmd/internal/cli"
	"github.com/coordgo/coord/internal/bench"
)

// benchTask is one thing that is measured.
type benchTask struct {
	name, about string
	measure     func(context.Context, *benchRun, string) (benchFigures, error) // with a key of its own
}

// benchFigures are what was found. What does not apply is nil.
type benchFigures struct {
	PerSecond *float64 `json:"per_second,omitempty"`
	P50US     *float64 `json:"p50_us,omitempty"`
	P99US     *float64 `json:"p99_us,omitempty"`
	MeanUS    *float64 `json:"mean_us,omitempty"`
	Allocs    *float64 `json:"allocs,omitempty"` // for each operation, of the whole process
	Calls     *float64 `json:"calls,omitempty"`  // of the store, for each operation
	Fairness  *float64 `json:"fairness,omitempty"`
	Changes   *float64 `json:"owner_changes_per_second,omitempty"`
	// WaitingCalls are calls of the store in a second in which nothing moves.
	WaitingCalls *float64 `json:"calls_per_second_while_waiting,omitempty"`
	DrainMS      *float64 `json:"drain_ms,omitempty"`
	Overlaps     *int     `json:"overlaps,omitempty"`
}

// How many take part.
const (
	benchWorkers = 64   // goroutines that are not in each other's way
	benchKeys    = 1000 // of limits
	benchClients = 4    // clients
	benchEach    = 4    // goroutines of a client that contend
	benchHerd    = 50   // waiters of a client
)

var (
	benchPlenty = coord.Limit{Rate: 1_000_000_000, Per: time.Second}
	benchScarce = coord.Limit{Rate: 1, Per: time.Hour}
)

func benchTasks() []benchTask {
	return []benchTask{
		{"lock", "Lock and Unlock by one goroutine", benchLocks(1, 1, 1)},
		{"lock-keys", "64 goroutines, each with a key of its own", benchLocks(1, benchWorkers, benchWorkers)},
		{"lock-contended", "16 goroutines of one client want one key", benchLocks(1, benchClients*benchEach, 1)},
		{"lock-clients", "4 clients with 4 goroutines each want one key", benchLocks(benchClients, benchEach, 1)},
		{"lock-wake", "from Unlock to the waiter of another client", benchWake},
		{"lock-herd", "200 waiters of 4 clients, and then each has it once", benchHold},
		{"limit", "a decision by one goroutine", benchLimits(1, 1, benchPlenty)},
		{"limit-hot", "64 goroutines of one client on one key", benchLimits(benchWorkers, 1, benchPlenty)},
		{"limit-keys", "64 goroutines on 1000 keys", benchLimits(benchWorkers, benchKeys, benchPlenty)},
		{"limit-denied", "64 goroutines, all denied", benchLimits(benchWorkers, 1, benchScarce)},
	}
}

func benchHelp() string {
	var b strings.Builder
	for _, t := range benchTasks() {
		b.WriteString("  " + t.name + strings.Repeat(" ", 18-len(t.name)) + t.about + "\n")
	}
	return b.String()
}

// benchPatience is how long something may take beyond its time.
const benchPatience = 30 * time.Second

func some[T any](v T) *T { return &v }

func inMicros(d time.Duration) *float64 { return some(float64(d.Nanoseconds()) / 1000) }

// benchLocker is a client as a thing to measure.
type benchLocker struct{ c coord.Locker }

func (l benchLocker) Lock(ctx context.Context, key string) (bench.Held, error) {
	held, err := l.c.Lock(ctx, key)
	if err != nil {
		return nil, err
	}
	return held, nil
}

func lockers(clients []*coord.Client) (list []benchLocker) {
	for _, c := range clients {
		list = append(list, benchLocker{c})
	}
	return list
}

// benchLocks has workers of each client lock so many keys.
func benchLocks(clients, workers, keys int) func(context.Context, *benchRun, string) (benchFigures, error) {
	return func(ctx context.Context, b *benchRun, key string) (benchFigures, error) {
		load := bench.LockLoad{
			Load: bench.Load{Workers: clients * workers, For: b.flags.forEach, Patience: benchPatience, Endless: workers == 1},
			Key:  key, Keys: keys,
		}
		// The calls are counted apart, for counting costs time. That warms up, too.
		counted := load
		counted.For, counted.Key = load.For/10, key+"-counted"
		calls, err := b.counting(ctx, clients, func(ctx context.Context, list []*coord.Client) (int, error) {
			s, err := bench.Locks(ctx, lockers(list), counted)
			if err != nil {
				return 0, err
			}
			return s.Ops, nil
		})
		if err != nil {
			return benchFigures{}, err
		}
		list, err := b.open(ctx, clients)
		if err != nil {
			return benchFigures{}, err
		}
		defer closeAll(list)
		s, err := bench.Locks(ctx, lockers(list), load)
		if err != nil {
			return benchFigures{}, err
		}
		rate := s.PerSecond()
		f := benchFigures{
			PerSecond: &rate, P50US: inMicros(s.Wait.Quantile(0.5)), P99US: inMicros(s.Wait.Quantile(0.99)),
			MeanUS: inMicros(s.Mean()), Calls: calls, Overlaps: &s.Overlaps,
		}
		if clients == 1 { // of several, they are of all together
			f.Allocs = &s.Allocs
		}
		if keys == 1 && clients*workers > 1 {
			f.Fairness, f.Changes = some(bench.Jain(s.PerWorker)), some(s.Moving*rate)
		}
		return f, errNoOps(s.Ops)
	}
}

func errNoOps(ops int) error {
	if ops == 0 {
		return cli.Usage("nothing was done in the time: give it more by --for")
	}
	return nil
}

// benchWake measures the hand-over between two clients.
func benchWake(ctx context.Context, b *benchRun, key string) (benchFigures, error) {
	list, err := b.open(ctx, 2)
	if err != nil {
		return benchFigures{}, err
	}
	defer closeAll(list)
	ctx, cancel := context.WithTimeout(ctx, b.flags.forEach+benchPatience)
	defer cancel()
	took, overlaps, err := bench.Wake(ctx, [2]benchLocker(lockers(list)), key, time.Now().Add(b.flags.forEach))
	if err != nil {
		return benchFigures{}, err
	}
	return benchFigures{
		P50US: inMicros(took.Quantile(0.5)), P99US: inMicros(took.Quantile(0.99)), Overlaps: &overlaps,
	}, errNoOps(took.N())
}

// benchHold lets a herd wait, and then drains it.
func benchHold(ctx context.Context, b *benchRun, key string) (benchFigures, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*b.flags.forEach+benchPatience)
	defer cancel()
	calls := new(callCounter)
	list, err := b.open(ctx, benchClients+1, calls.option())
	if err != nil {
		return benchFigures{}, err
	}
	defer closeAll(list)
	count := func() (float64, error) { return calls.count(), nil }
	clients := lockers(list)
	s, err := bench.HoldUp(ctx, clients[0], clients[1:], key, benchClients*benchHerd, b.flags.forEach, count)
	if err != nil {
		return benchFigures{}, err
	}
	return benchFigures{
		WaitingCalls: some(s.Idle / s.Waiting.Seconds()), Calls: some(s.Drained / (benchClients * benchHerd)),
		DrainMS: some(float64(s.Drain.Microseconds()) / 1000), Overlaps: &s.Overlaps,
	}, nil
}

// benchLimiter is a client as a thing to measure.
type benchLimiter struct {
	c     *coord.Client
	limit coord.Limit
}

func (l benchLimiter) Allow(ctx context.Context, key string) (bool, error) {
	r, err := l.c.Allow(ctx, key, l.limit)
	return r.Allowed, err
}

// benchLimits asks for permits of so many keys.
func benchLimits(workers, keys int, limit coord.Limit) func(context.Context, *benchRun, string) (benchFigures, error) {
	return func(ctx context.Context, b *benchRun, key string) (benchFigures, error) {
		load := bench.LimitLoad{
			Load: bench.Load{Workers: workers, For: b.flags.forEach, Patience: benchPatience, Endless: true},
			Key:  key, Keys: keys,
		}
		counted := load
		counted.For = load.For / 10
		calls, err := b.counting(ctx, 1, func(ctx context.Context, list []*coord.Client) (int, error) {
			s, err := bench.Limits(ctx, benchLimiter{list[0], limit}, counted)
			if err != nil {
				return 0, err
			}
			return s.Ops, nil
		})
		if err != nil {
			return benchFigures{}, err
		}
		list, err := b.open(ctx, 1)
		if err != nil {
			return benchFigures{}, err
		}
		defer closeAll(list)
		defer resetKeys(ctx, list[0], limit, load)
		s, err := bench.Limits(ctx, benchLimiter{list[0], limit}, load)
		if err != nil {
			return benchFigures{}, err
		}
		rate := s.PerSecond()
		return benchFigures{
			PerSecond: &rate, P50US: inMicros(s.Latency.Quantile(0.5)), P99US: inMicros(s.Latency.Quantile(0.99)),
			MeanUS: inMicros(s.Mean()), Allocs: &s.Allocs, Calls: calls,
		}, errNoOps(s.Ops)
	}
}
