package rules

import (
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/coordgo/coord"
)

// Match says which requests a rule is about: those for which all that is set is true.
type Match struct {
	// Methods of HTTP, in capitals; none is any.
	Methods []string
	// Path is a pattern of [net/http.ServeMux] without method and host: "/orders/{id}" is one
	// segment, "/orders/" everything below, "/files/{rest...}" too, "/{$}" the root
	// alone. "" is any path. A path is cleaned before it is compared.
	Path string
	// RPC is the full name of a method, or a name that ends in "*": "/shop.Orders/Place",
	// "/shop.Orders/*", "/shop.*". "" is any.
	RPC string
}

func (m *Match) check() error {
	for _, method := range m.Methods {
		if method == "" || strings.ToUpper(method) != method {
			return fmt.Errorf("%w: method %q: want capitals, such as GET", coord.ErrInvalid, method)
		}
	}
	if m.RPC != "" {
		if len(m.Methods) > 0 || m.Path != "" {
			return fmt.Errorf("%w: a match by rpc and by method or path: no request has both", coord.ErrInvalid)
		}
		if m.RPC[0] != '/' || strings.Contains(strings.TrimSuffix(m.RPC, "*"), "*") {
			return fmt.Errorf("%w: rpc %q: want /package.Service/Method, with * at the end or nowhere", coord.ErrInvalid, m.RPC)
		}
	}
	_, err := parsePattern(m.Path)
	return err
}

// pattern is a path pattern in parts.
type pattern struct {
	segments []segment
	below    bool // whatever follows matches too
	any      bool // every path
}

// segment is a literal, or anything.
type segment struct {
	literal string
	any     bool
}

func parsePattern(s string) (p pattern, err error) {
	bad := func(why string) (pattern, error) {
		return p, fmt.Errorf("%w: path %q: %s", coord.ErrInvalid, s, why)
	}
	switch {
	case s == "":
		return pattern{any: true}, nil
	case s[0] != '/':
		return bad("want it to begin with /")
	case cleaned(s) != s:
		return bad("want it without empty, . and .. segments")
	}
	parts := strings.Split(s[1:], "/")
	names := make(map[string]bool)
	for i, part := range parts {
		last := i == len(parts)-1
		open, closed := strings.HasPrefix(part, "{"), strings.HasSuffix(part, "}")
		switch {
		case part == "" && last:
			p.below = true
			return p, nil
		case part == "{$}" && last:
			p.segments = append(p.segments, segment{})
			return p, nil
		case !open && !strings.ContainsAny(part, "{}"):
			p.segments = append(p.segments, segment{literal: unescaped(part)})
			continue
		case !open || !closed:
			return bad("want a {name} to be a whole segment")
		}
		name, rest := strings.CutSuffix(part[1:len(part)-1], "...")
		switch {
		case !identifier(name):
			return bad(fmt.Sprintf("{%s}: want a name of letters, digits and _", name))
		case names[name]:
			return bad(fmt.Sprintf("{%s} twice", name))
		case rest && !last:
			return bad("want {name...} at the end")
		case rest:
			p.below = true
			return p, nil
		}
		names[name] = true
		p.segments = append(p.segments, segment{any: true})
	}
	return p, nil
}

func identifier(s string) bool {
	for i, c := range s {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// cleaned is a path without empty, . and .. segments; a slash at the end stays.
func cleaned(p string) string {
	c := path.Clean("/" + p)
	if c != "/" && strings.HasSuffix(p, "/") {
		c += "/"
	}
	return c
}

func unescaped(s string) string {
	if u, err := url.PathUnescape(s); err == nil {
		return u
	}
	return s
}

// matches compares a path that was cleaned.
func (p *pattern) matches(s string) bool {
	if p.any {
		return true
	}
	if s == "" {
		return false
	}
	rest, more := s[1:], true
	for _, seg := range p.segments {
		if !more {
			return false
		}
		var part string
		part, rest, more = strings.Cut(rest, "/")
		if seg.any && part == "" || !seg.any && unescaped(part) != seg.literal {
			return false
		}
	}
	return more == p.below
}

// of reports whether a request matches; p is m.Path in parts, at the request's path, cleaned.
func (m *Match) of(r *Request, p *pattern, at string) bool {
	switch {
	case r.RPC == "" && m.RPC != "", r.RPC != "" && (len(m.Methods) > 0 || m.Path != ""):
		return false
	case r.RPC != "":
		prefix, wild := strings.CutSuffix(m.RPC, "*")
		return m.RPC == "" || r.RPC == m.RPC || wild && strings.HasPrefix(r.RPC, prefix)
	}
	return (len(m.Methods) == 0 || slices.Contains(m.Methods, r.Method)) && p.matches(at)
}
