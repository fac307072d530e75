package docsnippets

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/coordgo/coord/internal/golden"
)

// pages are those whose code is kept true: each block of Go on them comes after a line
// that says where it is from, a whole file or some declarations of it:
//
//	<!-- code: adapter/open.go -->
//	<!-- code: adapter/own.go hold own.TryLock -->
var pages = []string{"http.md", "writing-an-adapter.md"}

var (
	block  = regexp.MustCompile("(?ms)^(<!-- code: [^\n]* -->\n\n)?```go\n(.*?)^```$")
	marker = regexp.MustCompile(`^<!-- code: (\S+)(.*) -->`)
)

// The code on the pages is code that is compiled and tested.
func TestPages(t *testing.T) {
	for _, page := range pages {
		t.Run(page, func(t *testing.T) {
			path := filepath.Join("..", "..", "docs", page)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			want, err := rewrite(text)
			if err != nil {
				t.Fatal(err)
			}
			golden.File(t, path, string(want))
		})
	}
}

// rewrite gives the page with the code of its sources.
func rewrite(page []byte) ([]byte, error) {
	if n, all := len(block.FindAll(page, -1)), bytes.Count(page, []byte("```go")); n != all || n == 0 {
		return nil, fmt.Errorf("%d blocks of Go, of which %d are whole and begin a line: want all, and one at least", all, n)
	}
	var errs []error
	out := block.ReplaceAllFunc(page, func(b []byte) []byte {
		m := marker.FindSubmatch(b)
		if m == nil {
			errs = append(errs, fmt.Errorf("a block has no line that says where it is from:\n%s", b))
			return b
		}
		code, err := source(string(m[1]), strings.Fields(string(m[2])))
		if err != nil {
			errs = append(errs, err)
			return b
		}
		return []byte(string(m[0]) + "\n\n```go\n" + code + "```")
	})
	return out, errors.Join(errs...)
}

// source gives the declarations of that name, with their comments, in the order of
// names; without names, the whole file.
func source(file string, names []string) (string, error) {
	text, err := os.ReadFile(filepath.FromSlash(file))
	if err != nil || len(names) == 0 {
		return string(text), err
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, text, parser.ParseComments)
	if err != nil {
		return "", err
	}
	found := make(map[string]string)
	for _, d := range parsed.Decls {
		from := d.Pos()
		if doc := comment(d); doc != nil {
			from = doc.Pos()
		}
		code := text[set.Position(from).Offset:set.Position(d.End()).Offset]
		for _, name := range declared(d) {
			found[name] = string(code) + "\n"
		}
	}
	var parts []string
	for _, name := range names {
		code, ok := found[name]
		if !ok {
			return "", fmt.Errorf("%s declares no %s", file, name)
		}
		parts = append(parts, code)
	}
	return strings.Join(parts, "\n"), nil
}

func comment(d ast.Decl) *ast.CommentGroup {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return d.Doc
	case *ast.GenDecl:
		return d.Doc
	}
	return nil
}

// declared lists the names that d declares; those of methods read Type.Method.
func declared(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return []string{d.Name.Name}
		}
		typ := d.Recv.List[0].Type
		if star, ok := typ.(*ast.StarExpr); ok {
			typ = star.X
		}
		if id, ok := typ.(*ast.Ident); ok {
			return []string{id.Name + "." + d.Name.Name}
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
			case *ast.ValueSpec:
				for _, id := range s.Names {
					names = append(names, id.Name)
				}
			}
		}
	}
	return names
}

// The check finds what it is there to find.
func TestRewrite(t *testing.T) {
	const good = "<!-- code: adapter/own.go lockKey -->\n\n```go\n"
	code, err := source("adapter/own.go", []string{"lockKey"})
	if err != nil || !strings.Contains(code, "func lockKey(") {
		t.Fatalf("lockKey: %q, %v", code, err)
	}
	for name, tc := range map[string]struct{ page, want, err string }{
		"true":             {page: good + code + "```\n", want: good + code + "```\n"},
		"stale":            {page: good + "func old() {}\n```\n", want: good + code + "```\n"},
		"without a source": {page: "```go\nx := 1\n```\n", err: "no line that says"},
		"unknown name":     {page: "<!-- code: adapter/own.go nobody -->\n\n```go\n```\n", err: "declares no nobody"},
		"unknown file":     {page: "<!-- code: nowhere.go -->\n\n```go\n```\n", err: "nowhere.go"},
		"indented":         {page: good + code + "```\n\n  ```go\n  x\n  ```\n", err: "2 blocks of Go, of which 1"},
		"no code":          {page: "text\n", err: "0 blocks"},
	} {
		got, err := rewrite([]byte(tc.page))
		switch {
		case tc.err == "" && (err != nil || string(got) != tc.want):
			t.Errorf("%s: %v\n%s", name, err, got)
		case tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)):
			t.Errorf("%s: %v, want %q", name, err, tc.err)
		}
	}
}
