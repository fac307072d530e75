package house

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// Every relative link in the documents leads to a file, and its anchor to a heading of that file.
func TestDocumentLinks(t *testing.T) {
	root := "../../.."
	pages, links := 0, 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{".git", "testdata", "bin", "dist"}, d.Name()) {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		pages++
		for _, target := range linksIn(string(text)) {
			links++
			if why := broken(path, target); why != "" {
				t.Errorf("%s links to %s: %s", path, target, why)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if pages < 20 || links < 100 {
		t.Errorf("%d links on %d pages: is the pattern still right?", links, pages)
	}
}

// The path through the documentation leads to every page of it.
func TestEveryPageIsOnThePath(t *testing.T) {
	path, err := os.ReadFile("../../../docs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	var pages []string
	for _, pattern := range []string{"../../../docs/*.md", "../../../docs/operations/*.md", "../../../docs/contributing/*.md", "../../../docs/generated/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) < 3 {
			t.Fatalf("%s: %d pages, %v", pattern, len(found), err)
		}
		pages = append(pages, found...)
	}
	var targets []string
	for _, target := range linksIn(string(path)) {
		file, _, _ := strings.Cut(target, "#")
		targets = append(targets, file)
	}
	for _, page := range pages {
		name := strings.TrimPrefix(filepath.ToSlash(page), "../../../docs/")
		if name != "README.md" && !slices.Contains(targets, name) {
			t.Errorf("docs/README.md does not lead to %s", name)
		}
	}
}

// broken says what is wrong with a link on the page at path; "" if nothing is.
func broken(path, target string) string {
	file, anchor, _ := strings.Cut(target, "#")
	if file != "" {
		path = filepath.Join(filepath.Dir(path), filepath.FromSlash(file))
	}
	if _, err := os.Stat(path); err != nil {
		return "nothing is there"
	}
	if anchor == "" || filepath.Ext(path) != ".md" {
		return ""
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	if !slices.Contains(anchors(string(text)), anchor) {
		return "no heading has this anchor"
	}
	return ""
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	code    = regexp.MustCompile("(?ms)^ *```.*?^ *```$|`[^`\n]*`")
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *#*$`)
	fenced  = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
)

// linksIn lists the targets on a page that are relative.
func linksIn(page string) (targets []string) {
	for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(page, ""), -1) {
		if !strings.Contains(m[1], "://") && !strings.HasPrefix(m[1], "mailto:") {
			targets = append(targets, m[1])
		}
	}
	return targets
}

// anchors are those that GitHub gives the headings of a page: in lower case, without
// punctuation, a hyphen for each space, and a number for each repetition.
func anchors(page string) (all []string) {
	seen := make(map[string]int)
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		text := link.ReplaceAllString(m[1], "]")
		slug := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, text)
		if n := seen[slug]; n > 0 {
			all = append(all, slug+"-"+string(rune('0'+n)))
		} else {
			all = append(all, slug)
		}
		seen[slug]++
	}
	return all
}

// The check finds what it is there to find.
func TestBrokenLinks(t *testing.T) {
	page := "# One: *two*!\n[a](b.md) `[c](d)` [e](https://f) [g](#h)\n```\n# no heading\n[i](j)\n```\n## One two\n## One two\n"
	if got := linksIn(page); !slices.Equal(got, []string{"b.md", "#h"}) {
		t.Errorf("links %q", got)
	}
	if got := anchors(page); !slices.Equal(got, []string{"one-two", "one-two-1", "one-two-2"}) {
		t.Errorf("anchors %q", got)
	}
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	for target, ok := range map[string]bool{"page.md": true, "#one-two": true, "page.md#one-two-1": true, "other.md": false, "#two": false} {
		if why := broken(path, target); (why == "") != ok {
			t.Errorf("%s: %q", target, why)
		}
	}
}
