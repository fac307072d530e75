package envoy

import (
	"context"
	"math"
	"strconv"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// labels say of which rule a figure is: "domain", and "key1", "key2" and so on for its levels, each "key_value" or
// "key".
type labels struct{ set metric.MeasurementOption }

func newLabels(domain string, levels []string) labels {
	return labels{metric.WithAttributeSet(newSet(domain, levels))}
}

func newSet(domain string, levels []string) attribute.Set {
	list := make([]attribute.KeyValue, 0, 1+len(levels))
	list = append(list, attribute.String("domain", domain))
	for i, level := range levels {
		list = append(list, attribute.String("key"+strconv.Itoa(i+1), level))
	}
	return attribute.NewSet(list...)
}

// maxAsked bounds the labels that come from requests: for the SDK of OpenTelemetry takes 2,000 of a counter, and then
// the rules have to have room. maxLevel and maxLevels bound the bytes of a key or value among them, and of all.
const (
	maxAsked  = 1000
	maxLevel  = 64
	maxLevels = 2048
)

// asked are the labels that have come from requests. It is safe for concurrent use.
type asked struct {
	mu   sync.Mutex
	sets map[attribute.Distinct]struct{}
}

// labels are those of levels that come from a request; otherwise if there are too many already.
func (a *asked) labels(domain string, levels []string, otherwise labels) labels {
	bytes := 0
	for _, level := range levels {
		bytes += len(level)
	}
	if bytes > maxLevels {
		return otherwise
	}
	set := newSet(domain, levels)
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.sets[set.Equivalent()]; !ok {
		if len(a.sets) >= maxAsked {
			return otherwise
		}
		a.sets[set.Equivalent()] = struct{}{}
	}
	return labels{metric.WithAttributeSet(set)}
}

// short is a key or a value of a request as labels have it.
func short(text string) string {
	if len(text) <= maxLevel {
		return text
	}
	return strings.ToValidUTF8(text[:maxLevel], "")
}

// stats are the counters of envoyproxy/ratelimit under the names that it has in Prometheus.
type stats struct {
	totalHits, overLimit, nearLimit, withinLimit, shadowMode metric.Int64Counter // of a rule
	notFound, globalShadow, loaded, notLoaded, failed        metric.Int64Counter // of the service

	asked asked
}

func newStats(p metric.MeterProvider) (*stats, error) {
	if p == nil {
		p = noop.NewMeterProvider()
	}
	meter, s := p.Meter("github.com/coordgo/coord/server/envoy"), new(stats)
	s.asked.sets = make(map[attribute.Distinct]struct{})
	for _, c := range []struct {
		to         *metric.Int64Counter
		name, text string
	}{
		{&s.totalHits, "rate_limit.total_hits", "Hits of a rule"},
		{&s.overLimit, "rate_limit.over_limit", "Hits above the limit"},
		{&s.nearLimit, "rate_limit.near_limit", "Hits in the last fifth below the limit"},
		{&s.withinLimit, "rate_limit.within_limit", "Hits of requests within the limit"},
		{&s.shadowMode, "rate_limit.shadow_mode", "Hits above the limit of a rule in shadow mode"},
		{&s.notFound, "rate_limit.domain_not_found", "Descriptors of a domain that no file has"},
		{&s.globalShadow, "global_shadow_mode", "Requests that the shadow mode of the service let in"},
		{&s.loaded, "config_load_success", "Configurations that are in force, or were"},
		{&s.notLoaded, "config_load_error", "Configurations that were refused"},
		{&s.failed, "should_rate_limit_error", "Requests without a decision"},
	} {
		var err error
		if *c.to, err = meter.Int64Counter("ratelimit.service."+c.name, metric.WithDescription(c.text)); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (p *part) add(c metric.Int64Counter, n uint64) {
	if n > 0 {
		c.Add(context.Background(), int64(min(n, math.MaxInt64)), p.stats.set)
	}
}

// hits counts those of a part that has a rule with a limit.
func (s *stats) hits(p *part) {
	if p.rule != nil {
		p.add(s.totalHits, p.hits)
	}
}

// over counts hits that are all above the limit.
func (s *stats) over(p *part) {
	p.add(s.overLimit, p.hits)
	if p.shadow {
		p.add(s.shadowMode, p.hits)
	}
}

// near is from which count on a limit is near: four fifths, as envoyproxy/ratelimit rounds it.
func near(limit uint64) uint64 { return uint64(math.Floor(float64(float32(limit) * 0.8))) }

// counted counts hits that have moved the counter from before to after.
func (s *stats) counted(p *part, limit, before, after uint64) {
	threshold := near(limit)
	switch {
	case after <= limit:
		p.add(s.withinLimit, p.hits)
		if after > threshold {
			p.add(s.nearLimit, after-max(before, threshold))
		}
	case before >= limit:
		s.over(p)
	default:
		p.add(s.overLimit, after-limit)
		p.add(s.nearLimit, limit-max(before, threshold))
		if p.shadow {
			p.add(s.shadowMode, after-limit)
		}
	}
}

func (s *stats) unknownDomain(descriptors int) {
	s.notFound.Add(context.Background(), int64(descriptors))
}

func (s *stats) shadowed() { s.globalShadow.Add(context.Background(), 1) }

// load counts a configuration that is in force from now on, or was refused.
func (s *stats) load(err error) {
	if err != nil {
		s.notLoaded.Add(context.Background(), 1)
		return
	}
	s.loaded.Add(context.Background(), 1)
}

// fail counts a request without a decision: a mistake of the caller, or of the store.
func (s *stats) fail(kind string) {
	s.failed.Add(context.Background(), 1, metric.WithAttributes(attribute.String("err_type", kind)))
}
