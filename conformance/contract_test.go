package conformance_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/golden"
)

var (
	heading = regexp.MustCompile(`^### ((?:SH|[CDELMR])\d+) `)
	// clauseLine is the heading of a clause, or what names its cases.
	clauseLine = regexp.MustCompile(`(?m)^(### (?:SH|[CDELMR])\d+ .*|Cases: .*)$`)
)

// Every clause of the contract has a case, every case a clause, and the contract names them.
func TestContractNamesItsCases(t *testing.T) {
	cases := make(map[string][]string)
	for _, c := range conformance.Cases() {
		cases[c.Clause] = append(cases[c.Clause], c.ID)
	}
	for _, page := range []string{"../docs/contract.md", "../docs/contract-limits.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		clause := ""
		golden.File(t, page, clauseLine.ReplaceAllStringFunc(string(text), func(l string) string {
			if m := heading.FindStringSubmatch(l); m != nil {
				clause = m[1]
				return l
			}
			ids := cases[clause]
			if delete(cases, clause); ids == nil {
				t.Errorf("clause %q has no cases, or names them twice", clause)
			}
			return "Cases: " + strings.Join(ids, ", ") + "."
		}))
	}
	for clause, ids := range cases {
		t.Errorf("the cases %v are about clause %s, which the contract does not have, or which names no cases", ids, clause)
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
