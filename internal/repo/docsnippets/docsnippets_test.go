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

// pages are all that are written by hand. Each block of Go on them comes after a line that
// says where it is from: a whole file, some declarations of it, its imports, or, in
// braces, the body of a function. Files are below this directory, or below examples/ or integrations/:
//
//	<!-- code: adapter/open.go -->
//	<!-- code: adapter/own.go hold own.TryLock -->
//	<!-- code: guide/readme.go import {invoices} -->
var pages = []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*.md", "examples/*/*.md"}

var (
	block  = regexp.MustCompile("(?ms)^(<!-- code: [^\n]* -->\n\n)?```go\n(.*?)^```$")
	marker = regexp.MustCompile(`^<!-- code: (\S+)(.*) -->`)
	named  = regexp.MustCompile(`(?m)^<!-- code: .*$`)
)

// The code on the pages is code that is compiled and tested.
func TestPages(t *testing.T) {
	root, blocks := filepath.Join("..", "..", ".."), 0
	for _, pattern := range pages {
		found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil || len(found) == 0 && !strings.HasPrefix(pattern, "examples/") {
			t.Fatalf("%s: %d pages, %v", pattern, len(found), err)
		}
		for _, path := range found {
			name, _ := filepath.Rel(root, path)
			t.Run(name, func(t *testing.T) {
				text, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				want, err := rewrite(text)
				if err != nil {
					t.Fatal(err)
				}
				blocks += len(block.FindAll(text, -1))
				golden.File(t, path, string(want))
			})
		}
	}
	if blocks < 20 {
		t.Errorf("%d blocks of Go on all pages: does the pattern still find them?", blocks)
	}
}

// rewrite gives the page with the code of its sources.
func rewrite(page []byte) ([]byte, error) {
	if n, all := len(block.FindAll(page, -1)), bytes.Count(page, []byte("```go")); n != all {
		return nil, fmt.Errorf("%d blocks of Go, of which %d are whole and begin a line: want all", all, n)
	}
	var errs []error
	for _, line := range named.FindAll(block.ReplaceAll(page, nil), -1) {
		errs = append(errs, fmt.Errorf("%s: no block of Go follows it", line))
	}
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
	if strings.HasPrefix(file, "examples/") || strings.HasPrefix(file, "integrations/") {
		file = "../../../" + file
	}
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
		if fn, ok := d.(*ast.FuncDecl); ok {
			inner := text[set.Position(fn.Body.Lbrace).Offset+1 : set.Position(fn.Body.Rbrace).Offset]
			found["{"+fn.Name.Name+"}"] = dedent(string(inner))
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

// dedent gives the body of a function as it would stand by itself.
func dedent(body string) string {
	if !strings.Contains(body, "\n") {
		return strings.TrimSpace(body) + "\n"
	}
	var b strings.Builder
	for line := range strings.Lines(strings.TrimPrefix(body, "\n")) {
		b.WriteString(strings.TrimPrefix(line, "\t"))
	}
	return b.String()
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
		if d.Tok == token.IMPORT {
			return []string{"import"}
		}
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
		"a line alone":     {page: good[:len(good)-len("```go\n")] + "text\n", err: "lockKey -->: no block of Go follows it"},
		"two lines":        {page: "<!-- code: nowhere.go -->\n\n" + good + code + "```\n", err: "nowhere.go -->: no block of Go follows it"},
		"without a source": {page: "```go\nx := 1\n```\n", err: "no line that says"},
		"unknown name":     {page: "<!-- code: adapter/own.go nobody -->\n\n```go\n```\n", err: "declares no nobody"},
		"unknown file":     {page: "<!-- code: nowhere.go -->\n\n```go\n```\n", err: "nowhere.go"},
		"indented":         {page: good + code + "```\n\n  ```go\n  x\n  ```\n", err: "2 blocks of Go, of which 1"},
		"no code":          {page: "text\n", want: "text\n"},
		"a body": {
			page: "<!-- code: adapter/own.go {lockKey} -->\n\n```go\n```\n",
			want: "<!-- code: adapter/own.go {lockKey} -->\n\n```go\nreturn \"own/\" + key\n```\n",
		},
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
