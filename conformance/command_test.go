package conformance

import (
	"bytes"
	"context"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
)

// tooMany grants one permit more than there are.
type tooMany struct {
	driver.Unimplemented
	limits driver.Limiter
}

func (tooMany) Info() driver.Info { return driver.Info{Name: "toomany", Claims: memory.Claims} }
func (tooMany) Close() error      { return nil }

func (f tooMany) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (driver.TakenOne, error) {
	return driver.One(f.Take(ctx, key, l, []driver.Ask{a}))
}

func (m tooMany) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	l.Rate++
	return m.limits.Take(ctx, key, l, asks)
}

func (m tooMany) Reset(ctx context.Context, key string, l driver.Limit) error {
	return m.limits.Reset(ctx, key, l)
}

func brokenHarness() Harness {
	return Harness{Open: func(TB) driver.Backend { return tooMany{limits: memory.New()} }, Claims: memory.Claims}
}

func TestCommand(t *testing.T) {
	var out bytes.Buffer
	dir := t.TempDir()
	c := &Command{
		Suite:   Suite{Harness: brokenHarness(), Only: only("LIMIT-05", "LOCK-02"), Seed: 7, Alone: "try --seed {seed} --run {case}"},
		Reports: []string{filepath.Join(dir, "a.json"), filepath.Join(dir, "a.md")},
		Verbose: true, Out: &out,
	}
	r, err := c.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !r.Failed() || r.Count(Fail) != 1 || r.Count(Unsupported) != 1 {
		t.Errorf("%s: want one failure, and one case about the half that is missing", r.Line())
	}
	for _, want := range []string{
		"fail        LIMIT-05/denied-ask-debits-nothing", "breaks clause R1 of docs/contract.md", "usual remedy: check before counting",
		"alone: try --seed 7 --run LIMIT-05\n", "unsupported LOCK-02/held-key-is-refused: the store has no locks\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not told:\n%s", want, out.String())
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, "a.json"))
	if err != nil {
		t.Fatal(err)
	}
	if back, err := ParseReport(data); err != nil || back.Seed != 7 || back.Count(Fail) != 1 {
		t.Errorf("the report read back: %v", err)
	}
}

func TestCommandRefusesWhatItCannotWrite(t *testing.T) {
	c := &Command{Suite: Suite{Harness: memoryHarness()}, Reports: []string{"a.pdf"}, Out: new(bytes.Buffer)}
	if _, err := c.Run(t.Context()); err == nil {
		t.Error("a report was to be a PDF, and the suite ran")
	}
	c.Reports = []string{filepath.Join(t.TempDir(), "gone", "a.json")}
	c.Suite.Started = func(cs Case) { t.Errorf("%s ran, and its report has no directory", cs.ID) }
	if _, err := c.Run(t.Context()); err == nil {
		t.Error("a report was to be in a directory that does not exist, and the suite ran")
	}
	c = &Command{Suite: Suite{Harness: memoryHarness(), Only: only("LOCK-02")}, Out: full{}}
	if _, err := c.Run(t.Context()); !errors.Is(err, errFull) {
		t.Errorf("output that cannot be written: %v, want its error", err)
	}
}

var errFull = errors.New("no space left")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

// A run that is ended reports what had ended by then: cases that were cut off are no failures, and nothing follows from them.
func TestCommandIsStopped(t *testing.T) {
	var out bytes.Buffer
	stop := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	path := filepath.Join(t.TempDir(), "report.json")
	h := memoryHarness()
	h.Deviations = []Deviation{{Clause: "L4", Reason: "one of its cases fails, but not the first"}}
	c := &Command{Out: &out, Reports: []string{path}, Suite: Suite{
		Harness: h, Only: only("LOCK-23", "LOCK-24"), Parallel: 1,
		Started: func(c Case) {
			if c.ID == "LOCK-24" {
				cancel(stop)
			}
		},
	}}
	r, err := c.Run(ctx)
	if !errors.Is(err, stop) || r == nil || len(r.Results) != 1 || !r.Selection.Stopped || r.Failed() {
		t.Fatalf("%+v, %v, want a report of the first case, and why the run ended", r, err)
	}
	if strings.Contains(out.String(), "fail ") {
		t.Errorf("what was cut off is told as a failure:\n%s", out.String())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	saved, err := ParseReport(data)
	if err != nil || !saved.Selection.Stopped || len(saved.Results) != 1 {
		t.Errorf("%+v, %v, want the report to be saved", saved, err)
	}
}

func TestURLHarness(t *testing.T) {
	for raw, want := range map[string]struct{ faults, embedded, worker bool }{
		"memory://x":          {false, true, false},
		"memory+cluster://x":  {false, true, false},
		"memory://x:1":        {true, false, false},
		"memory://x:1,y:2":    {false, false, false},
		"memory+many://x:123": {false, false, false},
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		open := func(context.Context, *url.URL) (driver.Backend, error) { return memory.New(), nil }
		h, err := URLHarness(t.Context(), open, u, nil)
		if err != nil {
			t.Fatal(err)
		}
		if (h.Faults != nil) != want.faults || h.Embedded != want.embedded || (h.WorkerURL != "") != want.worker {
			t.Errorf("%s: faults %v, embedded %v, workers at %q", raw, h.Faults != nil, h.Embedded, h.WorkerURL)
		}
	}
}

// A third party's program is three lines, and does all of it.
func TestMainOfAnother(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp(".", "_main-") // inside the module, whose packages it imports, and out of ./...
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	const program = `package main

import (
	"github.com/coordgo/coord/backends/file"
	"github.com/coordgo/coord/conformance"
)

func main() { conformance.Main(file.Open, file.Claims...) }
`
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "prove")
	if out, err := exec.Command("go", "build", "-o", binary, "./"+dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	store := t.TempDir()
	report := filepath.Join(t.TempDir(), "file.json")
	for _, test := range []struct {
		args   []string
		status int
		says   string
	}{
		// LOCK-04 kills the program, started again as a worker.
		{[]string{"--run", "LOCK-0[24]", "--verbose", "--report", report, "file://" + store}, exitKept, "pass        LOCK-04/dead-holder-frees-the-key"},
		{[]string{"--help"}, exitKept, "-report"},
		{nil, exitUsage, "want one URL"},
		{[]string{"store"}, exitUsage, "want a form like"},
		{[]string{"--report", "x.pdf", "file:///x"}, exitUsage, "ends in .json or .md"},
		{[]string{"--run", "(", "file:///x"}, exitUsage, "--run: "},
		{[]string{"--run", "nosuch", "file://" + store}, exitUsage, "no case is selected"},
		{[]string{"file://relative/dir"}, exitHarness, "invalid argument"},
	} {
		cmd := exec.Command(binary, test.args...)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatalf("%v: %v", test.args, err)
		}
		if cmd.ProcessState.ExitCode() != test.status || !regexp.MustCompile(test.says).Match(out) {
			t.Errorf("%v: status %d, want %d with %q\n%s", test.args, cmd.ProcessState.ExitCode(), test.status, test.says, out)
		}
	}
	data, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := ParseReport(data); err != nil || r.Store.Name != "file" || r.Count(Pass) != 2 {
		t.Errorf("the report of another's program: %v, %+v", err, r)
	}
}
