package config

import (
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

// config reads the root.
func (p *parser) config(c *Config, root *yaml.Node) error {
	var chain *yaml.Node // read last: rules name limits
	fields := []field{
		{"url", func(key string, n *yaml.Node) error { return p.stores(key, n, c) }},
		{"quorum", func(key string, n *yaml.Node) error { return p.quorum(key, n, c) }},
	}
	fields = append(fields, p.plainFields(c)...)
	fields = append(
		fields,
		field{"lock", func(key string, n *yaml.Node) error { return p.mapping(key, n, p.lockFields(&c.Lock)) }},
		field{"serve", func(key string, n *yaml.Node) error { return p.serve(key, n, &c.Serve) }},
		field{"limits", func(key string, n *yaml.Node) error { return p.limits(key, n, c) }},
		field{"rules", func(_ string, n *yaml.Node) error { chain = n; return nil }},
	)
	var wrong mistakes
	wrong.add(p.mapping("", root, fields))
	if chain != nil {
		wrong.add(p.rules("rules", chain, c))
	}
	return wrong.err()
}

// plainFields are the keys of the root that have one value or a list of them.
func (p *parser) plainFields(c *Config) []field {
	return []field{
		{"prefix", func(key string, n *yaml.Node) error { return p.prefix(key, n, &c.Prefix) }},
		{"require", func(key string, n *yaml.Node) error { return p.claims(key, n, &c.Require) }},
		{"failure_policy", func(key string, n *yaml.Node) error { return p.policy(key, n, &c.FailurePolicy) }},
		{"best_effort", func(key string, n *yaml.Node) (err error) { c.BestEffort, err = p.boolean(key, n); return err }},
		{"overrides", func(key string, n *yaml.Node) (err error) { c.Overrides, err = p.boolean(key, n); return err }},
	}
}

// text reads a string.
func (p *parser) text(key string, n *yaml.Node, want string) (string, error) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		return "", p.bad(key, n, "%s: want %s", kind(n), want)
	}
	return n.Value, nil
}

// stores reads one store, or one of locks and one of limits. Messages never show a value.
func (p *parser) stores(key string, n *yaml.Node, c *Config) error {
	if n.Kind != yaml.MappingNode {
		return p.url(key, n, &c.URL)
	}
	delete(p.places, key)
	err := p.mapping(key, n, []field{
		{"locks", func(key string, n *yaml.Node) error { return p.url(key, n, &c.LocksURL) }},
		{"limits", func(key string, n *yaml.Node) error { return p.url(key, n, &c.LimitsURL) }},
	})
	switch {
	case err != nil:
		return err
	case c.LocksURL == "":
		return p.bad(key, n, "no locks: want a store for each of locks and limits")
	case c.LimitsURL == "":
		return p.bad(key, n, "no limits: want a store for each of locks and limits")
	}
	return nil
}

// quorum reads the members of a quorum.
func (p *parser) quorum(key string, n *yaml.Node, c *Config) error {
	if n.Kind != yaml.SequenceNode || n.ShortTag() != "!!seq" || len(n.Content) < 3 {
		return p.bad(key, n, "want a list of three stores or more such as [redis://a, redis://b, redis://c]")
	}
	var wrong mistakes
	c.Quorum = make([]URL, len(n.Content))
	for i, item := range n.Content {
		name := join(key, strconv.Itoa(i))
		p.note(name, item.Line)
		err := p.url(name, item, &c.Quorum[i])
		if !wrong.add(err) && slices.Contains(c.Quorum[:i], c.Quorum[i]) {
			wrong.add(p.bad(name, item, "a member again"))
		}
	}
	return wrong.err()
}

func (p *parser) url(key string, n *yaml.Node, u *URL) error {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		want := "want a URL such as redis://host:6379/0"
		if key == "url" {
			want += ", or a mapping of locks and limits with one each"
		}
		return p.bad(key, n, "not a string: %s", want)
	}
	*u = URL(n.Value)
	if problem := u.problem(); problem != "" {
		return p.bad(key, n, "%s", problem)
	}
	return nil
}

func (p *parser) prefix(key string, n *yaml.Node, prefix *string) (err error) {
	const want = `a string such as "shop/"`
	if *prefix, err = p.text(key, n, want); err != nil {
		return err
	}
	if len(*prefix) > coord.MaxPrefix || !utf8.ValidString(*prefix) {
		return p.bad(key, n, "%d bytes: want at most %d of UTF-8", len(*prefix), coord.MaxPrefix)
	}
	return nil
}

func (p *parser) claims(key string, n *yaml.Node, claims *[]driver.Claim) error {
	known := driver.AllClaims()
	if n.Kind != yaml.SequenceNode || n.ShortTag() != "!!seq" {
		return p.bad(key, n, "%s: want a list such as [per-hold-ttl, server-clock]", kind(n))
	}
	var wrong mistakes
	*claims = nil
	for _, item := range n.Content {
		name, err := p.text(key, item, "the name of a claim")
		claim := driver.Claim(name)
		switch {
		case wrong.add(err):
		case !slices.Contains(known, claim):
			wrong.add(p.bad(key, item, "%s: want one of %s", show(name), joinClaims(known)))
		case slices.Contains(*claims, claim):
			wrong.add(p.bad(key, item, "%s again", show(name)))
		default:
			*claims = append(*claims, claim)
		}
	}
	return wrong.err()
}

func (p *parser) policy(key string, n *yaml.Node, policy *coord.FailurePolicy) error {
	const want = "closed or open"
	text, err := p.text(key, n, want)
	if err != nil {
		return err
	}
	switch text {
	case "closed":
		*policy = coord.FailClosed
	case "open":
		*policy = coord.FailOpen
	default:
		return p.bad(key, n, "%s: want %s", show(text), want)
	}
	return nil
}

// maxDuration is the longest that coord takes for any duration of a lock.
const maxDuration = 10 * 366 * 24 * time.Hour

// duration reads a Go duration from least to most.
func (p *parser) duration(key string, n *yaml.Node, least, most time.Duration) (time.Duration, error) {
	if n.Kind != yaml.ScalarNode {
		return 0, p.bad(key, n, "%s: want a duration such as 30s", kind(n))
	}
	d, err := time.ParseDuration(n.Value)
	if err != nil || n.ShortTag() != "!!str" && n.Value != "0" {
		return 0, p.bad(key, n, "%s: want a duration such as 30s", kind(n))
	}
	if d < least || d > most {
		return 0, p.bad(key, n, "%s: want at least %v, at most %v", show(n.Value), least, most)
	}
	return d, nil
}

// lockFields are the keys of lock.
func (p *parser) lockFields(l *Lock) []field {
	set := func(to *time.Duration) func(string, *yaml.Node) error {
		return func(key string, n *yaml.Node) (err error) {
			*to, err = p.duration(key, n, time.Nanosecond, maxDuration)
			return err
		}
	}
	return []field{
		{"ttl", set(&l.TTL)},
		{"wait", set(&l.Wait)},
		{"max_hold", set(&l.MaxHold)},
		{"min_hold", set(&l.MinHold)},
		{"fair", func(key string, n *yaml.Node) (err error) { l.Fair, err = p.boolean(key, n); return err }},
		{"renew", func(key string, n *yaml.Node) error {
			renew, err := p.boolean(key, n)
			l.NoRenew = !renew
			return err
		}},
	}
}

// boolean reads true or false.
func (p *parser) boolean(key string, n *yaml.Node) (bool, error) {
	typed := n.Kind == yaml.ScalarNode && (p.outside || n.ShortTag() == "!!bool")
	if typed && n.Value == "true" {
		return true, nil
	}
	if typed && n.Value == "false" {
		return false, nil
	}
	return false, p.bad(key, n, "%s: want true or false", kind(n))
}
