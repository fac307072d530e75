package envoy

import (
	"strings"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/coordgo/coord"
)

// domain is the root of its descriptors.
type domain struct {
	name  string
	exact bool
	node
}

// node is a descriptor of the configuration. Its children are under "key" or "key_value": as in envoyproxy/ratelimit,
// these texts are what matches.
type node struct {
	children      map[string]*node
	wildcards     []wildcard // in the order of the file
	rule          *rule      // nil: there is no rate_limit here
	valueToMetric bool
	share         string // the pattern of share_threshold
}

// wildcard is a child whose name has a '*'.
type wildcard struct {
	parts []string // between the stars
	name  string
	to    *node
}

// rule is a rate_limit.
type rule struct {
	name                               string // "domain.key_value.key"
	stats                              labels
	current                            *pb.RateLimitResponse_RateLimit // nobody changes it
	per                                time.Duration
	unlimited, shadow, quota, detailed bool
	replaces                           []string
	metadata                           *structpb.Struct
	policy                             string // when the store is away: "closed", "open", or what the client has
	algorithm                          coord.Algorithm
	burst                              uint32
	lease                              *coord.PermitLease // nil: no permits are taken in advance
}

// limit is the rule as coord has it, with another rate if the request says so.
func (r *rule) limit(requests uint32, per time.Duration) coord.Limit {
	return coord.Limit{Rate: int(requests), Per: per, Algorithm: r.algorithm, Burst: int(r.burst)}
}

// found is what a descriptor of a request came to.
type found struct {
	*rule           // nil: nothing limits it
	shared []string // of each entry the pattern that is counted in place of its value, or ""; nil: none has one
	stats  labels
}

// override is the rule that a request brings with it.
func (d *domain) override(rd *common.RateLimitDescriptor, asked *asked) (found, error) {
	u := unit(rd.GetLimit().GetUnit())
	per, ok := periods[u]
	if !ok {
		return found{}, invalid("limit: unit %d: want one from SECOND to YEAR", u)
	}
	if rd.Limit.RequestsPerUnit > maxRequests {
		return found{}, invalid("limit: %d requests: want at most %d", rd.Limit.RequestsPerUnit, uint32(maxRequests))
	}
	stats := asked.labels(d.name, overrideNames(rd.Entries), newLabels(d.name, []string{"other"}))
	r := &rule{
		current: &pb.RateLimitResponse_RateLimit{RequestsPerUnit: rd.Limit.RequestsPerUnit, Unit: u},
		per:     per, algorithm: coord.FixedWindow, stats: stats,
	}
	return found{rule: r, stats: stats}, nil
}

// overrideNames are the levels of a descriptor in statistics: its keys.
func overrideNames(entries []*common.RateLimitDescriptor_Entry) []string {
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = short(e.Key)
	}
	return names
}

// levelName is "key_value", and "key" where there is no value, unless the '_' is always there.
func levelName(key, value string, always bool) string {
	if value == "" && !always {
		return key
	}
	return key + "_" + value
}

// match finds the rule of a descriptor: the node that its entries lead to, one level each.
func (d *domain) match(rd *common.RateLimitDescriptor, asked *asked) (f found, err error) {
	if rd.GetLimit() != nil {
		return d.override(rd, asked)
	}
	entries := rd.GetEntries()
	at, steps := &d.node, make([]step, 0, 8)
	for i, e := range entries {
		s := at.step(e)
		if s.to == nil {
			return found{}, nil
		}
		if steps = append(steps, s); s.to.share != "" && s.wild != "" {
			if f.shared == nil {
				f.shared = make([]string, len(entries))
			}
			f.shared[i] = valueOf(s.to.share, e.Key)
		}
		at = s.to
	}
	if len(entries) == 0 || at.rule == nil {
		return found{}, nil
	}
	f.rule, f.stats = at.rule, at.rule.stats
	if names := statNames(entries, steps, &f); names != nil {
		f.stats = asked.labels(d.name, names, f.stats)
	}
	return f, nil
}

// step is from a node to a child.
type step struct {
	to    *node
	wild  string // the name of the wildcard that matched
	exact bool   // the child has the key and the value
}

// step looks for the key with its value, then for the first wildcard that matches both, then for the key alone.
func (n *node) step(e *common.RateLimitDescriptor_Entry) step {
	name := e.Key + "_" + e.Value
	if to := n.children[name]; to != nil {
		return step{to: to, exact: true}
	}
	for i := range n.wildcards {
		if w := &n.wildcards[i]; w.matches(name) {
			return step{to: w.to, wild: w.name}
		}
	}
	return step{to: n.children[e.Key]}
}

// matches reports whether name has the parts of the wildcard in their order, with anything or nothing between them.
func (w *wildcard) matches(name string) bool {
	first, last := w.parts[0], w.parts[len(w.parts)-1]
	if len(name) < len(first)+len(last) || !strings.HasPrefix(name, first) || !strings.HasSuffix(name, last) {
		return false
	}
	rest := name[len(first) : len(name)-len(last)]
	for _, part := range w.parts[1 : len(w.parts)-1] {
		_, after, ok := strings.Cut(rest, part)
		if !ok {
			return false
		}
		rest = after
	}
	return true
}

// valueOf is the part of a pattern behind the key.
func valueOf(pattern, key string) string { return strings.TrimPrefix(pattern, key+"_") }

// statNames are the levels in statistics where values of the request are part of them; nil where they are the rule's.
func statNames(entries []*common.RateLimitDescriptor_Entry, steps []step, f *found) []string {
	values := f.detailed
	for i, s := range steps {
		values = values || s.to.valueToMetric || s.wild != "" && !strings.HasPrefix(s.wild, entries[i].Key+"_")
	}
	if !values {
		return nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		value := steps[i].value(e)
		switch {
		case f.shared != nil && f.shared[i] != "":
			value = f.shared[i]
		case f.detailed:
			value = e.Value
		}
		names[i] = levelName(short(e.Key), short(value), f.detailed && f.shared == nil)
	}
	return names
}

// value is what an entry adds to the name under value_to_metric.
func (s step) value(e *common.RateLimitDescriptor_Entry) string {
	switch {
	case s.exact || s.to.valueToMetric:
		return e.Value
	case s.wild != "":
		return valueOf(s.wild, e.Key)
	}
	return ""
}
