package docsnippets

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/coordgo/coord/config"
)

var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// Every configuration on the pages is one that is accepted.
func TestConfigurations(t *testing.T) {
	blocks := 0
	for _, pattern := range []string{"*.md", "docs/*.md"} {
		found, err := filepath.Glob(filepath.Join("..", "..", "..", filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range yamlBlock.FindAllSubmatch(text, -1) {
				blocks++
				if _, err := config.Parse(filepath.Base(path), m[1]); err != nil {
					t.Errorf("%v\n%s", err, m[1])
				}
			}
		}
	}
	if blocks < 6 {
		t.Errorf("%d configurations on all pages: does the pattern still find them?", blocks)
	}
}
