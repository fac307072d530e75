package docsnippets

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
)

// The table of claims for authors of adapters has every claim, and the cases that it names for
// one decide it.
func TestClaimsTable(t *testing.T) {
	text, err := os.ReadFile("../../../docs/adapters-in-depth.md")
	if err != nil {
		t.Fatal(err)
	}
	decides := make(map[string]driver.Claim)
	for _, c := range conformance.Cases() {
		decides[c.ID] = c.Proves
	}
	id := regexp.MustCompile(`(LOCK|LIMIT|CORE)-\d+`)
	for _, claim := range driver.AllClaims() {
		found := false
		for _, line := range strings.Split(string(text), "\n") {
			cells := strings.Split(line, "|")
			if len(cells) != 4 || !strings.Contains(cells[1], "`"+string(claim)+"`") {
				continue
			}
			found = true
			for _, name := range id.FindAllString(cells[2], -1) {
				if decides[name] != claim {
					t.Errorf("the row of %s names %s, which decides %q", claim, name, decides[name])
				}
			}
		}
		if !found {
			t.Errorf("the table has no row for %s", claim)
		}
	}
}
