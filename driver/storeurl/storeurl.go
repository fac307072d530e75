// Package storeurl reads the URLs of stores on servers, in the same form for every adapter:
//
//	scheme://[user[:password]@]host[:port][,host[:port]…][/path][?parameters]
//
// An adapter declares in a [Spec] which parts its URLs have. Everything else is refused with driver.ErrInvalid. No error
// shows a password. driver.Open has removed the parameter prefix from a URL before an adapter reads it.
package storeurl

import (
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coordgo/coord/driver"
)

// Spec is what the URLs of one store may contain.
type Spec struct {
	// Scheme of a plain connection; TLSScheme of one over TLS, "" if there is none.
	Scheme, TLSScheme string
	// DefaultPort of a host without one.
	DefaultPort string
	// Many allows several hosts.
	Many bool
	// User allows a user and password.
	User bool
	// Path allows a path.
	Path bool
	// Params are the query parameters, each given at most once, and what sets
	// them. Those of TLS come by themselves.
	Params map[string]Param
}

// Param reads the value of a query parameter. Its error says what is wanted.
type Param func(value string) error

// URL is a URL that was read.
type URL struct {
	// Hosts are host:port each, in the order given, none twice.
	Hosts []string
	// User and Password are empty if the URL has none.
	User, Password string
	// Path without the slash before it.
	Path string
	// TLS is nil for a plain connection. Its ServerName is empty unless the URL
	// sets it or has one host: with several, the client takes each one's own.
	TLS *tls.Config

	scheme, other string // its own, and that of the same store with TLS or without
}

// Parse reads u.
func Parse(u *url.URL, spec Spec) (URL, error) {
	var out URL
	secure := spec.TLSScheme != "" && u.Scheme == spec.TLSScheme
	example := fmt.Sprintf("%s://host:%s", u.Scheme, spec.DefaultPort)
	switch {
	case u.Scheme != spec.Scheme && !secure:
		return out, fmt.Errorf("%w: scheme %q: want %s", driver.ErrInvalid, u.Scheme, strings.TrimSuffix(spec.Scheme+" or "+spec.TLSScheme, " or "))
	case u.Opaque != "" || u.Host == "":
		return out, fmt.Errorf("%w: store URL: want a form like %s", driver.ErrInvalid, example)
	case u.Fragment != "":
		return out, fmt.Errorf("%w: store URL: a fragment: want none", driver.ErrInvalid)
	case u.User != nil && !spec.User:
		return out, fmt.Errorf("%w: store URL: %s takes no user", driver.ErrInvalid, spec.Scheme)
	}
	if out.scheme, out.other = u.Scheme, spec.TLSScheme; secure {
		out.other = spec.Scheme
	}
	var err error
	if out.Hosts, err = hosts(u.Host, spec); err != nil {
		return out, err
	}
	out.User = u.User.Username()
	out.Password, _ = u.User.Password()
	out.Path = strings.TrimPrefix(u.Path, "/")
	if out.Path != "" && !spec.Path {
		return out, fmt.Errorf("%w: store URL: a path: want none", driver.ErrInvalid)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return out, fmt.Errorf("%w: store URL: its query is malformed", driver.ErrInvalid)
	}
	if err := apply(query, spec, secure); err != nil {
		return out, err
	}
	if secure {
		out.TLS, err = tlsConfig(out.Hosts, query)
	}
	return out, err
}

// hosts splits a list of hosts, and gives each a port.
func hosts(list string, spec Spec) ([]string, error) {
	var out []string
	for _, h := range strings.Split(list, ",") {
		host, port, err := splitHost(h, spec.DefaultPort)
		if err != nil {
			return nil, err
		}
		if h = net.JoinHostPort(host, port); slices.Contains(out, h) {
			return nil, fmt.Errorf("%w: host %s is given twice", driver.ErrInvalid, h)
		}
		out = append(out, h)
	}
	if len(out) > 1 && !spec.Many {
		return nil, fmt.Errorf("%w: store URL: %d hosts: want one", driver.ErrInvalid, len(out))
	}
	return out, nil
}

// splitHost splits host, host:port, [address] or [address]:port.
func splitHost(h, defaultPort string) (host, port string, err error) {
	host, rest, closed := h, "", false
	inside, bracketed := strings.CutPrefix(h, "[")
	if bracketed {
		host, rest, closed = strings.Cut(inside, "]")
	} else if i := strings.IndexByte(h, ':'); i >= 0 {
		host, rest = h[:i], h[i:]
	}
	a, notAddr := netip.ParseAddr(host)
	port, hasPort := strings.CutPrefix(rest, ":")
	switch n, notPort := strconv.ParseUint(port, 10, 16); {
	case bracketed && (!closed || notAddr != nil || !a.Is6()), rest != "" && !hasPort, strings.Contains(port, ":"), !bracketed && strings.ContainsAny(host, "[]"):
		return "", "", fmt.Errorf("%w: host %q: want host:%s, or an address of IPv6 in brackets, such as [::1]:%[3]s", driver.ErrInvalid, h, defaultPort)
	case host == "" || strings.Contains(h, "@"):
		return "", "", fmt.Errorf("%w: store URL: a host is empty: want host:%s", driver.ErrInvalid, defaultPort)
	case rest == "":
		return host, defaultPort, nil
	case notPort != nil || n == 0:
		return "", "", fmt.Errorf("%w: port %q: want 1 to 65535", driver.ErrInvalid, port)
	}
	return host, port, nil
}

func apply(query url.Values, spec Spec, secure bool) error {
	for _, name := range slices.Sorted(maps.Keys(query)) {
		set, known := spec.Params[name]
		ofTLS := slices.Contains(tlsParams, name) && spec.TLSScheme != ""
		switch {
		case !known && !ofTLS:
			names := slices.Collect(maps.Keys(spec.Params))
			if spec.TLSScheme != "" {
				names = append(names, tlsParams...)
			}
			slices.Sort(names)
			return fmt.Errorf("%w: %s: want prefix, %s", driver.ErrInvalid, unknown(name, query.Get(name)), strings.Join(names, ", "))
		case len(query[name]) != 1:
			return fmt.Errorf("%w: parameter %s is given %d times: want once", driver.ErrInvalid, name, len(query[name]))
		case ofTLS && !secure:
			return fmt.Errorf("%w: parameter %s: want a %s:// URL", driver.ErrInvalid, name, spec.TLSScheme)
		case ofTLS:
			continue
		}
		if err := set(query.Get(name)); err != nil {
			return fmt.Errorf("%w: parameter %s=%q: %w", driver.ErrInvalid, name, query.Get(name), err)
		}
	}
	return nil
}

// unknown names an unknown parameter, unless it may be a secret that was put in a wrong place.
func unknown(name, value string) string {
	other := func(c rune) bool { return c != '_' && (c < 'a' || c > 'z') }
	if value == "" || len(name) > 20 || strings.ContainsFunc(name, other) {
		return "an unknown parameter"
	}
	return fmt.Sprintf("parameter %q", name)
}

// Duration is a parameter from least to most.
func Duration(to *time.Duration, least, most time.Duration) Param {
	return func(v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d < least || d > most {
			return fmt.Errorf("want a duration from %v to %v", least, most)
		}
		*to = d
		return nil
	}
}

// Int is a whole number from least to most.
func Int(to *int, least, most int) Param {
	return func(v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < least || n > most {
			return fmt.Errorf("want %d to %d", least, most)
		}
		*to = n
		return nil
	}
}

// Bool is true or false.
func Bool(to *bool) Param {
	return func(v string) error {
		b, err := strconv.ParseBool(v)
		if err != nil {
			return errors.New("want true or false")
		}
		*to = b
		return nil
	}
}

// OneOf is one of some words.
func OneOf(to *string, words ...string) Param {
	return func(v string) error {
		if !slices.Contains(words, v) {
			return fmt.Errorf("want one of %s", strings.Join(words, ", "))
		}
		*to = v
		return nil
	}
}

// Printable is printable ASCII without spaces.
func Printable(to *string) Param {
	return func(v string) error {
		for _, c := range []byte(v) {
			if c <= ' ' || c > '~' {
				return errors.New("want printable ASCII without spaces")
			}
		}
		*to = v
		return nil
	}
}
