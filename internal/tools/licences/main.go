// Command licences finds the licence of every module whose code is linked into the packages of some modules or workspaces, or
// into their tests, and fails where one is not on the list of those that coord accepts.
//
//	licences . ../..
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// accepted are the licences that let anybody use, change and distribute the code, whatever the licence of the whole.
var accepted = []string{
	"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MIT-0", "CC0-1.0", "Unlicense",
	"MPL-2.0", // its files stay under it; coord has none of them in its own
}

func main() {
	modules, err := linked(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
	refused := 0
	for _, m := range modules {
		ids, err := licencesIn(m.dir)
		bad := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(accepted, id) })
		if err == nil && len(ids) > 0 && len(bad) == 0 {
			continue
		}
		refused++
		fmt.Printf("licences: %s: found %v, error %v: want only %s\n", m.path, ids, err, strings.Join(accepted, ", "))
	}
	if refused > 0 || len(modules) == 0 {
		fmt.Fprintf(os.Stderr, "licences: %d of %d modules are not accepted\n", refused, len(modules))
		os.Exit(1)
	}
	fmt.Printf("licences: %d modules, all accepted\n", len(modules))
}

type module struct{ path, dir string }

// linked lists the modules that the packages and tests in dirs are built of, save for those in dirs. Where there is a
// go.work, all modules of the workspace are meant.
func linked(dirs []string) (all []module, err error) {
	const format = "{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Dir}}{{end}}{{end}}"
	seen := make(map[module]bool)
	for _, dir := range dirs {
		pattern, workspace := "./...", "off"
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			pattern, workspace = "work", ""
		}
		list := exec.Command("go", "list", "-deps", "-test", "-f", format, pattern)
		list.Dir, list.Stderr, list.Env = dir, os.Stderr, append(os.Environ(), "GOWORK="+workspace)
		out, err := list.Output()
		if err != nil {
			return nil, fmt.Errorf("go list in %s: %w", dir, err)
		}
		for line := range strings.Lines(string(out)) {
			path, dir, ok := strings.Cut(strings.TrimSpace(line), "\t")
			if m := (module{path, dir}); ok && !strings.HasPrefix(path, "github.com/coordgo/coord") && !seen[m] {
				seen[m] = true
				all = append(all, m)
			}
		}
	}
	slices.SortFunc(all, func(a, b module) int { return strings.Compare(a.path, b.path) })
	return all, nil
}

// isLicence reports whether a file is named for the licence of the code: LICENSE.docs and the like are of something else.
func isLicence(file string) bool {
	name := strings.ToUpper(file)
	name = strings.TrimSuffix(strings.TrimSuffix(name, ".TXT"), ".MD")
	return slices.Contains([]string{"LICENSE", "LICENCE", "COPYING", "LICENSE-MIT", "LICENSE-APACHE"}, name)
}

// licencesIn gives the licences of the code of a module.
func licencesIn(dir string) (ids []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.IsDir() || !isLicence(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		found := licensecheck.Scan(text)
		if len(found.Match) == 0 {
			return nil, errors.New(e.Name() + " is no licence that is known")
		}
		for _, m := range found.Match {
			if !m.IsURL && !slices.Contains(ids, m.ID) {
				ids = append(ids, m.ID)
			}
		}
	}
	return ids, nil
}
