package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.uber.org/goleak"

	"github.com/coordgo/coord/bench/internal/command"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func onLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("unsupported: the processor time of a process is read on Linux only")
	}
}

// runnerOf measures a fake in place of every subject, and tells which were started.
func runnerOf(t *testing.T, f *fake, run string) (b *runner, started *[]string) {
	t.Helper()
	addr := f.serve(t)
	b = &runner{Options: &command.Options{Rounds: 2, ForEach: 5 * time.Millisecond, Run: regexp.MustCompile(run)}, log: t.Output(), redis: os.Getpid()}
	started = new([]string)
	b.start = func(_ context.Context, s subject) (*target, error) {
		*started = append(*started, s.name)
		return f.target(t, s, addr), nil
	}
	return b, started
}

// Every row gives figures of all subjects that speak Envoy's protocol, each of which is started once.
func TestSmoke(t *testing.T) {
	onLinux(t)
	f := new(fake)
	b, started := runnerOf(t, f, "^[0-9/]*/(envoyproxy|coord)")
	r, err := b.all(t.Context(), []string{"redis 7"})
	if err != nil {
		t.Fatal(err)
	}
	if names := []string{original, original + ", no statistics", "coord, envoy", "coord, exact", "coord, leased"}; !slices.Equal(*started, names) {
		t.Errorf("started: %q, want %q", *started, names)
	}
	if want := 6*5 + 6*4; len(r.cells) != want { // one is for one descriptor
		t.Errorf("%d cells, want %d", len(r.cells), want)
	}
	for _, c := range r.cells {
		rate, p50 := c.median(func(f figures) float64 { return f.rate }), c.median(func(f figures) float64 { return f.p50 })
		if len(c.rounds) != 2 || rate <= 0 || p50 <= 0 {
			t.Errorf("%s/%s: %+v", c.row, c.name, c.rounds)
		}
	}
	page := string(r.page())
	for _, want := range []string{"not the full run", "\n## 10,000 keys, 2 descriptors\n", "| 512 | **coord, envoy** |", "redis 7.\n"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q:\n%s", want, page)
		}
	}
}

// What a load counts as asked is what arrives, whether it ended in time or not.
func TestLoadCountsAll(t *testing.T) {
	onLinux(t)
	f := new(fake)
	to := f.target(t, subjects()[0], f.serve(t))
	before := f.total()
	l := newLoad(to, row{callers: 8, keys: 100, descriptors: 2})
	if _, err := l.measure(t.Context(), 20*time.Millisecond, os.Getpid()); err != nil {
		t.Fatal(err)
	}
	if hits := f.total() - before; int(hits) != 2*l.asked() || hits == 0 {
		t.Errorf("%d hits of %d requests with two descriptors", hits, l.asked())
	}
}

// A service that denies, fails, or answers for something else is told as such.
func TestWrongAnswersAreFound(t *testing.T) {
	onLinux(t)
	for name, answer := range map[string]func(*rls.RateLimitResponse) error{
		"is over": func(a *rls.RateLimitResponse) error { a.OverallCode = rls.RateLimitResponse_OVER_LIMIT; return nil },
		"failed":  func(*rls.RateLimitResponse) error { return errors.New("failed") },
		"not for": func(a *rls.RateLimitResponse) error { a.Statuses = a.Statuses[1:]; return nil },
	} {
		f := new(fake)
		to := f.target(t, subjects()[0], f.serve(t))
		f.answer = answer
		_, err := newLoad(to, row{callers: 2, keys: 1, descriptors: 2}).measure(t.Context(), time.Millisecond, os.Getpid())
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %q", err, name)
		}
	}
}

// A quota that is kept is right, and one that is not fails the command.
func TestQuotas(t *testing.T) {
	for limit, right := range map[uint32]bool{most: true, most + 1: false} {
		b, started := runnerOf(t, &fake{limit: limit}, "^admitted/")
		list, err := b.quotas(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r := &results{admissions: list}
		if err := r.breached(); (err == nil) != right || len(list) != len(quotas) || len(*started) != 2 {
			t.Errorf("limit %d: %v, %+v, started %q", limit, err, list, *started)
		}
		if want := fmt.Sprintf("| %s | 3200 | %d |\n", quotas[0].name, limit); !strings.Contains(string(r.page()), want) {
			t.Errorf("the page has no %q", want)
		}
	}
}

// Fewer than there are may be admitted where permits are taken in advance, and only there.
func TestFewerAreAdmitted(t *testing.T) {
	for _, q := range quotas {
		if a := (admission{quota: q, admitted: most - 1}); a.right() != q.atMost {
			t.Errorf("%s: %v", q.name, a.right())
		}
	}
}

// Requests ask for what the files have a rule for.
func TestFilesHaveTheRules(t *testing.T) {
	for _, q := range quotas {
		if file := files()[q.domain+".yaml"]; !strings.Contains(file, "{key: "+q.key()+", rate_limit: {requests_per_unit: 1000, "+q.rule+"}}") {
			t.Errorf("%s is not in\n%s", q.key(), file)
		}
	}
	for _, s := range subjects() {
		if s.domain != "" && !strings.HasPrefix(files()[s.domain+".yaml"], "domain: "+s.domain+"\n") {
			t.Errorf("%s: no file of the domain %s", s.name, s.domain)
		}
	}
}

func cellOf(name string, us ...float64) *cell {
	i := slices.IndexFunc(subjects(), func(s subject) bool { return s.name == name })
	c := &cell{row: row{64, 1, 2}, subject: subjects()[i]}
	for _, v := range us {
		c.rounds = append(c.rounds, figures{rate: 1e6 / v, us: v, redis: v / 4, p50: 10 * v, p99: 20 * v})
	}
	return c
}

func TestPage(t *testing.T) {
	r := &results{cells: []*cell{cellOf(original, 100, 50, 80), cellOf("coord, exact", 50, 100, 44), cellOf("gubernator", 40, 40, 40)}}
	page := string(r.page())
	for _, want := range []string{
		"\n## 1 key, 2 descriptors\n", "| 64 | " + original + " | 12,500 |  | 80 |  | 20 | 800 | 1,600 |\n",
		"| 64 | **coord, exact** | 20,000 | 1.82 | 50 | 0.55 | 12.5 | 500 | 1,000 |\n", "| 64 | gubernator | 25,000 | 2 | 40 | 0.5 | – | 400 | 800 |\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q:\n%s", want, page)
		}
	}
}

// What the system tells of this process grows with what it does.
func TestProcessorTime(t *testing.T) {
	onLinux(t)
	first, err := processorTime(os.Getpid())
	for now := first; err == nil && now == first; {
		now, err = processorTime(os.Getpid())
	}
	if err != nil {
		t.Error(err)
	}
	if _, err := processorTime(-1); err == nil {
		t.Error("there is no such process")
	}
}

func TestParse(t *testing.T) {
	for _, bad := range [][]string{{"-rounds", "0"}, {"-for", "1us"}, {"-run", "("}, {"more"}, {"-no"}} {
		if _, err := parse(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if o, err := parse(nil); err != nil || o.Rounds != 5 || o.ForEach != time.Second {
		t.Errorf("%+v, %v", o, err)
	}
}
