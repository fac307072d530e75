package driver

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// unknownScheme is the error of a URL whose scheme is not registered. It names the schemes that are, and what to import
// for a scheme of this module, or for one that is spelt nearly like it.
func unknownScheme(u *url.URL) error {
	if u.Opaque != "" {
		return fmt.Errorf("%w: store URL: want a form like redis://host:6379/0", ErrInvalid)
	}
	registered, packages := Schemes(), schemePackages()
	text := fmt.Sprintf("%q is not registered: ", u.Scheme)
	if pkg, ok := packages[u.Scheme]; ok {
		text += "import _ " + pkg
	} else if near := nearest(u.Scheme, slices.Concat(registered, slices.Sorted(maps.Keys(packages)))); near != "" {
		text += "did you mean " + near + "?"
		if pkg, ok := packages[near]; ok && !slices.Contains(registered, near) {
			text += " Then import _ " + pkg
		}
	} else {
		text += "import the package of its store"
	}
	return fmt.Errorf("%w: store URL: scheme %s (registered: %s)", ErrInvalid, text, cmp.Or(strings.Join(registered, ", "), "none"))
}

// schemePackages gives the package of each scheme of this module, quoted as an import has it.
func schemePackages() map[string]string {
	all := make(map[string]string)
	add := func(pkg string, schemes ...string) {
		for _, s := range schemes {
			all[s] = `"github.com/coordgo/coord/backends/` + pkg + `"`
		}
	}
	add("memory", "memory")
	add("file", "file")
	for _, name := range []string{"etcd", "zookeeper", "memcached"} {
		add(name, name, name+"s")
	}
	add("postgres", "postgres", "postgresql")
	for _, name := range []string{"redis", "rediss", "valkey", "valkeys"} {
		add("redis", name, name+"+sentinel", name+"+cluster")
	}
	return all
}

// nearest is the name that differs least from s, by two letters at most and by half of them; "" if none does.
func nearest(s string, names []string) string {
	best, least := "", min(3, len(s)/2+1)
	for _, name := range names {
		if d := distance(s, name); d < least {
			best, least = name, d
		}
	}
	return best
}

// distance is how many letters have to be put in, left out or replaced to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := diagonal
			if a[i] != b[j] {
				d = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], d
		}
	}
	return row[len(b)]
}
