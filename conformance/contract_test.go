package conformance_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
)

var (
	heading = regexp.MustCompile(`(?m)^### ((?:SH|[CELMR])\d+) `)
	listed  = regexp.MustCompile(`(?m)^Cases: (.*)\.$`)
)

// Every clause of the contract has a case, every case a clause, and the contract names them.
func TestContractNamesItsCases(t *testing.T) {
	text, err := os.ReadFile("../docs/contract.md")
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string][]string)
	for _, c := range conformance.Cases() {
		want[c.Clause] = append(want[c.Clause], c.ID)
	}
	sections := heading.FindAllSubmatchIndex(text, -1)
	for i, at := range sections {
		clause, end := string(text[at[2]:at[3]]), len(text)
		if i+1 < len(sections) {
			end = sections[i+1][0]
		}
		cases := listed.FindSubmatch(text[at[1]:end])
		if cases == nil {
			t.Errorf("clause %s names no cases", clause)
			continue
		}
		if got := strings.Split(string(cases[1]), ", "); !slices.Equal(got, want[clause]) {
			t.Errorf("clause %s names the cases %v, the suite has %v", clause, got, want[clause])
		}
		delete(want, clause)
	}
	for clause, cases := range want {
		t.Errorf("the cases %v are about clause %s, which the contract does not have", cases, clause)
	}
}

func TestCasesAreWellFormed(t *testing.T) {
	id := regexp.MustCompile(`^(CORE|LOCK|LIMIT)-\d{2,3}$`)
	name := regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
	ids, names := make(map[string]bool), make(map[string]bool)
	known := driver.Claims(driver.AllClaims())
	for _, c := range conformance.Cases() {
		if !id.MatchString(c.ID) || ids[c.ID] {
			t.Errorf("case %s: its id is malformed or repeated", c.ID)
		}
		if !name.MatchString(c.Name) || names[c.Name] {
			t.Errorf("case %s: its name %q is malformed or repeated", c.ID, c.Name)
		}
		ids[c.ID], names[c.Name] = true, true
		if c.Why == "" {
			t.Errorf("case %s does not say why", c.ID)
		}
		if c.Remedy == "" || strings.Contains(c.Remedy, "\n") {
			t.Errorf("case %s does not say in a line what an adapter that fails usually has to change", c.ID)
		}
		if c.Proves != "" && !known.Has(c.Proves) || len(known.Missing(c.Needs...)) > 0 {
			t.Errorf("case %s is about a claim that does not exist", c.ID)
		}
	}
}
