package quorum_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
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
	{"vote of a newborn", "votes.go", "counts: m.runs.count(g, b.longest)", "counts: m.runs.count(g, b.longest) || true", "QUORUM-03"},
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
	{"nothing given back", "locks.go", "b.holds.get(holdKey{key, id}); now {", "b.holds.get(holdKey{key, id}); now || true {", "QUORUM-06"},
	{"one attempt", "locks.go", "if !split ||", "if !split || true ||", "QUORUM-06"},
}

// Each defect is found: the scenario fails when this package is built with it.
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, "go", "test", "-vet=off", "-count=1", "-overlay", m.overlay(t), "-run", "^TestScenarios$/^"+m.killer+"$", ".")
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: TestScenarios/"+m.killer) {
				t.Errorf("%s does not find it: %v\n%s", m.killer, err, out)
			}
		})
	}
}

// overlay writes the file with the defect, and gives what tells the go command to build it instead.
func (m mutant) overlay(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(m.file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), m.text); n != 1 {
		t.Fatalf("%q is in %s %d times, want once", m.text, m.file, n)
	}
	dir := t.TempDir()
	broken, list := filepath.Join(dir, m.file), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {path: broken}})
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string][]byte{broken: []byte(strings.Replace(string(text), m.text, m.instead, 1)), list: replace} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return list
}
