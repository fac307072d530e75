// Command apisnapshot writes the exported API of public packages into text files, one line for each name, so that a change
// of the API shows in a diff. With -check it writes nothing, and fails where a file differs.
//
//	apisnapshot -dir ../.. -out ../../api ./... ./backends/redis/...
package main

import (
	"flag"
	"fmt"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

const root = "github.com/coordgo/coord"

func main() {
	dir := flag.String("dir", ".", "the directory of the workspace")
	out := flag.String("out", "api", "the directory of the files")
	check := flag.Bool("check", false, "fail where a file differs, and write nothing")
	flag.Parse()
	os.Unsetenv("GOWORK") // which is off for this command alone
	files, err := snapshot(*dir, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "apisnapshot:", err)
		os.Exit(1)
	}
	if *check {
		err = compare(*out, files)
	} else {
		err = write(*out, files)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "apisnapshot:", err)
		os.Exit(1)
	}
	fmt.Printf("apisnapshot: %d packages\n", len(files))
}

// snapshot gives the text of each package by the name of its file.
func snapshot(dir string, patterns []string) (map[string]string, error) {
	list, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedModule | packages.NeedTypes | packages.NeedImports | packages.NeedDeps,
		Dir:  dir,
	}, patterns...)
	if err != nil {
		return nil, err
	}
	files := make(map[string]string)
	for _, p := range list {
		if len(p.Errors) > 0 {
			return nil, p.Errors[0]
		}
		path := p.PkgPath + "/"
		if p.Name == "main" || strings.Contains(path, "/internal/") || p.Module == nil {
			continue
		}
		name := strings.TrimPrefix(strings.TrimPrefix(p.PkgPath, root), "/")
		if name == "" {
			name = p.Name
		}
		files[strings.ReplaceAll(name, "/", "-")+".txt"] = text(p.Types)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no public package in %s", dir)
	}
	return files, nil
}

// text is the exported names of a package, sorted, a line each.
func text(p *types.Package) string {
	var lines []string
	relative := types.RelativeTo(p)
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, name := range p.Scope().Names() {
		o := p.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		named, isType := o.Type().(*types.Named)
		if _, declares := o.(*types.TypeName); !declares || !isType || named.Obj() != o {
			if c, ok := o.(*types.Const); ok {
				add("const %s %s = %s", name, types.TypeString(c.Type(), relative), c.Val().ExactString())
				continue
			}
			add("%s", types.ObjectString(o, relative))
			continue
		}
		members(named, relative, add)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

// members adds a type, its exported fields and methods.
func members(t *types.Named, relative types.Qualifier, add func(string, ...any)) {
	name := t.Obj().Name()
	switch u := t.Underlying().(type) {
	case *types.Struct:
		add("type %s struct", name)
		for f := range u.Fields() {
			if f.Exported() {
				add("type %s, field %s %s", name, f.Name(), types.TypeString(f.Type(), relative))
			}
		}
	case *types.Interface:
		add("type %s interface", name)
		for m := range u.Methods() {
			add("type %s, needs %s%s", name, m.Name(), strings.TrimPrefix(types.TypeString(m.Type(), relative), "func"))
		}
	default:
		add("type %s %s", name, types.TypeString(u, relative))
	}
	for m := range t.Methods() {
		if m.Exported() {
			add("%s", types.ObjectString(m, relative))
		}
	}
}

func write(dir string, files map[string]string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// compare fails with what differs.
func compare(dir string, files map[string]string) error {
	var differs []string
	there, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range there {
		if _, ok := files[e.Name()]; !ok {
			differs = append(differs, e.Name()+": no such package")
		}
	}
	for name, text := range files {
		old, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			differs = append(differs, err.Error())
			continue
		}
		differs = append(differs, diff(name, string(old), text)...)
	}
	if len(differs) == 0 {
		return nil
	}
	slices.Sort(differs)
	return fmt.Errorf("the exported API differs from that in git: if that is meant, run \"make generate\"\n%s", strings.Join(differs, "\n"))
}

// diff is the lines of which only one text has any.
func diff(name, old, text string) (lines []string) {
	was, is := strings.Split(old, "\n"), strings.Split(text, "\n")
	for _, l := range was {
		if !slices.Contains(is, l) {
			lines = append(lines, name+": - "+l)
		}
	}
	for _, l := range is {
		if !slices.Contains(was, l) {
			lines = append(lines, name+": + "+l)
		}
	}
	return lines
}
