package main

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coordgo/coord/bench/internal/command"
	"github.com/coordgo/coord/internal/bench"
)

func TestMain(m *testing.M) {
	open := func(context.Context, *store) (*locks, error) {
		return &locks{nothing, func(context.Context, string) (unlock, error) { return func(context.Context) error { return nil }, nil }}, nil
	}
	stuck := func(context.Context, *store) (*locks, error) {
		return &locks{nothing, func(ctx context.Context, key string) (unlock, error) {
			if strings.Contains(key, "-warm") {
				return func(context.Context) error { return nil }, nil
			}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}}, nil
	}
	const all = alone | contended | saturated | amongReaders
	testSubjects = []subject{
		{store: "memory", name: "broken", use: all, locks: open, reads: open},
		{store: "memory", name: "stuck", use: all, locks: stuck, reads: stuck},
	}
	patience = time.Minute // no bound but a watchdog
	goleak.VerifyTestMain(m)
}

// runnerOf measures in short on these stores.
func runnerOf(t *testing.T, run string, stores ...string) *runner {
	t.Helper()
	b := &runner{
		options: &options{command.Options{Rounds: 1, ForEach: 20 * time.Millisecond, Run: regexp.MustCompile(run)}, stores},
		log:     t.Output(), stores: map[string]*store{},
	}
	for _, name := range stores {
		s, err := openStore(t, name)
		if err != nil {
			t.Fatal(err)
		}
		b.stores[name] = s
	}
	return b
}

// Every workload gives its figures, of coord and of what it is compared with, and a page can be made of them.
func TestSmoke(t *testing.T) {
	b := runnerOf(t, `/(coord|coord, (sliding window|Semaphore.*|Write)|SET NX PX.*|BLPOP.*|EVALSHA.*|redis_rate|go-limiter|x/time.*|sync.*)$`, "redis", "memory")
	r := b.all(t.Context())
	page := string(r.page())
	if r.complete || !strings.Contains(page, "not the full run") {
		t.Error("this counts as a full run")
	}
	for _, w := range workloads() {
		rows := r.of(w.name)
		if !slices.ContainsFunc(rows, func(r *row) bool { return r.kind == ours }) || !strings.Contains(page, "\n## "+w.title+"\n") {
			t.Errorf("%s: coord was not measured, or is not on the page", w.name)
		}
		for _, row := range rows {
			if len(row.failures) > 0 || bench.Median(row.values(w.columns[0].figure)) <= 0 {
				t.Errorf("%s %s %s: %v, %v", w.name, row.store, row.name, row.rounds, row.failures)
			}
		}
	}
	if err := r.breached(); err != nil {
		t.Error(err)
	}
}

// Two holders are found.
func TestBrokenLocksAreFound(t *testing.T) {
	for _, row := range measured(t, "broken") {
		if len(row.failures) > 0 || bench.Median(row.values("overlaps")) == 0 {
			t.Errorf("%s: %v, %v", row.workload.name, row.rounds, row.failures)
		}
	}
}

// A lock that is never had is told as such.
func TestStuckLocksAreFound(t *testing.T) {
	defer func(usual time.Duration) { patience = usual }(patience)
	patience = 100 * time.Millisecond // it hangs at any
	for _, row := range measured(t, "stuck") {
		if len(row.failures) != 1 {
			t.Errorf("%s: %v, %v", row.workload.name, row.rounds, row.failures)
		}
	}
}

// measured are the rows of a subject in memory, at what holds a key for some time.
func measured(t *testing.T, name string) (rows []*row) {
	t.Helper()
	b := runnerOf(t, "(lock-section|shared-contended)/memory/"+name+"$", "memory")
	for _, w := range workloads() {
		rows = append(rows, b.workload(t.Context(), w)...)
	}
	if len(rows) != 2 {
		t.Fatalf("%d rows", len(rows))
	}
	return rows
}

// rowOf is one of a workload that counts what is had, with a round for each value.
func rowOf(k kind, name string, values ...float64) *row {
	i := slices.IndexFunc(workloads(), func(w *workload) bool { return w.name == "lock-keys" })
	r := &row{subject: subject{store: "redis", name: name, kind: k}, workload: workloads()[i]}
	for _, v := range values {
		r.rounds = append(r.rounds, figures{"ops_s": v, "overlaps": 0})
	}
	return r
}

// The page says where coord is slower, and what failed.
func TestPage(t *testing.T) {
	gone := rowOf(peer, "gone")
	gone.failures = []string{"it hung"}
	r := &results{rows: []*row{
		rowOf(ours, "coord", 100, 90, 300), rowOf(peer, "quick", 150, 135, 0), rowOf(peer, "slow", 50, 50, 50), rowOf(floor, "bare", 200, 200, 200), gone,
	}}
	page := string(r.page())
	for _, want := range []string{"redis, coord: 1.5 × quick\n", "| redis | **coord** |  | 100 |", "| 0 | 2 |\n", "- redis, gone, failed in 1 of its rounds: `it hung`"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q:\n%s", want, page)
		}
	}
	if strings.Contains(page, "× slow") || strings.Count(page, "× quick") != 1 || strings.Contains(page, "NaN") {
		t.Errorf("coord is said to be slower than it is:\n%s", page)
	}
}

// More holders than may be of coord fail the benchmark. Those of another library are told.
func TestBreached(t *testing.T) {
	our, their := rowOf(ours, "coord", 1), rowOf(peer, "peer", 1)
	r := &results{rows: []*row{our, their}}
	their.rounds[0]["overlaps"] = 1
	if err := r.breached(); err != nil {
		t.Error(err)
	}
	our.rounds[0]["overlaps"] = 1
	if r.breached() == nil {
		t.Error("it is not told")
	}
}

func TestParse(t *testing.T) {
	for _, bad := range [][]string{{"-rounds", "0"}, {"-for", "1us"}, {"-run", "("}, {"more"}, {"-no"}} {
		if _, err := parse(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if o, err := parse(nil); err != nil || o.Rounds != 5 || len(o.stores) != len(storeNames) {
		t.Errorf("%+v, %v", o, err)
	}
}
