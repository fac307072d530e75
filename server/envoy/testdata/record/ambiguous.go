package main

import (
	"fmt"
	"strconv"
	"strings"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// unambiguous reports whether each counter of the request has a key of its own in Redis: the service makes one key of
// different descriptors, and of windows of different units that begin together.
func unambiguous(q *pb.RateLimitRequest, now int64, g *gen, seen map[string]string) bool {
	add := map[string]string{}
	for _, d := range q.Descriptors {
		units := []int64{1, 60, 3600, 86400, 604800, 2592000, 31536000}
		which := g.unitOf(q.Domain, d)
		if d.Limit != nil {
			which = pb.RateLimitResponse_RateLimit_Unit(d.Limit.Unit).String()
		}
		for i, name := range []string{"SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "YEAR"} {
			if name != which {
				continue
			}
			var raw, own strings.Builder
			raw.WriteString(q.Domain)
			for _, e := range d.Entries {
				raw.WriteString("_" + e.Key + "_" + e.Value)
				own.WriteString(strconv.Quote(e.Key) + strconv.Quote(e.Value))
			}
			k := raw.String() + fmt.Sprint(now/units[i]*units[i])
			v := own.String() + name
			if o, ok := seen[k]; ok && o != v {
				return false
			}
			if o, ok := add[k]; ok && o != v {
				return false
			}
			add[k] = v
		}
	}
	for k, v := range add {
		seen[k] = v
	}
	return true
}
