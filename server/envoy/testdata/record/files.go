package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/envoyproxy/ratelimit/src/config"
)

// desc is a descriptor of the configuration.
type desc struct {
	key, value, unit string
	children         []*desc
}

// gen makes configurations and requests for them.
type gen struct {
	metadata bool
	values   bool // there may be value_to_metric and detailed_metric, with which the service loses metadata
	domains  map[string][]*desc
	count    int
	cfg      config.RateLimitConfig
}

func pick[T any](list ...T) T { return list[r.Intn(len(list))] }

// files writes the configuration.
func (g *gen) files(s *scenario, mutated bool) {
	g.domains = map[string][]*desc{}
	g.values = !g.metadata
	n := pick(1, 1, 1, 2, 3)
	for i := 0; i < n; i++ {
		domain := pick("edge", "mesh", "edge.example")
		if g.domains[domain] != nil && !s.Merge && !(mutated && chance(0.3)) {
			domain = fmt.Sprint("other", i)
		}
		var b strings.Builder
		if chance(0.1) {
			b.WriteString("# limits\n---\n")
		}
		fmt.Fprintf(&b, "domain: %s\n", domain)
		list := g.list(&b, "", 0, g.domains[domain])
		g.domains[domain] = append(g.domains[domain], list...)
		text := b.String()
		if mutated && chance(0.8) {
			text = mutate(text)
		}
		s.Files = append(s.Files, text)
	}
}

// list writes descriptors, none of which is among those before.
func (g *gen) list(b *strings.Builder, indent string, depth int, before []*desc) (list []*desc) {
	n := 1 + r.Intn(4)
	b.WriteString(indent + "descriptors:\n")
	for i := 0; i < n; i++ {
		d := &desc{key: pick("tenant", "path", "user", "path", "method")}
		if chance(0.65) {
			d.value = pick(known("ann", "bob", "/a", "/a/b", "/a/b/c", "/a*", "*b", "/*/c", "*", "7", "a.b", "GET", "a_b", "/a*b*")...)
		}
		dup := false
		for _, o := range append(before[:len(before):len(before)], list...) {
			dup = dup || o.key == d.key && o.value == d.value
		}
		if dup {
			continue
		}
		fmt.Fprintf(b, "%s  - key: %s\n", indent, d.key)
		in := indent + "    "
		if d.value != "" {
			v := d.value
			if v != "7" && chance(0.5) || strings.Contains(v, "*") {
				v = strconv.Quote(v)
			}
			fmt.Fprintf(b, "%svalue: %s\n", in, v)
		}
		if chance(0.75) {
			g.limit(b, in, d)
		}
		flag := func(name string, p float64) bool {
			if chance(p) {
				fmt.Fprintf(b, "%s%s: %s\n", in, name, pick("true", "true", "yes", "false", "on"))
				return true
			}
			return false
		}
		flag("shadow_mode", 0.12)
		flag("quota_mode", 0.15)
		if g.values {
			flag("detailed_metric", 0.15)
			flag("value_to_metric", 0.15)
		}
		if strings.Contains(d.value, "*") {
			flag("share_threshold", 0.4)
		}
		if g.metadata && chance(0.4) {
			g.count++
			fmt.Fprintf(b, "%smetadata:\n%s  m%d: {a: 1, b: [x, 2.5, true, null], c: {d: text}}\n%s  same: v%d\n", in, in, g.count, in, g.count)
		}
		list = append(list, d)
		if depth < 2 && chance(0.45) {
			d.children = g.list(b, in, depth+1, nil)
		}
	}
	if len(list) == 0 {
		d := &desc{key: fmt.Sprint("only", depth)}
		fmt.Fprintf(b, "%s  - key: %s\n", indent, d.key)
		list = append(list, d)
	}
	return list
}

// limit writes a rate_limit.
func (g *gen) limit(b *strings.Builder, in string, d *desc) {
	b.WriteString(in + "rate_limit:\n")
	in += "  "
	if chance(0.3) {
		name := fmt.Sprint("n", r.Intn(5))
		fmt.Fprintf(b, "%sname: %s\n", in, name)
		if chance(0.4) {
			other := fmt.Sprint("n", r.Intn(5))
			if other != name {
				fmt.Fprintf(b, "%sreplaces:\n%s  - name: %s\n", in, in, other)
			}
		}
	}
	if chance(0.1) {
		fmt.Fprintf(b, "%sunlimited: true\n", in)
		return
	}
	d.unit = pick("second", "second", "minute", "hour", "day", "week", "month", "year")
	u := d.unit
	if chance(0.1) {
		u = strings.ToUpper(u)
	}
	fmt.Fprintf(b, "%sunit: %s\n", in, u)
	fmt.Fprintf(b, "%srequests_per_unit: %s\n", in, pick("0", "1", "2", "3", "5", "7", "10", "10", "20", "4294967295", "0x0a", "1_0"))
}
