package envoy

import (
	"strings"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// unit is a unit of time of the protocol. Those of the answer and of the override in a request have the same numbers.
type unit = pb.RateLimitResponse_RateLimit_Unit

const day = 24 * time.Hour

// periods are how long the units are.
var periods = map[unit]time.Duration{
	pb.RateLimitResponse_RateLimit_SECOND: time.Second,
	pb.RateLimitResponse_RateLimit_MINUTE: time.Minute,
	pb.RateLimitResponse_RateLimit_HOUR:   time.Hour,
	pb.RateLimitResponse_RateLimit_DAY:    day,
	pb.RateLimitResponse_RateLimit_WEEK:   7 * day,
	pb.RateLimitResponse_RateLimit_MONTH:  30 * day,
	pb.RateLimitResponse_RateLimit_YEAR:   365 * day,
}

// parseUnit reads the name of a unit, in letters of any case.
func parseUnit(name string) (u unit, per time.Duration, ok bool) {
	u = unit(pb.RateLimitResponse_RateLimit_Unit_value[strings.ToUpper(name)])
	per, ok = periods[u]
	return u, per, ok
}

// untilNext is how long the window of now still lasts.
func untilNext(now time.Time, per time.Duration) time.Duration {
	since := now.UnixNano() % int64(per)
	return per - time.Duration(since)
}

// seconds is d in whole seconds, so that nobody comes back too early.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
