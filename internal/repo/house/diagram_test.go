package house

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/coordgo/coord/internal/golden"
)

// The diagram for contributors is what imports what.
func TestDiagram(t *testing.T) {
	golden.Section(t, "../../../CONTRIBUTING.md",
		"<!-- diagram: written by go test ./internal/repo/house -update -->\n", "<!-- end of diagram -->\n",
		diagram(groupImports(ours(t))))
}

// groups are the boxes of the diagram, by the directories whose packages they have. Helpers of a few lines and packages
// for tests have none.
var groups = map[string][]string{
	"the command":      {"cmd/coord"},
	"middleware":       {"httpcoord", "grpccoord", "internal/middleware"},
	"rules":            {"rules"},
	"config":           {"config"},
	"the root package": {"."},
	"internal/hold":    {"internal/hold"},
	"internal/permit":  {"internal/permit"},
	"backends":         {"backends"},
	"driver":           {"driver"},
	"conformance":      {"conformance"},
}

// groupOf is the box of a package, "" if it has none.
func groupOf(path string) string {
	if under(path, "internal/middleware/middlewaretest") {
		return ""
	}
	for name, dirs := range groups {
		for _, dir := range dirs {
			if path == module && dir == "." || under(path, dir) {
				return name
			}
		}
	}
	return ""
}

// groupImports gives for each box those whose packages its own import.
func groupImports(pkgs []pkg) map[string][]string {
	imports := map[string][]string{}
	for _, p := range pkgs {
		for _, dep := range p.Imports {
			from, to := groupOf(p.ImportPath), groupOf(dep)
			if from != "" && to != "" && from != to && !slices.Contains(imports[from], to) {
				imports[from] = append(imports[from], to)
			}
		}
	}
	return imports
}

// diagram draws an arrow for each import that does not follow from others.
func diagram(imports map[string][]string) string {
	var b strings.Builder
	b.WriteString("\n```mermaid\nflowchart TD\n")
	for _, from := range slices.Sorted(maps.Keys(imports)) {
		for _, to := range slices.Sorted(slices.Values(imports[from])) {
			if !slices.ContainsFunc(imports[from], func(by string) bool { return by != to && reaches(imports, by, to) }) {
				fmt.Fprintf(&b, "    %s --> %s\n", box(from), box(to))
			}
		}
	}
	b.WriteString("```\n\n")
	return b.String()
}

// box is a name that mermaid can read, with the text to show.
func box(group string) string {
	return strings.NewReplacer("/", "_", " ", "_").Replace(group) + "[" + group + "]"
}

// reaches reports whether from imports to, also by way of others. Boxes never import each other in a circle.
func reaches(imports map[string][]string, from, to string) bool {
	return slices.ContainsFunc(imports[from], func(by string) bool { return by == to || reaches(imports, by, to) })
}

func TestDiagramLeavesOutWhatFollows(t *testing.T) {
	got := diagram(map[string][]string{"a": {"b", "c"}, "b": {"c"}})
	if strings.Count(got, "-->") != 2 || strings.Contains(got, "a[a] --> c[c]") {
		t.Errorf("diagram of a chain: %s", got)
	}
}
