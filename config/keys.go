package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

// config reads the root.
func (p *parser) config(c *Config, root *yaml.Node) error {
	var prefixNode *yaml.Node
	err := p.mapping("", root, []field{
		{"url", func(key string, n *yaml.Node) error { return p.url(key, n, &c.URL) }},
		{"prefix", func(key string, n *yaml.Node) error { prefixNode = n; return p.prefix(key, n, &c.Prefix) }},
		{"require", func(key string, n *yaml.Node) error { return p.claims(key, n, &c.Require) }},
		{"failure_policy", func(key string, n *yaml.Node) error { return p.policy(key, n, &c.FailurePolicy) }},
		{"lock", func(key string, n *yaml.Node) error { return p.lock(key, n, &c.Lock) }},
		{"limits", func(key string, n *yaml.Node) error { return p.limits(key, n, &c.Limits) }},
	})
	if err != nil {
		return err
	}
	if inURL := c.URL.prefix(); inURL != "" && c.Prefix != "" && inURL != c.Prefix {
		return p.bad("prefix", prefixNode, "%s contradicts prefix %s in url: set one of them", show(c.Prefix), show(inURL))
	}
	return nil
}

// text reads a string.
func (p *parser) text(key string, n *yaml.Node, want string) (string, error) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		return "", p.bad(key, n, "%s: want %s", kind(n), want)
	}
	return n.Value, nil
}

// url reads the store. Its message never shows the value.
func (p *parser) url(key string, n *yaml.Node, u *URL) error {
	const want = "want a string such as redis://host:6379/0"
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
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
	for _, item := range n.Content {
		name, err := p.text(key, item, "the name of a claim")
		if err != nil {
			return err
		}
		claim := driver.Claim(name)
		if !slices.Contains(known, claim) {
			return p.bad(key, item, "%s: want one of %s", show(name), joinClaims(known))
		}
		if slices.Contains(*claims, claim) {
			return p.bad(key, item, "%s again", show(name))
		}
		*claims = append(*claims, claim)
	}
	return nil
}

func joinClaims(claims []driver.Claim) string {
	names := make([]string, len(claims))
	for i, c := range claims {
		names[i] = string(c)
	}
	return strings.Join(names, ", ")
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

func (p *parser) lock(path string, n *yaml.Node, l *Lock) error {
	var minHoldNode *yaml.Node
	set := func(to *time.Duration) func(string, *yaml.Node) error {
		return func(key string, n *yaml.Node) (err error) {
			*to, err = p.duration(key, n, time.Nanosecond, maxDuration)
			return err
		}
	}
	err := p.mapping(path, n, []field{
		{"ttl", set(&l.TTL)},
		{"wait", set(&l.Wait)},
		{"max_hold", set(&l.MaxHold)},
		{"min_hold", func(key string, n *yaml.Node) error { minHoldNode = n; return set(&l.MinHold)(key, n) }},
	})
	if err == nil && l.MaxHold > 0 && l.MinHold > l.MaxHold {
		return p.bad(join(path, "min_hold"), minHoldNode, "%v is above max_hold %v", l.MinHold, l.MaxHold)
	}
	return err
}

func (p *parser) limits(path string, n *yaml.Node, limits *map[string]coord.Limit) error {
	*limits = make(map[string]coord.Limit)
	return p.each(path, n, func(name string, key, value *yaml.Node) error {
		l, err := p.limit(join(path, name), value)
		if err == nil {
			(*limits)[name] = l
		}
		return err
	})
}

// limit reads either form.
func (p *parser) limit(key string, n *yaml.Node) (coord.Limit, error) {
	const want = "want a form like 2000/1m, or a mapping of rate, per, burst, algorithm"
	switch {
	case n.Kind == yaml.MappingNode:
		return p.limitMap(key, n)
	case n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" || strings.Contains(n.Value, "://"):
		return coord.Limit{}, p.bad(key, n, "%s: %s", kind(n), want)
	}
	l, err := driver.ParseLimit(n.Value)
	if err != nil {
		return l, p.bad(key, n, "%s", reason(err))
	}
	return l, nil
}

// reason is the text of an ErrInvalid without its name.
func reason(err error) string {
	return strings.Replace(err.Error(), driver.ErrInvalid.Error()+": ", "", 1)
}

func (p *parser) limitMap(path string, n *yaml.Node) (coord.Limit, error) {
	var l coord.Limit
	var rate, per bool
	err := p.mapping(path, n, []field{
		{"rate", func(key string, n *yaml.Node) (err error) { rate = true; l.Rate, err = p.count(key, n); return err }},
		{"per", func(key string, n *yaml.Node) (err error) {
			per = true
			l.Per, err = p.duration(key, n, driver.MinPer, driver.MaxPer)
			return err
		}},
		{"burst", func(key string, n *yaml.Node) (err error) { l.Burst, err = p.count(key, n); return err }},
		{"algorithm", func(key string, n *yaml.Node) (err error) { l.Algorithm, err = p.algorithm(key, n); return err }},
	})
	switch {
	case err != nil:
		return l, err
	case !rate:
		return l, p.bad(path, n, "no rate: want a number of permits such as 2000")
	case !per:
		return l, p.bad(path, n, "no per: want a duration such as 1m")
	}
	if _, err := l.Normal(); err != nil {
		return l, p.bad(path, n, "%s", reason(err))
	}
	return l, nil
}

// count reads a number of permits.
func (p *parser) count(key string, n *yaml.Node) (int, error) {
	want := fmt.Sprintf("want a whole number from 1 to %d", driver.MaxRate)
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" {
		return 0, p.bad(key, n, "%s: %s", kind(n), want)
	}
	v, err := strconv.Atoi(n.Value)
	if err != nil || v < 1 || v > driver.MaxRate {
		return 0, p.bad(key, n, "%s: %s", kind(n), want)
	}
	return v, nil
}

func (p *parser) algorithm(key string, n *yaml.Node) (coord.Algorithm, error) {
	const want = "sliding-window, token-bucket or fixed-window"
	name, err := p.text(key, n, want)
	if err != nil {
		return 0, err
	}
	a, err := driver.ParseAlgorithm(name)
	if err != nil {
		return 0, p.bad(key, n, "%s: want %s", show(name), want)
	}
	return a, nil
}
