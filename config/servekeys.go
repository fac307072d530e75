package config

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/coordgo/coord"
)

// serve reads the section serve.
func (p *parser) serve(key string, n *yaml.Node, s *Serve) error {
	fields := append(
		p.serveFields(s),
		field{"tls", func(key string, n *yaml.Node) error { return p.mapping(key, n, p.tlsFields(s)) }},
		field{"callers", func(key string, n *yaml.Node) error { return p.callers(key, n, s) }},
		field{"envoy", func(key string, n *yaml.Node) error { return p.envoy(key, n, &s.Envoy) }},
	)
	return p.mapping(key, n, fields)
}

// serveFields are those that have one value, which a variable of the environment may replace.
func (p *parser) serveFields(s *Serve) []field {
	span := func(to *time.Duration) func(string, *yaml.Node) error {
		return func(key string, n *yaml.Node) (err error) {
			*to, err = p.duration(key, n, time.Millisecond, 24*time.Hour)
			return err
		}
	}
	number := func(to *int) func(string, *yaml.Node) error {
		return func(key string, n *yaml.Node) error {
			value, err := strconv.Atoi(n.Value)
			typed := n.Kind == yaml.ScalarNode && (p.outside || n.ShortTag() == "!!int")
			if !typed || err != nil || value < 1 || value > 1_000_000 {
				return p.bad(key, n, "%s: want 1 to 1000000", kind(n))
			}
			*to = value
			return nil
		}
	}
	return []field{
		{"listen", func(key string, n *yaml.Node) error { return p.listen(key, n, &s.Listen) }},
		{"grpc_listen", func(key string, n *yaml.Node) error { return p.listen(key, n, &s.GRPCListen) }},
		{"plaintext", p.flag(&s.Plaintext)},
		{"ad_hoc_limits", p.flag(&s.AdHocLimits)},
		{"page", func(key string, n *yaml.Node) error { return p.page(key, n, &s.Page) }},
		{"max_wait", span(&s.MaxWait)},
		{"drain", span(&s.Drain)},
		{"max_holds", number(&s.MaxHolds)},
		{"max_requests", number(&s.MaxRequests)},
		{"max_connections", number(&s.MaxConnections)},
	}
}

func (p *parser) flag(to *bool) func(string, *yaml.Node) error {
	return func(key string, n *yaml.Node) (err error) { *to, err = p.boolean(key, n); return err }
}

// envoy reads the section serve.envoy.
func (p *parser) envoy(key string, n *yaml.Node, e *Envoy) error {
	err := p.mapping(key, n, []field{
		{"files", func(key string, n *yaml.Node) error {
			return p.items(key, n, "of files and directories such as [/etc/ratelimit]", func(key string, item *yaml.Node) error {
				path, err := p.text(key, item, "the path of a file or a directory")
				if err == nil && path == "" {
					err = p.bad(key, item, "an empty path: want that of a file or a directory")
				}
				e.Files = append(e.Files, path)
				return err
			})
		}},
		{"merge_domains", p.flag(&e.MergeDomains)},
		{"shadow", p.flag(&e.Shadow)},
		{"quota", p.flag(&e.Quota)},
		{"headers", p.flag(&e.Headers)},
		{"metadata", p.flag(&e.Metadata)},
	})
	if err == nil && len(e.Files) == 0 {
		err = p.bad(key, n, "no files: want a list such as [/etc/ratelimit]")
	}
	return err
}

func (p *parser) page(key string, n *yaml.Node, to *Page) error {
	const want = "none, read or act"
	name, err := p.text(key, n, want)
	if err != nil {
		return err
	}
	*to = Page(name)
	if !slices.Contains([]Page{PageNone, PageRead, PageAct}, *to) {
		return p.bad(key, n, "%s: want %s", show(name), want)
	}
	return nil
}

func (p *parser) listen(key string, n *yaml.Node, to *string) (err error) {
	const want = "host:port such as 127.0.0.1:8470, or unix:/path"
	if *to, err = p.text(key, n, want); err != nil {
		return err
	}
	if path, ok := strings.CutPrefix(*to, "unix:"); ok && path != "" {
		return nil
	}
	_, port, err := net.SplitHostPort(*to)
	if _, nerr := strconv.ParseUint(port, 10, 16); err != nil || nerr != nil {
		return p.bad(key, n, "%s: want %s", show(*to), want)
	}
	return nil
}

func (p *parser) tlsFields(s *Serve) []field {
	path := func(to *string) func(string, *yaml.Node) error {
		return func(key string, n *yaml.Node) (err error) {
			*to, err = p.text(key, n, "the path of a file")
			return err
		}
	}
	return []field{{"certificate", path(&s.Certificate)}, {"key", path(&s.Key)}, {"client_ca", path(&s.ClientCA)}}
}

// items reads each item of a list of 1 to 1000.
func (p *parser) items(key string, n *yaml.Node, want string, do func(key string, item *yaml.Node) error) error {
	if n.Kind != yaml.SequenceNode || n.ShortTag() != "!!seq" || len(n.Content) == 0 || len(n.Content) > 1000 {
		return p.bad(key, n, "%s: want a list %s", kind(n), want)
	}
	var wrong mistakes
	for i, item := range n.Content {
		name := join(key, strconv.Itoa(i))
		p.note(name, item.Line)
		wrong.add(do(name, item))
	}
	return wrong.err()
}

func (p *parser) callers(key string, n *yaml.Node, s *Serve) error {
	const want = `such as [{name: web, token: "${WEB_TOKEN}", allow: [{prefix: web/, rights: [lock]}]}]`
	s.Callers = nil
	return p.items(key, n, want, func(key string, item *yaml.Node) error {
		var c Caller
		if err := p.mapping(key, item, p.callerFields(&c)); err != nil {
			return err
		}
		same := func(o Caller) bool { return o.Name == c.Name }
		shown := func(o Caller) bool { return c.Certificate != "" && o.Certificate == c.Certificate }
		switch {
		case c.Name == "":
			return p.bad(key, item, "no name")
		case slices.ContainsFunc(s.Callers, same):
			return p.bad(key, item, "name %s again", show(c.Name))
		case slices.ContainsFunc(s.Callers, shown):
			return p.bad(key, item, "certificate %s again", show(c.Certificate))
		case (c.Token == "") == (c.Certificate == ""):
			return p.bad(key, item, "want a token or a certificate")
		case len(c.Allow) == 0:
			return p.bad(key, item, "no allow: want a list of prefix and rights")
		}
		s.Callers = append(s.Callers, c)
		return nil
	})
}

func (p *parser) callerFields(c *Caller) []field {
	return []field{
		{"name", func(key string, n *yaml.Node) (err error) {
			if c.Name, err = p.text(key, n, "a name"); err == nil && !holderName(c.Name) {
				err = p.bad(key, n, "%s: want 1 to 64 bytes of printable ASCII without spaces", show(c.Name))
			}
			return err
		}},
		{"token", func(key string, n *yaml.Node) error { return p.token(key, n, &c.Token) }},
		{"certificate", func(key string, n *yaml.Node) (err error) {
			c.Certificate, err = p.text(key, n, "a name that the certificate is for")
			return err
		}},
		{"allow", func(key string, n *yaml.Node) error {
			return p.items(key, n, "such as [{prefix: web/, rights: [lock, take]}]", func(key string, item *yaml.Node) error {
				return p.allow(key, item, c)
			})
		}},
	}
}

// holderName reports whether a hold can be shown under that name.
func holderName(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// token reads a secret or a reference to one. Messages do not show it.
func (p *parser) token(key string, n *yaml.Node, to *Secret) error {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" || n.Value == "" {
		return p.bad(key, n, "want a string, ${NAME} or ${file:/path}")
	}
	if strings.Contains(n.Value, "${") {
		if m, err := mask(n.Value); err != nil || len(m.refs) != 1 || m.refs[0] != n.Value {
			return p.bad(key, n, "want ${NAME} or ${file:/path} alone")
		}
	}
	*to = Secret(n.Value)
	return nil
}

func (p *parser) allow(key string, n *yaml.Node, c *Caller) error {
	var a Allow
	err := p.mapping(key, n, []field{
		{"prefix", func(key string, n *yaml.Node) (err error) {
			a.Prefix, err = p.text(key, n, `a string such as "shop/"`)
			return err
		}},
		{"rights", func(key string, n *yaml.Node) error {
			return p.items(key, n, "such as [read, lock]", func(key string, item *yaml.Node) error {
				name, err := p.text(key, item, "a right")
				if err == nil && !isRight(name) {
					err = p.bad(key, item, "%s: want one of %s", show(name), rightNames())
				}
				a.Rights = append(a.Rights, Right(name))
				return err
			})
		}},
	})
	switch {
	case err != nil:
		return err
	case len(a.Rights) == 0:
		return p.bad(key, n, "no rights: want some of %s", rightNames())
	case len(a.Prefix) > coord.MaxKey:
		return p.bad(key, n, "prefix of %d bytes: want at most %d", len(a.Prefix), coord.MaxKey)
	}
	c.Allow = append(c.Allow, a)
	return nil
}
