package envoy

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/coordgo/coord/config"
)

// maxNodes and maxDepth bound what a file comes to once its aliases are followed, for a small file can be a huge one,
// or without an end.
const (
	maxNodes = 500_000
	maxDepth = 200
)

// reader reads the YAML of one file: as strictly as envoyproxy/ratelimit does, but with lines in its errors.
type reader struct {
	file  string
	left  int // nodes that may still be read
	depth int // mappings and lists that are being read, within each other
}

// bad is a mistake at a node.
func (r *reader) bad(n *yaml.Node, format string, args ...any) error {
	return &config.Error{File: r.file, Line: n.Line, Problem: fmt.Sprintf(format, args...)}
}

// root parses the first document of a file.
func (r *reader) root(text []byte) (*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, &config.Error{File: r.file, Problem: strings.TrimPrefix(err.Error(), "yaml: ")}
	}
	if len(doc.Content) == 0 {
		return nil, &config.Error{File: r.file, Problem: "an empty file: want a domain and its descriptors"}
	}
	return doc.Content[0], nil
}

// follow is the node that n is, or stands for.
func (r *reader) follow(n *yaml.Node) (*yaml.Node, error) {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if r.left--; r.left < 0 {
		return nil, r.bad(n, "more than %d values, aliases included", maxNodes)
	}
	return n, nil
}

// enter counts what is read within something else; leave it after its end.
func (r *reader) enter(n *yaml.Node) error {
	if r.depth++; r.depth > maxDepth {
		return r.bad(n, "more than %d levels", maxDepth)
	}
	return nil
}

func (r *reader) leave() { r.depth-- }

// isNull reports whether n has no value: as there, that is as if its key were not there.
func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// fields are what the keys of a mapping set.
type fields map[string]func(*yaml.Node) error

// mapping hands each value of n to the field of its name. A key that envoyproxy/ratelimit knows in another place is
// ignored, as it is there.
func (r *reader) mapping(n *yaml.Node, what string, f fields) error {
	defer r.leave()
	if err := r.enter(n); err != nil {
		return err
	}
	n, err := r.follow(n)
	if err != nil {
		return err
	}
	if n.Kind != yaml.MappingNode {
		return r.bad(n, "%s: want a mapping", what)
	}
	seen := make(map[string]bool)
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.ShortTag() == "!!merge" && len(seen) > 0:
			return r.bad(key, "<< below other keys: want it above them, for they count")
		case key.ShortTag() == "!!merge":
			merged = append(merged, value)
			continue
		case key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str":
			return r.bad(key, "a key that is no string: want one of %s", theirKeys)
		case seen[key.Value]:
			return r.bad(key, "key %q again: want it once", key.Value)
		}
		seen[key.Value] = true
		if err := r.field(key, value, f); err != nil {
			return err
		}
	}
	for _, m := range merged {
		if err := r.merge(m, what, seen, f); err != nil {
			return err
		}
	}
	return nil
}

// merge reads what "<<" names: a mapping or several, the first of which counts. The mapping's own keys come first.
func (r *reader) merge(n *yaml.Node, what string, seen map[string]bool, f fields) error {
	defer r.leave()
	if err := r.enter(n); err != nil {
		return err
	}
	n, err := r.follow(n)
	if err != nil {
		return err
	}
	if n.Kind == yaml.SequenceNode {
		for _, m := range n.Content {
			if err := r.merge(m, what, seen, f); err != nil {
				return err
			}
		}
		return nil
	}
	unseen := fields{}
	for name, set := range f {
		unseen[name] = func(v *yaml.Node) error {
			if seen[name] {
				return nil
			}
			seen[name] = true
			return set(v)
		}
	}
	return r.mapping(n, what, unseen)
}

// theirKeys are the keys of envoyproxy/ratelimit, wherever they stand.
const theirKeys = "domain, key, value, descriptors, rate_limit, unit, requests_per_unit, unlimited, shadow_mode, quota_mode, " +
	"name, replaces, detailed_metric, value_to_metric, share_threshold, metadata"

func (r *reader) field(key, value *yaml.Node, f fields) error {
	value, err := r.follow(value)
	if err != nil {
		return err
	}
	set, ok := f[key.Value]
	switch {
	case ok && isNull(value):
		return nil
	case ok:
		return set(value)
	case key.Value == "metadata":
		return nil
	case strings.Contains(", "+theirKeys+", ", ", "+key.Value+", "):
		return r.plain(value)
	}
	return r.bad(key, "unknown key %q here: want one of %s; or of coord's own, counting of the file, and "+
		"failure_policy, algorithm, burst and lease of a rate_limit", key.Value, theirKeys)
}

// plain checks a value that nothing is made of.
func (r *reader) plain(n *yaml.Node) error {
	n, err := r.follow(n)
	switch {
	case err != nil:
		return err
	case n.Kind == yaml.MappingNode:
		return r.mapping(n, "a mapping", nil)
	case n.Kind == yaml.SequenceNode:
		return r.each(n, "a list", r.plain)
	}
	_, err = r.scalar(n, "a value")
	return err
}

// each reads the mappings of a list.
func (r *reader) each(n *yaml.Node, what string, do func(*yaml.Node) error) error {
	if n.Kind != yaml.SequenceNode {
		return r.bad(n, "%s: want a list", what)
	}
	for _, item := range n.Content {
		item, err := r.follow(item)
		if err != nil {
			return err
		}
		if item.Kind != yaml.MappingNode {
			return r.bad(item, "%s: want a list of mappings", what)
		}
		if err := do(item); err != nil {
			return err
		}
	}
	return nil
}

// scalar is the text of a value. As there, a number with a fraction is none.
func (r *reader) scalar(n *yaml.Node, what string) (string, error) {
	if n.Kind != yaml.ScalarNode {
		return "", r.bad(n, "%s: want a string", what)
	}
	whole := int64(0)
	if tag := n.ShortTag(); tag == "!!float" || tag == "!!int" && n.Decode(&whole) != nil {
		return "", r.bad(n, "%s: %s is no whole number below 2^63: put it into quotes", what, n.Value)
	}
	return n.Value, nil
}

func (r *reader) text(to *string, what string) func(*yaml.Node) error {
	return func(n *yaml.Node) (err error) {
		*to, err = r.scalar(n, what)
		return err
	}
}

func (r *reader) flag(to *bool, what string) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		if n.Kind != yaml.ScalarNode || n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 || n.Decode(to) != nil {
			return r.bad(n, "%s: want true or false", what)
		}
		return nil
	}
}

// count reads a whole number from least to most.
func (r *reader) count(to *uint32, what string, least, most uint32) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		var v uint32
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || n.Decode(&v) != nil || v < least || v > most {
			return r.bad(n, "%s: want a whole number from %d to %s", what, least, strconv.FormatUint(uint64(most), 10))
		}
		*to = v
		return nil
	}
}
