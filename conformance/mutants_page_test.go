package conformance_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/internal/golden"
)

const (
	mutantsPage  = "../docs/generated/mutants.md"
	mutantsTable = "../docs/soak/mutants.json"
)

// The page of mutants says what the table and the last soak say.
func TestMutantsPage(t *testing.T) {
	all, err := readKills(mutantsTable)
	if err != nil {
		t.Fatal(err)
	}
	golden.File(t, mutantsPage, string(page(allMutants(), all)))
}

func page(mutants []mutant, kills map[string][]string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `# Mutants

This page lists the %d broken drivers that prove the conformance suite: each has one bug that somebody has made, or
easily could. The tests of the suite check that the cases about a bug fail its driver, and that the same driver without
the bug passes them. `+"`"+`go test ./conformance -run TestMutantsPage -update`+"`"+` writes this page.
`, len(mutants))
	if len(kills) > 0 {
		b.WriteString("\nThe last column is from `make soak`, which runs each mutant through the whole suite: the other cases that noticed.\n\n| mutant | the bug | killed by | and by |\n| --- | --- | --- | --- |\n")
	} else {
		b.WriteString("\n| mutant | the bug | killed by |\n| --- | --- | --- |\n")
	}
	for _, m := range mutants {
		fmt.Fprintf(&b, "| %s | %s | %s |", m.name, m.bug, strings.Join(m.killers, ", "))
		if len(kills) > 0 {
			others := slices.DeleteFunc(slices.Clone(kills[m.name]), func(id string) bool { return slices.Contains(m.killers, id) })
			fmt.Fprintf(&b, " %s |", shorten(others))
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// shorten lists ids, as far as a table has room for them.
func shorten(ids []string) string {
	const most = 8
	if len(ids) <= most {
		return strings.Join(ids, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(ids[:most], ", "), len(ids)-most)
}

// readKills reads which cases killed each mutant in the last soak.
func readKills(path string) (map[string][]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	kills := make(map[string][]string)
	if err := json.Unmarshal(text, &kills); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return kills, nil
}

func TestMutantsAreNamedOnce(t *testing.T) {
	cases := make(map[string]bool)
	for _, c := range conformance.Cases() {
		cases[c.ID] = true
	}
	seen := make(map[string]bool)
	for _, m := range allMutants() {
		if m.name == "" || m.bug == "" || seen[m.name] || strings.Contains(m.name+m.bug, "|") {
			t.Errorf("mutant %q: its name is missing or repeated, or its bug is not told", m.name)
		}
		seen[m.name] = true
		for _, id := range m.killers {
			if !cases[id] {
				t.Errorf("mutant %q: there is no case %s", m.name, id)
			}
		}
	}
}

// Each mutant through the whole suite, for the page. It takes minutes: COORD_SOAK_MUTANTS=1 asks for it.
func TestMutantsUnderTheWholeSuite(t *testing.T) {
	if os.Getenv("COORD_SOAK_MUTANTS") == "" {
		t.Skip("unsupported: the whole suite on every mutant is a part of make soak")
	}
	t.Cleanup(endLeaks)
	all := allMutants()
	kills := make(map[string][]string)
	var mu sync.Mutex
	// Few at once: what fails because the machine is busy is no kill.
	examineAll(len(all), 2, func(i int) {
		x := examine(t.Context(), all[i].new(), nil)
		if x.err != nil {
			t.Errorf("mutant %q: %v", all[i].name, x.err)
			return
		}
		failed := []string{}
		for _, res := range x.report.Results {
			if res.Outcome == conformance.Fail {
				failed = append(failed, res.ID)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		kills[all[i].name] = failed
		t.Logf("%s: killed by %v", all[i].name, failed)
	})
	text, err := json.MarshalIndent(kills, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(mutantsTable, append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}
