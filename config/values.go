package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/rules"
)

// Value is what is in force for one key. It shows no secret.
type Value struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	// From says where the value is from: "coord.yaml:3", "COORD_URL", or "default".
	From string `json:"from"`
}

// Values lists what is in force, key by key: limits by name and rules in order.
func (c *Config) Values() []Value {
	list := c.fixed()
	for _, name := range slices.Sorted(maps.Keys(c.Limits)) {
		text := c.Limits[name].String()
		if lease, ok := c.Leases[name]; ok {
			text += describeLease(lease)
		}
		list = append(list, c.value("limits."+name, text))
	}
	list = append(list, c.serveValues()...)
	if c.Rules == nil { // a Config that nothing has loaded
		return list
	}
	for _, r := range c.Rules.Rules() {
		list = append(list, c.value("rules."+r.Name, describeRule(r)))
	}
	return list
}

// Format prints the values, whatever the verb, so that no secret is ever printed.
func (c Config) Format(f fmt.State, _ rune) {
	for i, v := range c.Values() {
		fmt.Fprintf(f, "%s%s: %s", []string{"", "; "}[min(i, 1)], v.Key, v.Value)
	}
}

// fixed are the values that a Client keeps as they were when it was opened.
func (c *Config) fixed() []Value {
	var list []Value
	add := func(key, text string) { list = append(list, c.value(key, text)) }
	for i, u := range c.Quorum {
		add(join("quorum", strconv.Itoa(i)), u.String())
	}
	if c.LocksURL == "" {
		add("url", or(c.URL.String(), "none"))
	} else {
		add("url.locks", c.LocksURL.String())
		add("url.limits", c.LimitsURL.String())
	}
	add("prefix", or(c.Prefix, "none"))
	add("require", or(joinClaims(c.Require), "none"))
	add("failure_policy", describePolicy(c.FailurePolicy))
	add("best_effort", strconv.FormatBool(c.BestEffort))
	add("overrides", strconv.FormatBool(c.Overrides))
	add("lock.ttl", or(duration(c.Lock.TTL), coord.DefaultTTL.String()))
	add("lock.wait", or(duration(c.Lock.Wait), "unbounded"))
	add("lock.max_hold", or(duration(c.Lock.MaxHold), "unbounded"))
	add("lock.min_hold", or(duration(c.Lock.MinHold), "none"))
	add("lock.fair", strconv.FormatBool(c.Lock.Fair))
	add("lock.renew", strconv.FormatBool(!c.Lock.NoRenew))
	return list
}

func (c *Config) value(key, text string) Value {
	return Value{Key: key, Value: text, From: c.places[key].String()}
}

func or(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

func duration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

func joinClaims(claims []driver.Claim) string {
	names := make([]string, len(claims))
	for i, c := range claims {
		names[i] = string(c)
	}
	return strings.Join(names, ", ")
}

// describeRule is a rule in one line: "POST /orders/ by user: 5/1s, supplier (2000/1m)".
func describeRule(r rules.Rule) string {
	var parts []string
	if len(r.Match.Methods) > 0 {
		parts = append(parts, strings.Join(r.Match.Methods, ","))
	}
	switch {
	case r.Match.Path != "":
		parts = append(parts, r.Match.Path)
		if r.Match.ExactSlash {
			parts = append(parts, "(exact slash)")
		}
	case r.Match.RPC != "":
		parts = append(parts, "RPC "+r.Match.RPC)
	case len(parts) == 0:
		parts = append(parts, "everything")
	}
	for _, p := range r.Match.Networks {
		parts = append(parts, "from "+p.String())
	}
	for _, p := range r.Match.ExceptNetworks {
		parts = append(parts, "except "+p.String())
	}
	limits := make([]string, len(r.Limits))
	for i, l := range r.Limits {
		if limits[i] = l.Limit.String(); l.Name != "" {
			limits[i] = fmt.Sprintf("%s (%s)", l.Name, l.Limit)
		}
	}
	if len(limits) > 0 {
		parts = append(parts, "by", describeSubject(r.Subject)+":", strings.Join(limits, ", "))
	}
	if r.Cost > 1 {
		parts = append(parts, fmt.Sprintf("(cost %d)", r.Cost))
	}
	if p := r.FailurePolicy; p != nil {
		parts = append(parts, "(failure_policy "+describePolicy(*p)+")")
	}
	if r.Shadow {
		parts = append(parts, "(shadow)")
	}
	if r.Final {
		parts = append(parts, "(final)")
	}
	return strings.Join(parts, " ")
}

func describeSubject(s rules.Subject) string {
	switch {
	case s.Kind == rules.KindEveryone:
		return "everyone"
	case s.Kind == rules.KindCombined:
		parts := make([]string, len(s.Parts))
		for i, p := range s.Parts {
			parts[i] = describeSubject(p)
		}
		return strings.Join(parts, " + ")
	case s.IPv6Bits > 0:
		return fmt.Sprintf("%s/%d", s.Kind, s.IPv6Bits)
	case s.Name != "":
		return fmt.Sprintf("%s %s", s.Kind, s.Name)
	}
	return string(s.Kind)
}

func describePolicy(p coord.FailurePolicy) string {
	return map[coord.FailurePolicy]string{coord.FailClosed: "closed", coord.FailOpen: "open"}[p]
}
