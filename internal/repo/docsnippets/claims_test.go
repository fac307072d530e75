package docsnippets

import (
	"strings"
	"testing"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/golden"
)

// The table of claims for authors of adapters says which cases decide each.
func TestClaimsTable(t *testing.T) {
	decide := make(map[driver.Claim][]string)
	for _, c := range conformance.Cases() {
		decide[c.Proves] = append(decide[c.Proves], c.ID)
	}
	var b strings.Builder
	b.WriteString("| claim | decided by |\n| --- | --- |\n")
	for _, claim := range driver.AllClaims() {
		cases := "–"
		if ids := decide[claim]; len(ids) > 0 {
			cases = strings.Join(ids, ", ")
		}
		b.WriteString("| `" + string(claim) + "` | " + cases + " |\n")
	}
	golden.Section(t, "../../../docs/adapters-in-depth.md", "<!-- claims: written by go test ./internal/repo/docsnippets -update -->\n",
		"<!-- end of claims -->\n", b.String())
}
