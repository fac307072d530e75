package quorum_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// mutant is a defect of this package, as another text in one of its files, and the scenario that has to find it.
type mutant struct {
	name, file, text, instead, killer string
}

var mutants = []mutant{
	{"half of the members", "quorum.go", "need: len(members)/2 + 1", "need: len(members) / 2", "QUORUM-09"},
	{"longest lease", "votes.go", "return votes[min(b.need, len(votes))-1].until", "return votes[0].until", "QUORUM-10"},
	{"lease from the answer", "votes.go", "return since.Add(g.TTL)", "return since.Add(time.Since(since) + g.TTL)", "QUORUM-10"},
	{"token not written back", "locks.go", "err := b.writeBack(ctx, key, r, grants, token)", "err := error(nil)", "QUORUM-04"},
	{"vote of a newborn", "votes.go", "v.counts = !time.Now().Before(v.from)", "v.counts = true", "QUORUM-03"},
	{
		"errors that vote", "locks.go", "g, err := s.TryLock(ctx, key, r)\n\t\tif err != nil {\n\t\t\treturn vote{}, err", `g, err := s.TryLock(ctx, key, r)
		if err != nil && !errors.Is(err, driver.ErrLocked) {
			g, err = driver.Grant{Token: r.Floor, TTL: r.TTL}, nil
		}
		if err != nil {
			return vote{}, err`, "QUORUM-07",
	},
	{"renewal by any", "renew.go", "case len(s.yes) >= b.need:", "case len(s.yes) >= 1:", "QUORUM-09"},
	{"waits for all", "locks.go", "return b.answered(b.count(grants, driver.ErrLocked))", "return false", "QUORUM-01"},
	{"no heal", "renew.go", "if !now || len(s.lost)+len(s.lower) == 0", "if true || !now || len(s.lost)+len(s.lower) == 0", "QUORUM-02"},
	{"nothing given back", "giveback.go", "b.holds.get(holdKey{key, id}); now {", "b.holds.get(holdKey{key, id}); now || true {", "QUORUM-06"},
	{"one attempt", "locks.go", "if !split ||", "if !split || true ||", "QUORUM-06"},
}

// Each defect is found: the scenario fails on a copy of this package that has it. All copies are built as one program.
func TestMutants(t *testing.T) {
	program := buildMutants(t)
	for i, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			test := fmt.Sprintf("TestMutants/%d/%s", i, m.killer)
			out, err := exec.CommandContext(ctx, program, "-test.run", "^"+strings.ReplaceAll(test, "/", "$/^")+"$").CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: "+test+" ") {
				t.Errorf("%s does not find it: %v\n%s", m.killer, err, out)
			}
		})
	}
}

const (
	thisPackage = "github.com/coordgo/coord/internal/quorum"
	copies      = "mutants" // the directory of the copies, which an overlay of the go command has
)

// buildMutants builds a test program with a copy of this package for each defect, and its scenarios. Nothing else has to be
// compiled again: what imports this package has the one without a defect.
func buildMutants(t *testing.T) (program string) {
	t.Helper()
	dir, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	o := overlay{t: t, dir: t.TempDir(), Replace: make(map[string]string)}
	var imports, runs strings.Builder
	for i, m := range mutants {
		path := fmt.Sprintf("%s/%s/m%d", thisPackage, copies, i)
		to := filepath.Join(dir, copies, fmt.Sprint("m", i))
		for _, source := range sources(t) {
			if text := read(t, source); source == m.file {
				if n := strings.Count(text, m.text); n != 1 {
					t.Fatalf("%q is in %s %d times, want once", m.text, m.file, n)
				}
				o.add(filepath.Join(to, source), strings.Replace(text, m.text, m.instead, 1))
			} else {
				o.add(filepath.Join(to, strings.Replace(source, "_test", "", 1)), text)
			}
		}
		for _, scenes := range []string{"scenarios", "trial", "witness", "servers", "quorum"} {
			text := strings.Replace(read(t, scenes+"_test.go"), `"`+thisPackage+`"`, fmt.Sprintf("quorum %q", path), 1)
			o.add(filepath.Join(to, "scenarios", scenes+".go"), strings.Replace(text, "package quorum_test", "package scenarios", 1))
		}
		fmt.Fprintf(&imports, "\tm%d %q\n", i, path+"/scenarios")
		fmt.Fprintf(&runs, "\tt.Run(\"%d\", m%d.TestScenarios)\n", i, i)
	}
	o.add(filepath.Join(dir, copies, "all_test.go"), fmt.Sprintf(
		"package %s\n\nimport (\n\t\"testing\"\n\n%s)\n\nfunc TestMutants(t *testing.T) {\n%s}\n", copies, &imports, &runs))
	return o.build("./" + copies)
}

// sources are the files that a copy has: those of this package, and what it exports for tests.
func sources(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(f string) bool { return strings.HasSuffix(f, "_test.go") && f != "export_test.go" })
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// overlay has files that the go command is to see in place of those on disk.
type overlay struct {
	t       *testing.T
	dir     string
	Replace map[string]string // by the path where it is seen
}

func (o *overlay) add(path, text string) {
	o.t.Helper()
	file := filepath.Join(o.dir, fmt.Sprint(len(o.Replace), ".go"))
	o.write(file, []byte(text))
	o.Replace[path] = file
}

func (o *overlay) write(file string, text []byte) {
	o.t.Helper()
	if err := os.WriteFile(file, text, 0o600); err != nil {
		o.t.Fatal(err)
	}
}

// build builds the tests of a package that is seen.
func (o *overlay) build(path string) (program string) {
	o.t.Helper()
	list, err := json.Marshal(o)
	if err != nil {
		o.t.Fatal(err)
	}
	file, program := filepath.Join(o.dir, "overlay.json"), filepath.Join(o.dir, "mutants.test")
	o.write(file, list)
	ctx, cancel := context.WithTimeout(o.t.Context(), 5*time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", file, "-o", program, path).CombinedOutput(); err != nil {
		o.t.Fatalf("build: %v\n%s", err, out)
	}
	return program
}
