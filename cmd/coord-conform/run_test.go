package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/coordgo/coord/conformance"
)

func TestConform(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	report := filepath.Join(u.dir, "report.json")
	u.run("run", "memory://", "--run", "^LIMIT-01", "--verbose", "--report", report).want(t, 0, "pass        LIMIT-01", "")
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	r, err := conformance.ParseReport(text)
	if err != nil || r.Count(conformance.Pass) == 0 || r.Store.Name != "memory" {
		t.Errorf("%v in the report:\n%s", err, text)
	}
	// A case with a worker process, which is this program again.
	for _, c := range conformance.Cases() {
		if slices.Contains(c.Hooks, conformance.HookWorker) && len(c.Hooks) == 1 {
			u.run("run", "file://"+u.dir+"/store", "--verbose", "--run", "^"+c.FullName()+"$").want(t, 0, "pass        "+c.FullName(), "")
			break
		}
	}
	u.run("run").want(t, 64, "", "coord-conform: no URL: see coord-conform run --help\n")
	u.run("run", "memory://", "b").want(t, 64, "", `unexpected argument "b"`)
	u.run("run", "memory://", "--url", "memory://").want(t, 64, "", "give one of them")
	u.run("run", "memory://", "--run", "(").want(t, 64, "", "--run: ")
	u.run("run", "memory://", "--run", "nosuch").want(t, 64, "", `--run "nosuch": no case matches`)
	u.run("run", "memory://", "--parallel", "0").want(t, 64, "", "--parallel 0: want 1 or more")
	u.run("run", "memory://", "--report", "x.pdf").want(t, 64, "", "ends in .json or .md")
	u.run("run", "redis://127.0.0.1:1").want(t, 69, "", "store unavailable")
}
