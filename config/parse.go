package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/coordgo/coord/rules"
)

// Parse reads a configuration; name stands for the file in errors. It looks at
// nothing but text: the environment is Load's. A mistake is an [*Error]; several are joined as by errors.Join, a line
// for each, in the order of the file. YAML that cannot be read is one mistake.
func Parse(name string, text []byte) (*Config, error) {
	c, err := parse(name, text)
	if err != nil {
		return nil, err
	}
	if err := c.contradiction(); err != nil {
		return nil, err
	}
	return c, nil
}

// parse is Parse without what the environment may still change. Beside an error there is what could be read.
func parse(name string, text []byte) (*Config, error) {
	c := &Config{name: name, places: make(map[string]place)}
	p := &parser{file: name, places: c.places}
	root, err := p.document(text)
	if err == nil && root != nil {
		err = byLine(p.config(c, root))
	}
	if err == nil && c.Rules == nil {
		c.Rules, err = rules.New()
	}
	return c, err
}

// parser turns nodes into values. Its errors know the file, and it notes where each
// value is from.
type parser struct {
	file    string
	outside bool // of files: file is a variable of the environment
	places  map[string]place
	broken  map[string]bool // limits that have mistakes; "" is all of them
}

// at is where a line is.
func (p *parser) at(line int) place { return place{file: p.file, line: line, outside: p.outside} }

// note remembers where the value of key is from.
func (p *parser) note(key string, line int) {
	if p.places != nil {
		p.places[key] = p.at(line)
	}
}

// document gives the root of the only document; nil if the file says nothing.
func (p *parser) document(text []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	switch err := decoder.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, p.syntax(err)
	}
	switch err := decoder.Decode(&more); {
	case err == nil:
		return nil, &Error{File: p.file, Line: more.Line, Problem: "a second document: want one"}
	case !errors.Is(err, io.EOF):
		return nil, p.syntax(err)
	}
	if err := p.plain(&doc); err != nil {
		return nil, err
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" {
		return nil, nil
	}
	return root, nil
}

// syntax turns "yaml: line 3: did not find …" into an Error.
func (p *parser) syntax(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	e := &Error{File: p.file, Problem: text}
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		if digits, problem, ok := strings.Cut(rest, ": "); ok {
			if n, aerr := strconv.Atoi(digits); aerr == nil {
				e.Line, e.Problem = n, problem
				if slices.Contains(countedFromZero, problem) {
					e.Line++
				}
			}
		}
	}
	if strings.HasPrefix(e.Problem, "found character that cannot start any token") {
		e.Problem += ": a tab? Indent with spaces" // the library does not say which one it is
	}
	e.Problem = "not YAML: " + e.Problem
	return e
}

// countedFromZero are the errors of the YAML library's parser: it counts lines
// from zero in them, and from one in those of its scanner.
var countedFromZero = []string{
	"did not find expected <document start>",
	"did not find expected node content",
	"did not find expected '-' indicator",
	"did not find expected key",
	"did not find expected ',' or ']'",
	"did not find expected ',' or '}'",
}

// plain refuses anchors and aliases, and so everything that grows when read.
func (p *parser) plain(n *yaml.Node) error {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return &Error{File: p.file, Line: n.Line, Problem: "an anchor or alias: write the value out"}
	}
	for _, child := range n.Content {
		if err := p.plain(child); err != nil {
			return err
		}
	}
	return nil
}

// bad is the error of the value of key.
func (p *parser) bad(key string, n *yaml.Node, format string, args ...any) error {
	return p.at(n.Line).mistake(key, fmt.Sprintf(format, args...))
}

// maybeURL reports whether s looks like a URL, or like one without its scheme: it may hold a password.
func maybeURL(s string) bool { return strings.Contains(s, "://") || strings.Contains(s, "@") }

// show quotes a value for a message. What may hold a password is not shown, in whichever place it was put.
func show(s string) string {
	switch {
	case maybeURL(s):
		return `"…"`
	case len(s) > 60:
		return strconv.Quote(strings.ToValidUTF8(s[:60], "") + "…")
	}
	return strconv.Quote(s)
}

// kind names what n is, for messages.
func kind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping" + tagged(n, "!!map")
	case yaml.SequenceNode:
		return "a list" + tagged(n, "!!seq")
	}
	if n.ShortTag() == "!!null" {
		return "nothing"
	}
	return show(n.Value)
}

// tagged names a tag that is not usual.
func tagged(n *yaml.Node, usual string) string {
	if tag := n.ShortTag(); tag != usual {
		return " tagged " + show(tag)
	}
	return ""
}

// field is what one key of a mapping sets.
type field struct {
	name string
	set  func(key string, value *yaml.Node) error
}

// mapping hands each value of n to the field of its name. path is the key of n, ""
// for the root.
func (p *parser) mapping(path string, n *yaml.Node, fields []field) error {
	return p.each(path, n, func(name string, keyNode, value *yaml.Node) error {
		for _, f := range fields {
			if f.name == name {
				p.note(join(path, name), value.Line)
				return f.set(join(path, name), value)
			}
		}
		names := make([]string, len(fields))
		for i, f := range fields {
			names[i] = f.name
		}
		return p.bad(path, keyNode, "unknown key %s: want one of %s", show(name), strings.Join(names, ", "))
	})
}

// each walks a mapping whose keys are strings, each there once. It goes on behind a mistake.
func (p *parser) each(path string, n *yaml.Node, do func(name string, key, value *yaml.Node) error) error {
	if n.Kind != yaml.MappingNode || n.ShortTag() != "!!map" {
		return p.bad(path, n, "%s: want a mapping", kind(n))
	}
	var wrong mistakes
	seen := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" || key.Value == "" {
			wrong.add(p.bad(path, key, "key %s: want a name", kind(key)))
			continue
		}
		if line, ok := seen[key.Value]; ok {
			wrong.add(p.bad(path, key, "key %s again: it is on line %d", show(key.Value), line))
			continue
		}
		seen[key.Value] = key.Line
		wrong.add(do(key.Value, key, value))
	}
	return wrong.err()
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// readAll reads r to its end, and refuses more than limit bytes.
func readAll(r io.Reader, limit int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("more than %d bytes", limit)
	}
	return text, err
}
