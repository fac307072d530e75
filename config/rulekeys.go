package config

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/rules"
)

// maxRules bounds a chain.
const maxRules = 256

// maxName bounds the names of limits, rules, headers and constants, in bytes.
const maxName = 100

// badName says what keeps s from being a name; "" if nothing does.
func badName(s string) string {
	bad := func(c rune) bool { return !unicode.IsPrint(c) }
	if s == "" || len(s) > maxName || !utf8.ValidString(s) || strings.ContainsFunc(s, bad) {
		return "name " + show(s) + ": want 1 to " + strconv.Itoa(maxName) + " bytes of printable UTF-8"
	}
	return ""
}

// rules reads the chain.
func (p *parser) rules(path string, n *yaml.Node, c *Config) error {
	switch {
	case n.Kind != yaml.SequenceNode || n.ShortTag() != "!!seq":
		return p.bad(path, n, "%s: want a list of rules", kind(n))
	case len(n.Content) > maxRules:
		return p.bad(path, n.Content[maxRules], "%d rules: want at most %d", len(n.Content), maxRules)
	}
	r := ruleReader{parser: p, config: c, lines: make(map[string]int)}
	list := make([]rules.Rule, 0, len(n.Content))
	var wrong mistakes
	for i, item := range n.Content {
		rule, err := r.rule(path+"["+strconv.Itoa(i+1)+"]", item)
		wrong.add(err)
		list = append(list, rule)
	}
	if err := wrong.err(); err != nil {
		return err
	}
	var err error
	if c.Rules, err = rules.New(list...); err != nil {
		return p.bad(path, n, "%s", reason(err))
	}
	return nil
}

// ruleReader reads the rules of one chain.
type ruleReader struct {
	*parser
	config *Config
	lines  map[string]int // of the rules so far, by name
	end    string         // the rule after which none applies
	total  int            // limits so far
}

// rule reads one. Its key is its place in the list until its name is known.
func (r *ruleReader) rule(path string, n *yaml.Node) (rule rules.Rule, err error) {
	var limits, subject *yaml.Node
	name := path
	if rule.Name, err = r.name(path, n); err == nil && rule.Name != "" {
		name = join("rules", rule.Name)
	}
	err = r.mapping(name, n, []field{
		{"name", func(string, *yaml.Node) error { return err }},
		{"match", func(key string, n *yaml.Node) (err error) { rule.Match, err = r.match(key, n); return err }},
		{"subject", func(key string, n *yaml.Node) (err error) {
			subject = n
			rule.Subject, err = r.subject(key, n)
			return err
		}},
		{"limits", func(key string, n *yaml.Node) (err error) {
			limits = n
			rule.Limits, err = r.limits(key, n)
			return err
		}},
		{"cost", func(key string, n *yaml.Node) (err error) {
			rule.Cost, err = r.number(key, n, driver.MaxRate)
			return err
		}},
		{"failure_policy", func(key string, n *yaml.Node) error {
			rule.FailurePolicy = new(coord.FailurePolicy)
			return r.policy(key, n, rule.FailurePolicy)
		}},
		{"final", func(key string, n *yaml.Node) (err error) { rule.Final, err = r.boolean(key, n); return err }},
		{"shadow", func(key string, n *yaml.Node) (err error) { rule.Shadow, err = r.boolean(key, n); return err }},
	})
	switch {
	case err != nil:
		return rule, err
	case rule.Name == "":
		return rule, r.bad(name, n, "no name: want one, which also tells the store's accounts of the rule from others'")
	case r.end != "":
		return rule, r.bad(name, n, "never applies: rule %s on line %d is final and matches everything", show(r.end), r.lines[r.end])
	case len(rule.Limits) == 0 && !rule.Final:
		return rule, r.bad(name, n, "neither limits nor final: true: it does nothing")
	case rule.Shadow && rule.Final:
		return rule, r.bad(name, n, "shadow: true and final: true: want one of the two")
	}
	if problem := refused(rules.Rule{Name: "x", Match: rule.Match, Subject: rule.Subject, Final: true}); problem != "" {
		return rule, r.bad(join(name, "subject"), subject, "%s", problem)
	}
	if problem := refused(rule); problem != "" {
		return rule, r.bad(join(name, "limits"), limits, "%s", problem)
	}
	r.lines[rule.Name] = n.Line
	r.note(name, n.Line)
	if rule.Final && matchesAll(rule.Match) {
		r.end = rule.Name
	}
	return rule, nil
}

// name reads the name of a rule before the rest; "" if there is none.
func (r *ruleReader) name(path string, n *yaml.Node) (string, error) {
	if n.Kind != yaml.MappingNode {
		return "", nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value != "name" {
			continue
		}
		value := n.Content[i+1]
		name, err := r.text(join(path, "name"), value, "a name such as orders")
		if err != nil {
			return "", err
		}
		if problem := badName(name); problem != "" {
			return "", r.bad(path, value, "%s", problem)
		}
		if line, ok := r.lines[name]; ok {
			return "", r.bad(join(path, "name"), value, "%s again: it is on line %d", show(name), line)
		}
		return name, nil
	}
	return "", nil
}

func matchesAll(m rules.Match) bool {
	return len(m.Methods) == 0 && m.Path == "" && m.RPC == "" && len(m.Networks) == 0 && len(m.ExceptNetworks) == 0
}

// refused says what package rules has against a rule; "" if nothing.
func refused(r rules.Rule) string {
	_, err := rules.New(r)
	if err == nil {
		return ""
	}
	return strings.TrimPrefix(reason(err), "rule "+strconv.Quote(r.Name)+": ")
}

// match reads which requests a rule is about, and asks package rules of each value by
// itself, so that a mistake is told with its line.
func (r *ruleReader) match(path string, n *yaml.Node) (m rules.Match, err error) {
	try := func(key string, n *yaml.Node, m rules.Match) error {
		if strings.Contains(n.Value, "://") {
			return r.bad(key, n, "%s: want no URL", show(n.Value))
		}
		if problem := refused(rules.Rule{Name: "x", Match: m, Final: true}); problem != "" {
			return r.bad(key, n, "%s", problem)
		}
		return nil
	}
	err = r.mapping(path, n, []field{
		{"methods", func(key string, n *yaml.Node) error {
			return r.list(key, n, "a list such as [GET, POST]", func(item *yaml.Node) error {
				method, err := r.text(key, item, "a method such as GET")
				switch {
				case err != nil:
					return err
				case slices.Contains(m.Methods, method):
					return r.bad(key, item, "%s again", show(method))
				}
				m.Methods = append(m.Methods, method)
				return try(key, item, rules.Match{Methods: []string{method}})
			})
		}},
		{"path", func(key string, n *yaml.Node) (err error) {
			if m.Path, err = r.pattern(key, n, "a pattern such as /orders/{id}"); err != nil {
				return err
			}
			return try(key, n, rules.Match{Path: m.Path})
		}},
		{"exact_slash", func(key string, n *yaml.Node) (err error) { m.ExactSlash, err = r.boolean(key, n); return err }},
		{"rpc", func(key string, n *yaml.Node) (err error) {
			if m.RPC, err = r.pattern(key, n, "a pattern such as /shop.Orders/*"); err != nil {
				return err
			}
			return try(key, n, rules.Match{RPC: m.RPC})
		}},
		{"networks", func(key string, n *yaml.Node) error { return r.networks(key, n, &m.Networks) }},
		{"except_networks", func(key string, n *yaml.Node) error { return r.networks(key, n, &m.ExceptNetworks) }},
	})
	if err == nil {
		err = try(path, n, m)
	}
	return m, err
}

// pattern reads a string that is not empty.
func (r *ruleReader) pattern(key string, n *yaml.Node, want string) (string, error) {
	s, err := r.text(key, n, want)
	if err == nil && s == "" {
		err = r.bad(key, n, "%s: want %s, or leave it out", show(s), want)
	}
	return s, err
}

// list reads the items of a list, of which there is at least one.
func (p *parser) list(key string, n *yaml.Node, want string, item func(*yaml.Node) error) error {
	if n.Kind != yaml.SequenceNode || n.ShortTag() != "!!seq" {
		return p.bad(key, n, "%s: want %s", kind(n), want)
	}
	if len(n.Content) == 0 {
		return p.bad(key, n, "an empty list: want %s, or leave it out", want)
	}
	var wrong mistakes
	for _, i := range n.Content {
		wrong.add(item(i))
	}
	return wrong.err()
}

// subjects are those that are a word, and those that are a mapping of one key.
const subjects = "everyone, ip, user, or one of {ip: {ipv6_bits: 56}}, {header: NAME}, {api_key: HEADER}, {cookie: NAME}, {path: NAME}, {constant: NAME}, {func: NAME}"

// combination is what a list of subjects is to be.
const combination = "a list of 2 to 4 different subjects, such as [user, {header: X-Tenant}]"

// subject reads whose requests are counted together.
func (r *ruleReader) subject(path string, n *yaml.Node) (s rules.Subject, err error) {
	switch n.Kind {
	case yaml.MappingNode:
		return r.subjectMap(path, n)
	case yaml.SequenceNode:
		return r.combination(path, n)
	}
	word, err := r.text(path, n, subjects)
	if err != nil {
		return s, err
	}
	switch word {
	case "everyone":
		return rules.Everyone(), nil
	case "ip":
		return rules.IP(), nil
	case "user":
		return rules.User(), nil
	}
	return s, r.bad(path, n, "%s: want %s", show(word), subjects)
}

// combination reads several subjects that count together.
func (r *ruleReader) combination(path string, n *yaml.Node) (rules.Subject, error) {
	var parts []rules.Subject
	err := r.list(path, n, combination, func(item *yaml.Node) error {
		if item.Kind == yaml.SequenceNode {
			return r.bad(path, item, "a list in a list: want %s", combination)
		}
		part, err := r.subject(path, item)
		parts = append(parts, part)
		return err
	})
	if err != nil {
		return rules.Subject{}, err
	}
	s := rules.Combine(parts...)
	if problem := refused(rules.Rule{Name: "x", Match: anyPath(parts), Subject: s, Final: true}); problem != "" {
		return s, r.bad(path, n, "%s", problem)
	}
	return s, nil
}

// anyPath has the variables that subjects name: whether the rule's path has them is seen when it has been read.
func anyPath(subjects []rules.Subject) (m rules.Match) {
	for _, s := range subjects {
		if s.Kind == rules.KindPath && !strings.Contains(m.Path, "{"+s.Name+"}") {
			m.Path += "/{" + s.Name + "}"
		}
	}
	return m
}

func (r *ruleReader) subjectMap(path string, n *yaml.Node) (s rules.Subject, err error) {
	named := func(make func(string) rules.Subject) func(string, *yaml.Node) error {
		return func(key string, n *yaml.Node) error {
			name, err := r.text(key, n, "a name")
			if err != nil {
				return err
			}
			if problem := badName(name); problem != "" {
				return r.bad(key, n, "%s", problem)
			}
			s = make(name)
			if problem := refused(rules.Rule{Name: "x", Match: anyPath([]rules.Subject{s}), Subject: s, Final: true}); problem != "" {
				return r.bad(key, n, "%s", problem)
			}
			return nil
		}
	}
	err = r.mapping(path, n, []field{
		{"ip", func(key string, n *yaml.Node) (err error) { s, err = r.address(key, n); return err }},
		{"header", named(rules.Header)},
		{"api_key", named(rules.APIKey)},
		{"cookie", named(rules.Cookie)},
		{"path", named(rules.PathValue)},
		{"func", named(rules.Func)},
		{"constant", named(rules.Constant)},
	})
	if err == nil && len(n.Content) != 2 {
		err = r.bad(path, n, "%d keys: want %s", len(n.Content)/2, subjects)
	}
	return s, err
}

// address reads how much of an IPv6 address counts.
func (r *ruleReader) address(path string, n *yaml.Node) (rules.Subject, error) {
	s := rules.IP()
	err := r.mapping(path, n, []field{
		{"ipv6_bits", func(key string, n *yaml.Node) (err error) { s.IPv6Bits, err = r.number(key, n, 128); return err }},
	})
	return s, err
}

// limits reads those of a rule: names of limits of the file, and limits.
func (r *ruleReader) limits(key string, n *yaml.Node) ([]rules.Limit, error) {
	var list []rules.Limit
	err := r.list(key, n, "a list such as [5/1s, 1000/1h] or of names of limits", func(item *yaml.Node) error {
		if r.total++; r.total > coord.MaxDemands {
			return r.bad(key, item, "more than %d limits in all rules", coord.MaxDemands)
		}
		l, err := r.limit(key, item)
		list = append(list, l)
		return err
	})
	return list, err
}

// limit reads one. A named one is an account that rules share.
func (r *ruleReader) limit(key string, n *yaml.Node) (rules.Limit, error) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" {
		if l, ok := r.config.Limits[n.Value]; ok {
			return rules.Limit{Name: n.Value, Limit: l}, nil
		}
		if r.broken[""] || r.broken[n.Value] { // which is told there
			return rules.Limit{Name: n.Value, Limit: coord.PerSecond(1)}, nil
		}
		if _, err := driver.ParseLimit(n.Value); err != nil && !strings.Contains(n.Value, "/") {
			return rules.Limit{}, r.bad(key, n, "%s", r.config.noLimit(n.Value))
		}
	}
	l, err := r.parser.limit(key, n)
	return rules.Limit{Limit: l}, err
}
