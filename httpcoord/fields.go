package httpcoord

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/rules"
)

// Fields is a version of the response fields that tell a client of its limits. They are
// still a draft, whose meaning has changed before: a service that promises one to its clients
// should name it.
type Fields int

const (
	// Latest is the newest version there is here: Draft11.
	Latest Fields = iota
	// NoFields leaves them out. Retry-After stays.
	NoFields
	// Draft11 is RateLimit-Policy and RateLimit of
	// draft-ietf-httpapi-ratelimit-headers-11 (May 2026), in the syntax of structured
	// fields (RFC 9651).
	Draft11
)

const (
	policyField = "Ratelimit-Policy" // in the form of http.Header
	limitField  = "Ratelimit"
	shadowField = "Coord-Shadow"
)

// Write adds the fields for what d says to h. Remaining permits are left out where
// they are not known. Coord-Shadow lists the rules in shadow mode that would have denied the request.
func (f Fields) Write(h http.Header, d *rules.Decision) {
	if f == NoFields {
		return
	}
	if shadow := deniedInShadow(d); shadow != nil {
		h.Add(shadowField, string(shadow))
	}
	if len(d.Bounds) == 0 {
		return
	}
	var policy, limit []byte
	for i := range d.Bounds {
		b, name := &d.Bounds[i], policyName(d.Bounds, i)
		policy = appendPolicy(policy, name, b.Demand.Limit)
		if known(&b.Result) {
			limit = appendLimit(limit, name, &b.Result, d.Allowed)
		}
	}
	h.Add(policyField, string(policy))
	if limit != nil {
		h.Add(limitField, string(limit))
	}
}

// deniedInShadow lists the rules in shadow mode that would have denied a request.
func deniedInShadow(d *rules.Decision) (list []byte) {
	for i := range d.Shadow {
		if d.Shadow[i].Denied() {
			list = appendName(list, d.Shadow[i].Rule)
		}
	}
	return list
}

// known reports whether the store has told how many permits remain.
func known(r *coord.Result) bool { return r.Degraded == nil && r.Remaining >= 0 }

// appendPolicy writes one policy (part 3 of the draft): the quota q in a window of w
// seconds. A window that is not of whole seconds cannot be told. The
// burst of a token bucket has no parameter in the draft, so it has one of our own.
func appendPolicy(b []byte, name string, l coord.Limit) []byte {
	b = appendName(b, name)
	b = appendInt(b, ";q=", int64(l.Rate))
	if l.Per%time.Second == 0 {
		b = appendInt(b, ";w=", int64(l.Per/time.Second))
	}
	if l.Burst > 0 && l.Burst != l.Rate {
		b = appendInt(b, ";coord-burst=", int64(l.Burst))
	}
	return b
}

// appendLimit writes one service limit (part 4): r permits, and the t seconds within which
// no more than these can be counted on. After a denial that is the time until the
// request can succeed, so that Retry-After does not end before it; of limits that
// did not stand in the way it is then left out.
func appendLimit(b []byte, name string, r *coord.Result, allowed bool) []byte {
	b = appendName(b, name)
	b = appendInt(b, ";r=", int64(r.Remaining))
	switch {
	case allowed:
		b = appendInt(b, ";t=", seconds(r.ResetAfter))
	case r.RetryAfter > 0:
		b = appendInt(b, ";t=", seconds(r.RetryAfter))
	}
	return b
}

// maxInteger is the largest Integer of a structured field (RFC 9651, part 3.3.1).
const maxInteger = 999_999_999_999_999

func appendInt(b []byte, key string, n int64) []byte {
	b = append(b, key...)
	return strconv.AppendInt(b, min(n, maxInteger), 10)
}

// appendName begins a list member with a String (RFC 9651, part 3.3.3). It holds
// printable ASCII alone; other bytes, and %, are percent-encoded.
func appendName(b []byte, name string) []byte {
	if len(b) > 0 {
		b = append(b, ", "...)
	}
	b = append(b, '"')
	for i := range len(name) {
		switch c := name[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c >= 0x7f || c == '%':
			b = fmt.Appendf(b, "%%%02X", c)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// policyName is what a bound is called: its name, numbered from the second that has the same.
func policyName(bounds []rules.Bound, i int) string {
	name, same := bounds[i].Name(), 1
	for j := range i {
		if bounds[j].Name() == name {
			same++
		}
	}
	if same > 1 {
		return name + "-" + strconv.Itoa(same)
	}
	return name
}

// seconds rounds up: a client that waits for so long has waited enough.
func seconds(d time.Duration) int64 {
	whole := int64(max(d, 0) / time.Second)
	if d > 0 && d%time.Second > 0 {
		whole++
	}
	return whole
}

// setRetryAfter tells when to come back (RFC 9110, part 10.2.3), one second from now at the
// earliest.
func setRetryAfter(h http.Header, d time.Duration) {
	h.Set("Retry-After", strconv.FormatInt(max(seconds(d), 1), 10))
}
