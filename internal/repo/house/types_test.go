package house

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// layers are the types of a package from the top down: a type depends on those in lower rows only.
type layers []string

var engineTypes = map[string]layers{
	"internal/hold": {
		"Place",
		"Attempt Config", // what callers have
		"Tenure",
		"Manager", // what joins them
		"slot",
		"waiter overdue scheduler", // the parts of a lock
		"hold",
		"tenure",
		"janitor events acquisition queue changes queueing", // what knows none of these
		"partTasks Trace",
		"alarms task Spec Store Stats Identity Way Loss Release Watcher granted ticket unlocker",
		"timed",
		"alarm",
	},
	"internal/permit": {
		"Pool",
		"all waitQueues", // what callers ask for
		"waitQueue",
		"advance", // permits that were taken in advance
		"table",
		"prefetched",
		"prefetcher",
		"source", // the store
		"coalescer",
		"callQueue",
		"request",
		"batch fetch refunds", // what knows none of these
		"denials Config",
		"Block leftover sizer Policy waiter spender",
		"Origin PrefetchEnded Result Rule Stats Store block denial limitKey summed",
	},
}

// In an engine types depend on each other in one direction.
func TestTypesOfEngines(t *testing.T) {
	for dir, want := range engineTypes {
		deps, err := typesOf(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, why := range want.differs(deps) {
			t.Errorf("%s: %s", dir, why)
		}
	}
}

// The check sees dependencies in fields, methods, the functions that these call, and type arguments. It sees no
// other ones: an interface separates those that use it from those that have its methods.
func TestTypesThatDependOnEachOther(t *testing.T) {
	const source = `package p
		type top struct{ m middle }
		func (t *top) use() { t.m.next().done() }
		type middle struct{ l *list[leaf]; d doer }
		func (m *middle) next() *low { return start(m) }
		func start(m *middle) *low { return nil }
		type low struct{ leaf }
		func (l *low) do() { found.n++ }
		func (l *low) done() {}
		type doer interface{ do() }
		type list[T any] struct{ of T }
		type leaf struct{ n int }
		var found = new(leaf)`
	rows := layers{"top", "middle", "low doer list", "leaf"}
	for _, tc := range []struct {
		name, more string
		rows       layers
		want       []string
	}{
		{name: "in order", rows: rows},
		{"a field", "type f struct{ t *top }", append(slices.Clone(rows), "f"), []string{"f depends on top"}},
		{"a method's body", "func (l *leaf) up(v any) { _ = v.(*low) }", rows, []string{"leaf depends on low"}},
		{"a call", "func (l *low) up() { start(nil) }", rows, []string{"low depends on middle"}},
		{"a function's body", "func (l *leaf) up() { a() }; func a() { b() }; func b() { _ = top{} }", rows, []string{"leaf depends on top"}},
		{"a value that is not named", "func (d *low) up() { x := give; _ = x }; var give = func() any { var m middle; return m.d }", rows, []string{"low depends on doer", "low depends on middle"}},
		{"a type argument", "func (l *leaf) up() { _ = list[*top]{} }", rows, []string{"leaf depends on list", "leaf depends on top"}},
		{"not in the list", "type n int", rows, []string{"n is not in the list"}},
		{"no type", "", append(slices.Clone(rows), "gone"), []string{"gone is in the list"}},
	} {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, "p.go", source+"\n"+tc.more, 0)
		if err != nil {
			t.Fatal(err)
		}
		deps, err := depsOf(fset, []*ast.File{f}, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := tc.rows.differs(deps)
		if !slices.EqualFunc(got, tc.want, strings.HasPrefix) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// typeDeps says for each type of a package on which others of it the type depends, and where it first does so. It
// depends on a type that its declaration mentions, or an expression in its methods has. Functions and variables of
// the package count as if they were written where they are used. An interface depends on what its methods mention,
// and not on who implements it.
type typeDeps map[string]map[string]token.Position

// differs says which types of deps depend on one that is not below them, and which are in one of the two only.
func (l layers) differs(deps typeDeps) (wrong []string) {
	row := make(map[string]int)
	for i, names := range l {
		for _, name := range strings.Fields(names) {
			if deps[name] == nil {
				wrong = append(wrong, name+" is in the list, and no type")
			}
			row[name] = i + 1
		}
	}
	for _, from := range slices.Sorted(maps.Keys(deps)) {
		if row[from] == 0 {
			wrong = append(wrong, from+" is not in the list")
			continue
		}
		for _, to := range slices.Sorted(maps.Keys(deps[from])) {
			if row[to] > 0 && row[from] >= row[to] {
				wrong = append(wrong, fmt.Sprintf("%s depends on %s, which is not below it: %s", from, to, deps[from][to]))
			}
		}
	}
	return wrong
}

// typesOf reads a package of the module.
func typesOf(dir string) (typeDeps, error) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export,Dir,GoFiles", "./"+dir)
	cmd.Dir = "../../.."
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	export := make(map[string]string)
	var p struct {
		ImportPath, Export, Dir string
		GoFiles                 []string
	}
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); { // the package itself comes last
		if err := dec.Decode(&p); err != nil {
			return nil, err
		}
		export[p.ImportPath] = p.Export
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, 0)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	open := func(path string) (io.ReadCloser, error) { return os.Open(export[path]) }
	return depsOf(fset, files, importer.ForCompiler(fset, "gc", open))
}

// depsOf computes the dependencies of the types that files declare, which are a package.
func depsOf(fset *token.FileSet, files []*ast.File, imports types.Importer) (typeDeps, error) {
	info := &types.Info{
		Types: make(map[ast.Expr]types.TypeAndValue), Uses: make(map[*ast.Ident]types.Object), Defs: make(map[*ast.Ident]types.Object),
	}
	pkg, err := (&types.Config{Importer: imports}).Check("p", fset, files, info)
	if err != nil {
		return nil, err
	}
	g := mentions{pkg: pkg, info: info, of: make(map[types.Object]map[types.Object]token.Pos)}
	for _, f := range files {
		for _, d := range f.Decls {
			g.declaration(d)
		}
	}
	deps := make(typeDeps)
	for obj := range g.of {
		if _, ok := obj.(*types.TypeName); ok {
			deps[obj.Name()] = make(map[string]token.Position)
			g.follow(obj, map[types.Object]bool{obj: true}, func(to types.Object, at token.Pos) {
				pos := fset.Position(at)
				pos.Filename = filepath.Base(pos.Filename)
				deps[obj.Name()][to.Name()] = pos
			})
		}
	}
	return deps, nil
}

// mentions says for each object of a package which others of it it mentions, and where first. What a method mentions,
// its type does.
type mentions struct {
	pkg  *types.Package
	info *types.Info
	of   map[types.Object]map[types.Object]token.Pos
}

func (g *mentions) declaration(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		from := g.info.Defs[d.Name]
		if recv := from.(*types.Func).Signature().Recv(); recv != nil {
			from = named(recv.Type())
		}
		g.from(from, d)
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				g.from(g.info.Defs[s.Name], s)
			case *ast.ValueSpec:
				for _, name := range s.Names {
					if name.Name != "_" {
						g.from(g.info.Defs[name], s)
					}
				}
			}
		}
	}
}

// named is the declaration of a type, or of that to which it points.
func named(t types.Type) types.Object {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	return types.Unalias(t).(*types.Named).Obj()
}

// from notes what n, a part of from, mentions.
func (g *mentions) from(from types.Object, n ast.Node) {
	if g.of[from] == nil {
		g.of[from] = make(map[types.Object]token.Pos)
	}
	ast.Inspect(n, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			if obj := g.info.Uses[id]; obj != nil && obj.Parent() == g.pkg.Scope() {
				g.note(from, obj, id.Pos())
			}
		}
		if e, ok := n.(ast.Expr); ok {
			g.typ(from, g.info.Types[e].Type, e.Pos())
		}
		return true
	})
}

func (g *mentions) note(from, to types.Object, at token.Pos) {
	if old, ok := g.of[from][to]; from != to && (!ok || at < old) {
		g.of[from][to] = at
	}
}

// typ notes the types of the package of which t is made.
func (g *mentions) typ(from types.Object, t types.Type, at token.Pos) {
	switch t := types.Unalias(t).(type) {
	case *types.Named:
		if t.Obj().Pkg() == g.pkg && t.Obj().Parent() == g.pkg.Scope() {
			g.note(from, t.Obj(), at)
		}
		for arg := range t.TypeArgs().Types() {
			g.typ(from, arg, at)
		}
	case *types.Pointer:
		g.typ(from, t.Elem(), at)
	case *types.Slice:
		g.typ(from, t.Elem(), at)
	case *types.Array:
		g.typ(from, t.Elem(), at)
	case *types.Chan:
		g.typ(from, t.Elem(), at)
	case *types.Map:
		g.typ(from, t.Key(), at)
		g.typ(from, t.Elem(), at)
	case *types.Tuple:
		for v := range t.Variables() {
			g.typ(from, v.Type(), at)
		}
	case *types.Signature:
		g.typ(from, t.Params(), at)
		g.typ(from, t.Results(), at)
	}
}

// follow gives the types that obj mentions, by itself or through functions and variables.
func (g *mentions) follow(obj types.Object, seen map[types.Object]bool, found func(types.Object, token.Pos)) {
	for to, at := range g.of[obj] {
		if seen[to] {
			continue
		}
		seen[to] = true
		if _, ok := to.(*types.TypeName); ok {
			found(to, at)
		} else {
			g.follow(to, seen, found)
		}
	}
}
