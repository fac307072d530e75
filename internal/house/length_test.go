package house

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	maxWords = 1500
	maxWidth = 120
)

// short are the pages that have been rewritten. They stay short; the list only grows.
var short = []string{
	"README.md", "docs/README.md", "docs/quick-start.md",
	"docs/locks.md", "docs/several-keys.md", "docs/leaders.md", "docs/once-per-interval.md", "docs/lock-patterns.md", "docs/fencing.md", "docs/errors.md",
	"docs/do-you-need-a-lock.md", "docs/reentrancy.md", "docs/faq.md", "docs/choosing-a-store.md", "docs/urls.md",
	"docs/migration.md", "docs/migration-etcd-zookeeper.md",
	"docs/observability.md",
	"docs/examples.md", "docs/histories.md", "docs/conformance.md",
}

// Nobody reads to the end of a long page, and nobody sees the end of a long line in a diff.
func TestPagesAreShort(t *testing.T) {
	for _, page := range short {
		text, err := os.ReadFile(filepath.Join("../..", filepath.FromSlash(page)))
		if err != nil {
			t.Fatal(err)
		}
		for _, why := range tooLong(string(text)) {
			t.Errorf("%s: %s", page, why)
		}
	}
}

// tooLong says what is too long on a page. Rows of tables and blocks of code cannot be
// broken, so only their words count.
func tooLong(page string) (faults []string) {
	if n := len(strings.Fields(page)); n > maxWords {
		faults = append(faults, fmt.Sprintf("%d words: at most %d", n, maxWords))
	}
	prose := fenced.ReplaceAllStringFunc(page, func(block string) string {
		return strings.Repeat("\n", strings.Count(block, "\n"))
	})
	n := 0
	for line := range strings.Lines(prose) {
		n++
		width := utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))
		if width > maxWidth && !strings.HasPrefix(line, "|") {
			faults = append(faults, fmt.Sprintf("line %d has %d characters: at most %d", n, width, maxWidth))
		}
	}
	return faults
}

// gone are the private words that the project has given up for those of the field.
var gone = regexp.MustCompile(`(?i)\b(convoys?|passengers?|riders?|errands?|exorcis\w+|ghosts?|omens?|` +
	`foretell|bequeath\w*|heirs?|pilots?|runways?|lanes?|keepers?|arrhythmia|place in line|had the lock)\b`)

// A reader knows the words of the field, and not those that one project made up.
func TestPagesUseTheWordsOfTheField(t *testing.T) {
	for _, page := range short {
		text, err := os.ReadFile(filepath.Join("../..", filepath.FromSlash(page)))
		if err != nil {
			t.Fatal(err)
		}
		if words := gone.FindAllString(fenced.ReplaceAllString(string(text), ""), -1); words != nil {
			t.Errorf("%s: %q", page, words)
		}
	}
	if !gone.MatchString("the convoy") || gone.MatchString("their ZooKeeper") {
		t.Error("the check does not find what it is there to find")
	}
}

// The check finds what it is there to find.
func TestTooLong(t *testing.T) {
	long := strings.Repeat("x", maxWidth+1) + "\n"
	for name, tc := range map[string]struct {
		page string
		want int
	}{
		"short":           {"# One\n\ntwo\n", 0},
		"words":           {strings.Repeat("word\n", maxWords+1), 1},
		"as many as may":  {strings.Repeat("word\n", maxWords), 0},
		"a line":          {"one\n" + long, 1},
		"a row":           {"| " + long, 0},
		"code":            {"```go\n" + long + "```\n", 0},
		"after code":      {"```go\ncode\n```\n" + long, 1},
		"words and lines": {strings.Repeat("word ", maxWords+1) + "\n" + long, 3},
	} {
		if got := tooLong(tc.page); len(got) != tc.want {
			t.Errorf("%s: %q, want %d faults", name, got, tc.want)
		}
	}
}
