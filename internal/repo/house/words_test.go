package house

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// gone are private words that were replaced by those of the field, in pages and in code. The first
	// are looked for in identifiers too.
	gone = regexp.MustCompile(`(?i)(convoy|passenger|errand|exorcis|bequeath|arrhythmi|foretell|runway|leasebook|pilot|` +
		`weather|storm|crowd|in line\b|\b(riders?|heirs?|keepers?|omens?|pulses?|bells?|pots?|lease book)\b)`)
	// goneFromPages are words that code may still use.
	goneFromPages = regexp.MustCompile(`(?i)\b(ghosts?|lanes?|gates?|flights?|place in line|had the lock)\b`)
)

// A reader knows the words of the field, and not those that one project made up.
func TestWordsOfTheField(t *testing.T) {
	root, files := filepath.Join("..", "..", ".."), 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || name == "dist"):
			return filepath.SkipDir
		case d.IsDir(), name == "CHANGELOG.md", name == "internal/repo/house/words_test.go":
			return nil
		}
		page := strings.HasSuffix(name, ".md") && !generated(name)
		if !page && !slices.Contains([]string{".go", ".lua"}, filepath.Ext(name)) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		for _, word := range privateWords(string(text), page) {
			t.Errorf("%s: %q", name, word)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 300 {
		t.Errorf("%d files: is that all?", files)
	}
}

// privateWords are those in a text. What programs print, in blocks on pages, is theirs.
func privateWords(text string, page bool) []string {
	if !page {
		return gone.FindAllString(text, -1)
	}
	text = fenced.ReplaceAllString(text, "")
	return append(gone.FindAllString(text, -1), goneFromPages.FindAllString(text, -1)...)
}

func TestPrivateWords(t *testing.T) {
	for text, want := range map[string]int{
		"the convoy": 1, "newConvoy()": 1, "their ZooKeeper": 0, "a ghost lane": 0, "Bells ring": 1,
	} {
		if got := privateWords(text, false); len(got) != want {
			t.Errorf("%q: %q, want %d", text, got, want)
		}
	}
	if got := privateWords("a ghost lane\n```\nghost\n```\n", true); len(got) != 2 {
		t.Errorf("on a page: %q", got)
	}
}
