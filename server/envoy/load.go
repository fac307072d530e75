package envoy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.yaml.in/yaml/v3"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

// File is the content of one configuration file of envoyproxy/ratelimit. Name is for errors.
type File struct {
	Name string
	Text []byte
}

// Rules are the limits of one or more files, by domain. They do not change, and are safe for concurrent use.
type Rules struct{ domains map[string]*domain }

// Parse reads files that envoyproxy/ratelimit reads, and refuses what it refuses. With mergeDomains files may have a
// domain in common; without, that is a mistake. An error is a config.Error: it matches coord.ErrInvalid, and says in
// which line what is wanted.
func Parse(mergeDomains bool, files ...File) (*Rules, error) {
	rules := newRules()
	for _, f := range files {
		if err := rules.add(f, mergeDomains); err != nil {
			return nil, err
		}
	}
	return rules, nil
}

func newRules() *Rules { return &Rules{domains: make(map[string]*domain)} }

// add reads a file. After a mistake a part of it may have been added.
func (r *Rules) add(f File, mergeDomains bool) error {
	l := loader{reader: reader{file: f.Name, left: maxNodes}}
	return l.load(r, f.Text, mergeDomains)
}

// Domains lists the domains in order.
func (r *Rules) Domains() []string { return slices.Sorted(maps.Keys(r.domains)) }

// loader adds a file to Rules.
type loader struct {
	reader
	exact   bool
	ownKeys *yaml.Node // the first key that only counting: exact has
}

// load reads the domain first: what the descriptors come to depends on its counting.
func (l *loader) load(rules *Rules, text []byte, mergeDomains bool) error {
	n, err := l.root(text)
	if err != nil {
		return err
	}
	var name, counting string
	var descriptors *yaml.Node
	err = l.mapping(n, "the file", fields{
		"domain":      l.text(&name, "domain"),
		"counting":    l.text(&counting, "counting"),
		"descriptors": func(n *yaml.Node) error { descriptors = n; return nil },
	})
	switch l.exact = counting == "exact"; {
	case err != nil:
		return err
	case name == "":
		return l.bad(n, "no domain: want the one that Envoy sends")
	case counting != "" && counting != "envoy" && counting != "exact":
		return l.bad(n, "counting: %q: want envoy or exact", counting)
	}
	d, ok := rules.domains[name]
	switch {
	case !ok:
		d = &domain{name: name, exact: l.exact}
		rules.domains[name] = d
	case !mergeDomains:
		return l.bad(n, "domain %q again: want it in one file, or merge_domains: true", name)
	case d.exact != l.exact:
		return l.bad(n, "domain %q with another counting than in the file before: want the same in all", name)
	}
	if descriptors == nil {
		return nil
	}
	if err := l.descriptors(descriptors, &d.node, []string{name}); err != nil {
		return err
	}
	if l.ownKeys != nil && !l.exact {
		return l.bad(l.ownKeys, "a key of counting: exact: want that line in the file, or not this key")
	}
	return nil
}

// descriptors reads a list into the node above it, to which path leads from the domain.
func (l *loader) descriptors(list *yaml.Node, above *node, path []string) error {
	defer l.leave()
	if err := l.enter(list); err != nil {
		return err
	}
	return l.each(list, "descriptors", func(n *yaml.Node) error { return l.descriptor(n, above, path) })
}

func (l *loader) descriptor(n *yaml.Node, above *node, path []string) error {
	var d descriptor
	if err := l.mapping(n, "a descriptor", l.descriptorFields(&d)); err != nil {
		return err
	}
	if d.key == "" {
		return l.bad(n, "a descriptor without key: want one")
	}
	name := levelName(d.key, d.value, false)
	path = append(slices.Clip(path), name)
	below := &node{valueToMetric: d.valueToMetric}
	switch wild := strings.Contains(name, "*"); {
	case above.children[name] != nil:
		return l.bad(n, "descriptor %q again: want each key and value once", strings.Join(path, "."))
	case d.share && !wild:
		return l.bad(n, "share_threshold without a wildcard in %q: want a value with *", name)
	case wild:
		above.wildcards = append(above.wildcards, wildcard{parts: strings.Split(name, "*"), name: name, to: below})
		if d.share {
			below.share = name
		}
	}
	if d.limit != nil {
		rule, err := l.rule(d.limit, &d)
		if err != nil {
			return err
		}
		rule.name, rule.stats = strings.Join(path, "."), newLabels(path[0], path[1:])
		below.rule = rule
	}
	if above.children == nil {
		above.children = make(map[string]*node)
	}
	above.children[name] = below
	if d.children == nil {
		return nil
	}
	return l.descriptors(d.children, below, path)
}

// descriptor is one of a file.
type descriptor struct {
	key, value                                    string
	limit, children                               *yaml.Node
	shadow, quota, detailed, valueToMetric, share bool
	metadata                                      *structpb.Struct
}

func (l *loader) descriptorFields(d *descriptor) fields {
	return fields{
		"key":             l.text(&d.key, "key"),
		"value":           l.text(&d.value, "value"),
		"rate_limit":      func(n *yaml.Node) error { d.limit = n; return nil },
		"descriptors":     func(n *yaml.Node) error { d.children = n; return nil },
		"shadow_mode":     l.flag(&d.shadow, "shadow_mode"),
		"quota_mode":      l.flag(&d.quota, "quota_mode"),
		"detailed_metric": l.flag(&d.detailed, "detailed_metric"),
		"value_to_metric": l.flag(&d.valueToMetric, "value_to_metric"),
		"share_threshold": l.flag(&d.share, "share_threshold"),
		"metadata":        func(n *yaml.Node) error { return l.metadata(n, &d.metadata) },
	}
}

// metadata reads what an answer may carry: anything that JSON can say.
func (l *loader) metadata(n *yaml.Node, to **structpb.Struct) error {
	var m map[string]any
	if err := n.Decode(&m); err != nil {
		return l.bad(n, "metadata: want a mapping with strings as keys")
	}
	if len(m) == 0 {
		return nil
	}
	s, err := structpb.NewStruct(stringKeys(m).(map[string]any))
	if err != nil {
		return l.bad(n, "metadata: a value that JSON cannot say, such as a date: put it into quotes")
	}
	*to = s
	return nil
}

// stringKeys is v with texts as the keys of all mappings in it.
func stringKeys(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = stringKeys(e)
		}
	case map[any]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			m[fmt.Sprint(k)] = stringKeys(e)
		}
		return m
	case []any:
		for i, e := range v {
			v[i] = stringKeys(e)
		}
	}
	return v
}

// limitText is a rate_limit of a file.
type limitText struct {
	unit, name, algorithm, policy string
	requests, burst               uint32
	unlimited                     bool
	replaces                      []string
	lease                         *coord.PermitLease
}

// rule reads rate_limit.
func (l *loader) rule(n *yaml.Node, d *descriptor) (*rule, error) {
	var t limitText
	if err := l.mapping(n, "rate_limit", l.limitFields(&t)); err != nil {
		return nil, err
	}
	u, per, known := parseUnit(t.unit)
	switch {
	case t.unlimited && known:
		return nil, l.bad(n, "unit %q beside unlimited: want one of them", t.unit)
	case !t.unlimited && !known:
		return nil, l.bad(n, "unit %q: want second, minute, hour, day, week, month or year", t.unit)
	}
	for _, name := range t.replaces {
		switch name {
		case "":
			return nil, l.bad(n, "replaces without name: want that of another rate_limit")
		case t.name:
			return nil, l.bad(n, "replaces %q, its own name: want that of another rate_limit", name)
		}
	}
	r := &rule{
		current: &pb.RateLimitResponse_RateLimit{RequestsPerUnit: t.requests, Unit: u, Name: t.name},
		per:     per, unlimited: t.unlimited, replaces: t.replaces,
		shadow: d.shadow, quota: d.quota, detailed: d.detailed, metadata: d.metadata,
	}
	return r, l.own(n, &t, r)
}

// own reads the keys that envoyproxy/ratelimit has not.
func (l *loader) own(n *yaml.Node, t *limitText, r *rule) (err error) {
	switch t.policy {
	case "", "closed", "open":
		r.policy = t.policy
	default:
		return l.bad(n, "failure_policy: %q: want closed or open", t.policy)
	}
	r.algorithm = coord.FixedWindow
	if t.algorithm != "" {
		if r.algorithm, err = driver.ParseAlgorithm(t.algorithm); err != nil {
			return l.bad(n, "algorithm: %q: want sliding-window, token-bucket or fixed-window", t.algorithm)
		}
	}
	r.burst, r.lease = t.burst, t.lease
	if l.exact && !r.unlimited {
		if _, err := r.limit(max(r.current.RequestsPerUnit, 1), r.per).Normal(); err != nil {
			return l.bad(n, "%s", strings.TrimPrefix(err.Error(), coord.ErrInvalid.Error()+": "))
		}
	}
	return nil
}

func (l *loader) limitFields(t *limitText) fields {
	exactly := func(set func(*yaml.Node) error) func(*yaml.Node) error {
		return func(n *yaml.Node) error {
			if l.ownKeys == nil {
				l.ownKeys = n
			}
			return set(n)
		}
	}
	return fields{
		"unit":              l.text(&t.unit, "unit"),
		"requests_per_unit": l.count(&t.requests, "requests_per_unit", 0, maxRequests),
		"unlimited":         l.flag(&t.unlimited, "unlimited"),
		"name":              l.text(&t.name, "name"),
		"replaces":          func(n *yaml.Node) error { return l.replaces(n, &t.replaces) },
		"failure_policy":    l.text(&t.policy, "failure_policy"),
		"algorithm":         exactly(l.text(&t.algorithm, "algorithm")),
		"burst":             exactly(l.count(&t.burst, "burst", 1, maxRequests)),
		"lease":             exactly(func(n *yaml.Node) error { return l.lease(n, &t.lease) }),
	}
}

func (l *loader) replaces(n *yaml.Node, to *[]string) error {
	return l.each(n, "replaces", func(n *yaml.Node) error {
		var name string
		err := l.mapping(n, "replaces", fields{"name": l.text(&name, "name")})
		*to = append(*to, name)
		return err
	})
}

// String shows the rules for people: one line for each, in order.
func (r *Rules) String() string {
	var b strings.Builder
	for _, name := range r.Domains() {
		r.domains[name].walk(func(r *rule) {
			fmt.Fprintf(&b, "%s: %d a %s\n", r.name, r.current.RequestsPerUnit, strings.ToLower(r.current.Unit.String()))
		})
	}
	return b.String()
}

// walk gives the rules in order.
func (n *node) walk(do func(*rule)) {
	if n.rule != nil {
		do(n.rule)
	}
	for _, key := range slices.Sorted(maps.Keys(n.children)) {
		n.children[key].walk(do)
	}
}
