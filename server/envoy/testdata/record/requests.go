package main

import (
	"context"
	"strings"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// advance sets the clock on: mostly by nothing, sometimes to the edge of a window.
func (g *gen) advance(c *clock) {
	jump := func(unit int64) {
		next := (c.ms/1000/unit + 1) * unit * 1000
		c.ms = next + pick[int64](-1, 0, 0, 1, -1000)
	}
	was := c.ms
	switch x := r.Float64(); {
	case x < 0.6:
	case x < 0.75:
		c.ms += r.Int63n(300)
	case x < 0.85:
		c.ms += r.Int63n(3000)
	case x < 0.89:
		jump(1)
	case x < 0.93:
		jump(60)
	case x < 0.95:
		jump(3600)
	case x < 0.97:
		jump(86400)
	case x < 0.98:
		jump(pick[int64](7*86400, 30*86400))
	}
	c.ms = max(c.ms, was)
}

// request makes a request, mostly one that the configuration limits.
func (g *gen) request() *pb.RateLimitRequest {
	if chance(0.01) {
		return pick(&pb.RateLimitRequest{}, &pb.RateLimitRequest{Domain: "edge"}, &pb.RateLimitRequest{Descriptors: []*common.RateLimitDescriptor{{}}})
	}
	var domains []string
	for _, d := range []string{"edge", "mesh", "edge.example", "other1", "other2"} {
		if g.domains[d] != nil {
			domains = append(domains, d)
		}
	}
	q := &pb.RateLimitRequest{Domain: pick(domains...)}
	if chance(0.03) {
		q.Domain = "nobody"
	}
	q.HitsAddend = pick[uint32](0, 0, 0, 0, 1, 1, 2, 5)
	if chance(0.01) {
		q.HitsAddend = 1<<32 - 1
	}
	n := pick(1, 1, 2, 2, 3, 4)
	for i := 0; i < n; i++ {
		if i > 0 && chance(0.12) {
			q.Descriptors = append(q.Descriptors, q.Descriptors[i-1])
			continue
		}
		q.Descriptors = append(q.Descriptors, g.descriptor(q.Domain))
	}
	return q
}

// descriptor makes one that the configuration has, or nearly.
func (g *gen) descriptor(domain string) *common.RateLimitDescriptor {
	d := &common.RateLimitDescriptor{}
	list := g.domains[domain]
	if len(list) == 0 {
		list = []*desc{{key: "x"}}
	}
	for depth := 0; depth < 4 && len(list) > 0; depth++ {
		c := pick(list...)
		e := &common.RateLimitDescriptor_Entry{Key: c.key, Value: c.value}
		if c.value == "" || chance(0.15) {
			e.Value = pick("", "ann", "bob", "/a", "/a/b", "zed", "a.b")
		}
		if strings.Contains(c.value, "*") {
			e.Value = strings.ReplaceAll(c.value, "*", pick("", "b", "c/d", "x"))
		}
		if chance(0.05) {
			e.Key = pick("tenant", "user", "other")
			if g.values { // another key that gives the text of a wildcard loses metadata, too
				e.Key = pick("tenant", "user", "other", "path_/a", "user_bob")
			}
		}
		d.Entries = append(d.Entries, e)
		list = c.children
		if chance(0.15) && len(list) == 0 {
			list = []*desc{{key: "more"}}
		}
		if chance(0.3) {
			break
		}
	}
	if chance(0.02) {
		d.Entries = nil
	}
	switch {
	case chance(0.08):
		d.HitsAddend = wrapperspb.UInt64(pick[uint64](0, 0, 1, 2, 3))
	case chance(0.01):
		d.HitsAddend = wrapperspb.UInt64(1 << 40)
	}
	if chance(0.06) {
		units := []typev3.RateLimitUnit{typev3.RateLimitUnit_SECOND, typev3.RateLimitUnit_MINUTE, typev3.RateLimitUnit_HOUR, typev3.RateLimitUnit_DAY, typev3.RateLimitUnit(7), typev3.RateLimitUnit_MONTH, typev3.RateLimitUnit_YEAR}
		u := pick(units...)
		if own := g.unitOf(domain, d); own != "" && chance(0.6) {
			u = typev3.RateLimitUnit(pb.RateLimitResponse_RateLimit_Unit_value[own])
		}
		d.Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: pick[uint32](0, 1, 3, 8, 100), Unit: u}
	}
	return d
}

// unitOf asks the original which rule a descriptor has.
func (g *gen) unitOf(domain string, d *common.RateLimitDescriptor) string {
	if g.cfg == nil {
		return ""
	}
	l := g.cfg.GetLimit(context.Background(), domain, &common.RateLimitDescriptor{Entries: d.Entries})
	if l == nil || l.Unlimited {
		return ""
	}
	return l.Limit.Unit.String()
}
