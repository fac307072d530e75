package house

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"
)

// exemplary are the packages whose exported types each have an Example.
var exemplary = []string{
	".", "driver", "driver/cas", "driver/limits", "driver/optimistic", "driver/storeurl", "rules", "config", "httpcoord", "grpccoord", "otelcoord", "coordtest", "conformance",
}

// Every exported type has an Example: of itself, of a method, or of a function that gives it.
func TestEveryTypeHasAnExample(t *testing.T) {
	for _, dir := range exemplary {
		types := packageDoc(t, dir).Types
		if len(types) == 0 {
			t.Errorf("%s exports no type", dir)
		}
		for _, typ := range types {
			if !shown(typ) {
				t.Errorf("%s: %s has no Example", dir, typ.Name)
			}
		}
	}
}

// shown reports whether go doc shows an Example beside a type.
func shown(typ *doc.Type) bool {
	n := len(typ.Examples)
	for _, f := range append(typ.Funcs, typ.Methods...) {
		n += len(f.Examples)
	}
	return n > 0
}

// packageDoc is the documentation of a package with its Examples.
func packageDoc(t *testing.T, dir string) *doc.Package {
	t.Helper()
	set := token.NewFileSet()
	paths, err := filepath.Glob(filepath.Join("../../..", filepath.FromSlash(dir), "*.go"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: %d files, %v", dir, len(paths), err)
	}
	var files []*ast.File
	for _, path := range paths {
		f, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	p, err := doc.NewFromFiles(set, files, module+"/"+dir)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The check knows an Example when it sees one.
func TestShown(t *testing.T) {
	guard, call := false, true
	for _, typ := range packageDoc(t, ".").Types {
		switch typ.Name {
		case "Guard":
			guard = shown(typ)
		case "Call":
			typ.Examples, typ.Funcs, typ.Methods = nil, nil, nil
			call = shown(typ)
		}
	}
	if !guard || call {
		t.Errorf("of Guard, which has one, %v; of a type without, %v", guard, call)
	}
}
