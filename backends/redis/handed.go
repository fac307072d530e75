package redis

import (
	"strconv"
	"strings"
	"time"

	"github.com/coordgo/coord/driver"
)

// A waiter that is told of its grant has the lock without asking again: the message says when
// the grant was made, by the server's clock, and the waiter knows a moment on its own
// clock at which the server's certainly did not show more than some value: it had sent a
// question, and the answer says what the clock showed when it was read. From the two
// follows a local instant before which the lease cannot have begun. The first renewal then
// makes a whole lease of it, behind the back of who has called Lock.

// look is a question about a place in line to which the answer was: wait.
type look struct {
	sent  time.Time
	wall  time.Time // sent, by the wall clock alone
	at    int64     // the server's clock when it answered, in ms
	heard hearing   // when it was sent
}

func lookAt(sent time.Time, heard hearing) look {
	return look{sent: sent, wall: sent.Round(0), heard: heard}
}

// handed is a grant as a message tells of it.
type handed struct {
	token int64
	lease time.Duration
	at    int64 // the server's clock at the grant, in ms
	heard hearing
}

// parseHanded reads "token ms at".
func parseHanded(text string) (h handed, ok bool) {
	var numbers [3]int64
	for i := range numbers {
		var field string
		field, text, _ = strings.Cut(text, " ")
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil || n < 0 {
			return handed{}, false
		}
		numbers[i] = n
	}
	token, ms := numbers[0], numbers[1]
	if text != "" || token <= 0 || token >= maxToken || ms == 0 || ms > maxTTL.Milliseconds() {
		return handed{}, false
	}
	return handed{
		token: token, lease: time.Duration(ms) * time.Millisecond,
		at: numbers[2],
	}, true
}

// What clocks may differ by: a hundredth, and the millisecond that the server counts in.
// More than clocksApart between the two of this machine means that one was set.
const (
	drift       = 100
	serverStep  = time.Millisecond
	clocksApart = 5 * time.Millisecond
)

// since is a local instant before which the lease has certainly not begun. ok is false if
// that cannot be told: the client has heard of no answer yet, or not all the while, or was
// answered since that it waits, or a clock was set.
func (h *handed) since(l look, now time.Time) (since time.Time, ok bool) {
	if l.sent.IsZero() || h.at < l.at || h.heard.ear != l.heard.ear || h.heard.ups != l.heard.ups {
		return time.Time{}, false
	}
	passed := now.Sub(l.sent)
	if apart := now.Round(0).Sub(l.wall) - passed; apart < -clocksApart || apart > clocksApart {
		return time.Time{}, false
	}
	since = l.sent.Add(time.Duration(h.at-l.at)*time.Millisecond - serverStep - passed/drift)
	return since, !since.After(now)
}

// grant is what the waiter has of it for sure. ok is false if it is to ask: to be certain, or
// because less than half of the lease is.
func (h *handed) grant(l look, now time.Time, asked time.Duration) (g driver.Grant, ok bool) {
	since, ok := h.since(l, now)
	if !ok || h.lease-now.Sub(since) < h.lease/2 {
		return driver.Grant{}, false
	}
	return driver.Grant{
		Token: h.token, TTL: h.lease, Since: since,
		Provisional: h.lease < asked,
	}, true
}
