package rules

import (
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/coordgo/coord"
)

// Match says which requests a rule is about: those for which all that is set is true.
type Match struct {
	// Methods of HTTP, in capitals; none is any. GET is HEAD too, because servers answer HEAD
	// by the handler of GET. A method that is not in IANA's registry is refused, except PURGE: leave
	// Methods out to count requests with methods of your own.
	Methods []string
	// Path is a pattern of [net/http.ServeMux] without method and host: "/orders/{id}" is one
	// segment, "/orders/" everything below, "/files/{rest...}" too, "/{$}" the root
	// alone. "" is any path.
	//
	// Servers read a path in different ways. It may be as it was sent or decoded, and cleaned of
	// "//", "." and ".." or not. The limits of a rule apply if the pattern matches in any of these ways.
	Path string
	// ExactSlash tells /orders from /orders/. By default a slash at the end makes no difference.
	ExactSlash bool
	// RPC is the full name of a method, or a name that ends in "*": "/shop.Orders/Place",
	// "/shop.Orders/*", "/shop.*". "" is any.
	RPC string
	// Networks are those of the clients that the rule is about; none is any. ExceptNetworks are those of clients that it is
	// not about. A request whose address is not known is in none. Behind a proxy that httpcoord.Proxies does not trust,
	// the address is the proxy's: to exempt its network exempts everybody.
	Networks, ExceptNetworks []netip.Prefix
}

// methods are those of IANA's registry, and PURGE, which caches have.
var methods = strings.Fields(`
	GET HEAD POST PUT PATCH DELETE OPTIONS CONNECT TRACE QUERY PURGE
	ACL BASELINE-CONTROL BIND CHECKIN CHECKOUT COPY LABEL LINK LOCK MERGE MKACTIVITY MKCALENDAR MKCOL
	MKREDIRECTREF MKWORKSPACE MOVE ORDERPATCH PRI PROPFIND PROPPATCH REBIND REPORT SEARCH UNBIND UNCHECKOUT
	UNLINK UNLOCK UPDATE UPDATEREDIRECTREF VERSION-CONTROL`)

func (m *Match) check() error {
	for _, method := range m.Methods {
		if method == "" || strings.ToUpper(method) != method {
			return fmt.Errorf("%w: method %q: want capitals, such as GET", coord.ErrInvalid, method)
		}
		if !slices.Contains(methods, method) {
			return fmt.Errorf("%w: method %q: want a method of IANA's registry, such as GET", coord.ErrInvalid, method)
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
	if err := m.checkNetworks(); err != nil {
		return err
	}
	_, err := parsePattern(m.Path)
	return err
}

// pattern is a path pattern in parts.
type pattern struct {
	segments []segment
	below    bool   // whatever follows matches too
	rest     string // the name of what follows, of {rest...}
	any      bool   // every path
}

// segment is a literal, or anything.
type segment struct {
	literal string
	any     bool
	name    string // of {name}
}

// has reports whether the pattern has a variable of that name.
func (p *pattern) has(name string) bool {
	return name != "" && (p.rest == name || slices.ContainsFunc(p.segments, func(s segment) bool { return s.name == name }))
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
			p.below, p.rest = true, name
			return p, nil
		}
		names[name] = true
		p.segments = append(p.segments, segment{any: true, name: name})
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

// reading is one way to read the path of a request.
type reading struct {
	path    string // begins with a slash
	encoded bool   // its segments are percent-encoded
}

// readings are the ways in which servers read a path that was sent, each once. http.ServeMux cleans the encoded
// path, http.FileServer the decoded one, and other routers take either as it is.
func readings(sent string) []reading {
	if !strings.HasPrefix(sent, "/") {
		sent = "/" + sent
	}
	list := append(make([]reading, 0, 4), reading{sent, true})
	add := func(path string, encoded bool) {
		for _, r := range list {
			if r.path == path && (r.encoded == encoded || !strings.Contains(path, "%")) {
				return
			}
		}
		list = append(list, reading{path, encoded})
	}
	add(cleaned(sent), true)
	if decoded := unescaped(sent); decoded != sent {
		add(decoded, false)
		add(cleaned(decoded), false)
	}
	return list
}

// matches compares one reading of a path.
func (p *pattern) matches(r reading, exactSlash bool) bool {
	_, ok := p.match(r, exactSlash, "")
	return ok
}

// match compares one reading of a path, and gives the value of the variable of that name.
func (p *pattern) match(r reading, exactSlash bool, name string) (value string, ok bool) {
	if p.any {
		return "", true
	}
	rest, more := r.path[1:], true
	for _, seg := range p.segments {
		if !more { // only the end that {$} means may be missing
			return value, !exactSlash && seg == segment{}
		}
		var part string
		part, rest, more = strings.Cut(rest, "/")
		if r.encoded {
			part = unescaped(part)
		}
		// A {name} in the middle may be empty: some routers serve /orders//items.
		if seg.any && part == "" && !more || !seg.any && part != seg.literal {
			return "", false
		}
		if name != "" && seg.name == name {
			value = part
		}
	}
	if name != "" && p.rest == name {
		value = r.below(rest)
	}
	return value, more == p.below || !exactSlash && rest == ""
}

// below is a path below a pattern: some servers clean it.
func (r reading) below(path string) string {
	if r.encoded {
		path = unescaped(path)
	}
	return strings.Trim(cleaned(path), "/")
}

// limits reports whether the limits of a rule apply to a request: its path, which can be read in
// the ways given, matches in one of them. p is m.Path in parts.
func (m *Match) limits(r *Request, p *pattern, paths []reading) bool {
	if done, ok := m.apartFromPath(r); done {
		return ok
	}
	return slices.ContainsFunc(paths, func(path reading) bool { return p.matches(path, m.ExactSlash) })
}

// ends reports whether a final rule ends the chain for a request: its path matches to the
// letter, however it is read. So no spelling makes a request exempt that is served as another one.
func (m *Match) ends(r *Request, p *pattern, paths []reading) bool {
	if done, ok := m.apartFromPath(r); done {
		return ok
	}
	return !slices.ContainsFunc(paths, func(path reading) bool { return !p.matches(path, true) })
}

// apartFromPath compares all but the path. done says that the path does not matter.
func (m *Match) apartFromPath(r *Request) (done, ok bool) {
	switch {
	case !m.network(r.IP):
		return true, false
	case r.RPC == "" && m.RPC != "", r.RPC != "" && (len(m.Methods) > 0 || m.Path != ""):
		return true, false
	case r.RPC != "":
		prefix, wild := strings.CutSuffix(m.RPC, "*")
		return true, m.RPC == "" || r.RPC == m.RPC || wild && strings.HasPrefix(r.RPC, prefix)
	}
	return !m.method(r.Method), false
}

func (m *Match) method(method string) bool {
	return len(m.Methods) == 0 || slices.Contains(m.Methods, method) || method == "HEAD" && slices.Contains(m.Methods, "GET")
}
