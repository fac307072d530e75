package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coordgo/coord/internal/bench"
)

// docs is where the page is.
const docs = "../docs/generated"

func TestMain(m *testing.M) {
	broken := func(context.Context, *store) (lockClient, error) { return brokenLocks{}, nil }
	stuck := func(context.Context, *store) (lockClient, error) { return stuckLocks{}, nil }
	testSubjects = []subject{
		{store: "redis", name: "broken", kind: bench.Peer, locks: broken, reads: broken, shares: saturated | amongReaders},
		{store: "redis", name: "stuck", kind: bench.Peer, locks: stuck, reads: stuck, shares: saturated | amongReaders},
	}
	if os.Getenv(workerEnv) != "" {
		os.Exit(workerMain())
	}
	patience = 30 * time.Second // for a busy machine
	goleak.VerifyTestMain(m)
}

// brokenLocks let everybody in.
type brokenLocks struct{}

func (brokenLocks) Lock(context.Context, string) (bench.Held, error) { return brokenLocks{}, nil }
func (brokenLocks) Unlock(context.Context) error                     { return nil }
func (brokenLocks) Close() error                                     { return nil }

// stuckLocks let nobody in but those who only try them.
type stuckLocks struct{ brokenLocks }

func (stuckLocks) Lock(ctx context.Context, key string) (bench.Held, error) {
	if strings.Contains(key, "-warm") {
		return brokenLocks{}, nil
	}
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// runnerOf measures in short on these stores.
func runnerOf(t *testing.T, s *suite, run string, stores ...string) *runner {
	t.Helper()
	b := &runner{
		options: &options{rounds: 1, forEach: 100 * time.Millisecond, run: regexp.MustCompile(run), stores: stores, suite: s},
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

// Every workload gives its figures, of coord and of the bare commands, and a page can be made of
// them.
func TestSmoke(t *testing.T) {
	for s, run := range map[*suite]string{
		peers:  `/(coord|coord, sliding window|SET NX PX.*|BLPOP.*|EVALSHA.*|redis_rate|go-limiter|x/time.*|sync.*)$`,
		shared: `/(coord.*|SET NX PX.*|sorted set.* 1 ms|channel.*|sync.*)$`,
	} {
		t.Run(s.target, func(t *testing.T) { smoke(t, s, run) })
	}
}

func smoke(t *testing.T, s *suite, run string) {
	b := runnerOf(t, s, run, "redis", "memory")
	r := b.all(t.Context())
	if r.Complete {
		t.Error("this counts as a full run")
	}
	path := filepath.Join(t.TempDir(), "results.json")
	if err := r.write(path); err != nil {
		t.Fatal(err)
	}
	again, err := readResults(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(s.section(again), s.section(r)) {
		t.Error("the page of the results is another once they were written and read")
	}
	for _, w := range s.workloads() {
		rows := again.of(w.name)
		if !slices.ContainsFunc(rows, func(r Row) bool { return r.Kind == bench.Ours }) {
			t.Errorf("%s: coord was not measured", w.name)
		}
		for _, row := range rows {
			checkRow(t, w, row)
		}
	}
	wantXML(t, s.plots(again))
}

func checkRow(t *testing.T, w *workload, row Row) {
	t.Helper()
	name := row.Workload + " " + row.Store + " " + row.Subject
	if slices.Contains(row.Failures, errNothing.Error()) {
		t.Logf("%s: %v: the machine is busy", name, errNothing)
		return
	}
	if len(row.Failures) > 0 || row.Figures[w.chief].Median <= 0 {
		t.Errorf("%s: %v, %v", name, row.Figures, row.Failures)
	}
	if row.Figures["overlaps"].Max != 0 {
		t.Errorf("%s: two held one key", name)
	}
	if jain, ok := row.Figures["jain"]; ok && (jain.Min <= 0 || jain.Max > 1.000001) {
		t.Errorf("%s: fairness %v", name, jain)
	}
	if row.Subject == "coord, sliding window" && row.Workload == "exact" && row.Figures["worst"].Max > 2000 {
		t.Errorf("%s: %v permits in a window of 2000", name, row.Figures["worst"].Max)
	}
	if row.Store == "redis" && w.name == "limit-alone" && row.Figures["commands"].Median < 1 {
		t.Errorf("%s: %v commands were counted for a decision", name, row.Figures["commands"].Median)
	}
}

func wantXML(t *testing.T, plots map[string][]byte) {
	t.Helper()
	for name, svg := range plots {
		for dec := xml.NewDecoder(bytes.NewReader(svg)); ; {
			if _, err := dec.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Errorf("%s: %v", name, err)
				break
			}
		}
	}
}

// Two holders in two processes are found, and a lock that is never had is told as such.
func TestBrokenLocksAreFound(t *testing.T) {
	b := runnerOf(t, shared, `redis/(broken|stuck)$`, "redis")
	b.options.forEach = 500 * time.Millisecond // in which two meet on a busy machine too
	defer func(usual time.Duration) { patience = usual }(patience)
	patience = time.Second
	for _, name := range []string{"lock-contended", "lock-processes", "herd", "shared-contended", "shared-writer"} {
		for _, row := range b.workload(t.Context(), workloadNamed(name)) {
			switch overlaps := row.Figures["overlaps"].Max; {
			case row.Subject == "stuck" && len(row.Failures) != 1:
				t.Errorf("%s: a lock that is never had: %+v", name, row)
			case row.Subject == "broken" && name != "herd" && overlaps == 0:
				t.Errorf("%s: two holders were not found: %+v", name, row)
			}
		}
	}
}

// The pages and the plots are what the results say.
func TestPageIsOfItsResults(t *testing.T) {
	for s, word := range map[*suite]string{peers: "", shared: "shared "} {
		again := "run go run . " + word + "-only-page -docs ../docs/generated in bench"
		r, err := resultsOrNone(s.out)
		if err != nil {
			t.Fatal(err)
		}
		if r != nil && r.breached() != nil {
			t.Error(r.breached())
		}
		page, err := os.ReadFile(filepath.Join(docs, s.page.name))
		if err != nil {
			t.Fatal(err)
		}
		if want, err := s.page.spliced(page, s.section(r)); err != nil || !bytes.Equal(page, want) {
			t.Errorf("%s is not what the results say (%v): %s", s.page.name, err, again)
		}
		wantPlots(t, s.page, s.plots(r), again)
	}
}

// More holders than may be of coord fail the benchmark. Those of another library are told.
func TestBreached(t *testing.T) {
	overlaps := map[string]bench.Spread{"overlaps": {Max: 1}}
	r := &Results{Rows: []Row{{Kind: bench.Peer, Figures: overlaps}, {Kind: bench.Ours, Figures: map[string]bench.Spread{"overlaps": {}}}}}
	if err := r.breached(); err != nil {
		t.Error(err)
	}
	r.Rows = append(r.Rows, Row{Kind: bench.Ours, Figures: overlaps})
	if r.breached() == nil {
		t.Error("it is not told")
	}
}

// wantPlots wants the plots of a page to be there, and no others.
func wantPlots(t *testing.T, p page, want map[string][]byte, again string) {
	t.Helper()
	wantXML(t, want)
	there, err := filepath.Glob(filepath.Join(docs, p.plots, "*.svg"))
	if err != nil || len(there) != len(want) {
		t.Errorf("%d plots, want %d (%v): %s", len(there), len(want), err, again)
	}
	for name, svg := range want {
		if got, err := os.ReadFile(filepath.Join(docs, p.plots, name)); err != nil || !bytes.Equal(got, svg) {
			t.Errorf("%s is not what the results say (%v): %s", name, err, again)
		}
	}
}

// The page is written again, and nothing beside its section is touched.
func TestWritePage(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, peersPage.name)
	r := &Results{Schema: schema, Rows: []Row{
		{Workload: "lock-alone", Store: "redis", Subject: "coord", Kind: bench.Ours, Figures: map[string]bench.Spread{"us": {Median: 30, Min: 29, Max: 31, N: 5}}, Rounds: []float64{30, 31, 29}, Ratio: &bench.Spread{Median: 3}},
		{Workload: "lock-alone", Store: "redis", Subject: "quick", Kind: bench.Peer, Figures: map[string]bench.Spread{"us": {Median: 20, N: 5}}, Rounds: []float64{20, 20, 0}},
		{Workload: "lock-alone", Store: "redis", Subject: "slow", Kind: bench.Peer, Figures: map[string]bench.Spread{"us": {Median: 90, N: 5}}, Rounds: []float64{90, 90, 90}},
		{Workload: "lock-alone", Store: "etcd", Subject: "elsewhere", Kind: bench.Peer, Figures: map[string]bench.Spread{"us": {Median: 1, N: 5}}, Rounds: []float64{1, 1, 1}},
		{Workload: "lock-keys", Store: "redis", Subject: "coord", Kind: bench.Ours, Figures: map[string]bench.Spread{"ops_s": {Median: 200, N: 5}}, Rounds: []float64{200}},
		{Workload: "lock-keys", Store: "redis", Subject: "quick", Kind: bench.Peer, Figures: map[string]bench.Spread{"ops_s": {Median: 100, N: 5}}, Rounds: []float64{100}},
		{Workload: "lock-keys", Store: "redis", Subject: "gone", Kind: bench.Peer, Failures: []string{"it hung"}},
	}}
	for _, bad := range []string{"", peersPage.begin, peersPage.end} {
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := peers.writePage(r, dir); err == nil {
			t.Errorf("a page of %q was written", bad)
		}
	}
	if err := os.WriteFile(path, []byte("before\n"+peersPage.begin+"what was there\n"+peersPage.end+"after\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	others := filepath.Join(dir, peersPage.plots, "others", "plot.svg")
	stale := filepath.Join(dir, peersPage.plots, "stale.svg")
	if err := os.MkdirAll(filepath.Dir(others), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{others, stale} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := peers.writePage(r, dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(others); err != nil {
		t.Errorf("plots of another page are gone: %v", err)
	}
	if _, err := os.Stat(stale); err == nil {
		t.Error("a plot that nothing is told of any more is still there")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	if !strings.HasPrefix(page, "before\n"+peersPage.begin) || !strings.HasSuffix(page, peersPage.end+"after\n") || strings.Contains(page, "what was there") {
		t.Errorf("what is not generated has changed:\n%s", page)
	}
	for _, want := range []string{"redis, coord: 1.52 × quick\n", "not the full run", "| redis | **coord** | 30 |", "redis, gone, failed in 1 of its rounds: `it hung`"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q:\n%s", want, page)
		}
	}
	if strings.Contains(page, "× slow") || strings.Count(page, "× quick") != 1 {
		t.Errorf("coord is said to be slower than it is:\n%s", page)
	}
	if svg, err := os.ReadFile(filepath.Join(dir, peersPage.plots, "lock-keys.svg")); err != nil || !bytes.Contains(svg, []byte("no figures")) {
		t.Errorf("the plot does not show what failed: %v\n%s", err, svg)
	}
}

func TestParse(t *testing.T) {
	for _, bad := range [][]string{{"-rounds", "0"}, {"-for", "1us"}, {"-run", "("}, {"more"}, {"-no"}} {
		if _, err := peers.parse(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if o, err := peers.parse(nil); err != nil || o.rounds != 5 || len(o.stores) != len(storeNames) {
		t.Errorf("%+v, %v", o, err)
	}
	old := filepath.Join(t.TempDir(), "old.json")
	if err := os.WriteFile(old, []byte(`{"schema": 0}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readResults(old); err == nil {
		t.Error("results of another schema were read")
	}
}
