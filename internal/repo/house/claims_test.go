package house

import (
	"strings"
	"testing"

	"github.com/coordgo/coord/backends/all"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/golden"
)

// The table of claims in the guide is what the code claims.
func TestClaimsTable(t *testing.T) {
	const (
		path  = "../../../docs/choosing-a-store.md"
		begin = "<!-- claims: written by go test ./internal/repo/house -update -->\n"
		end   = "<!-- end of claims -->\n"
	)
	golden.Section(t, path, begin, end, claimsTable())
}

func claimsTable() string {
	stores := []string{"memory", "file", "redis", "etcd", "zookeeper", "memcached", "postgres"}
	var b strings.Builder
	b.WriteString("| claim | " + strings.Join(stores, " | ") + " |\n| --- |" + strings.Repeat(" --- |", len(stores)) + "\n")
	for _, c := range driver.AllClaims() {
		b.WriteString("| `" + string(c) + "` |")
		for _, s := range stores {
			if all.Claims(s).Has(c) {
				b.WriteString(" yes |")
			} else {
				b.WriteString(" – |")
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}
