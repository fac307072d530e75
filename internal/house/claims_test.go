package house

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/coordgo/coord/backends/all"
	"github.com/coordgo/coord/driver"
)

var update = flag.Bool("update", false, "write what the documents are to say")

// The table of claims in the guide is what the code claims.
func TestClaimsTable(t *testing.T) {
	const (
		path  = "../../docs/choosing-a-store.md"
		begin = "<!-- claims: written by go test ./internal/house -update -->\n"
		end   = "<!-- end of claims -->\n"
	)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(text), begin)
	table, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place for the table", path)
	}
	want := claimsTable()
	switch {
	case table == want:
	case *update:
		if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the table of claims in %s is not what the code says: run go test ./internal/house -update", path)
	}
}

func claimsTable() string {
	stores := []string{"memory", "file", "redis", "etcd", "zookeeper", "memcached"}
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
