package house

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The names in the map for contributors are in the files to which it links.
func TestMapForContributors(t *testing.T) {
	page, err := os.ReadFile("../../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	entries := regexp.MustCompile("\\[`(\\w+)`\\]\\(([\\w/]+\\.go)\\)").FindAllStringSubmatch(string(page), -1)
	if len(entries) < 5 {
		t.Fatalf("%d entries: is the pattern still right?", len(entries))
	}
	for _, e := range entries {
		name, file := e[1], e[2]
		source, err := os.ReadFile("../../../" + file)
		if err != nil {
			t.Error(err)
			continue
		}
		declared := regexp.MustCompile(`(?m)^(func (\([^)]*\) )?|type )` + name + `\b`)
		if !declared.Match(source) {
			t.Errorf("CONTRIBUTING.md: %s has no %s", file, strings.TrimSpace(name))
		}
	}
}
