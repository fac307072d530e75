package middleware

import (
	"sync/atomic"
	"time"
)

// Throttle lets one event pass in a period, and counts the others. The zero Throttle is ready to use. It is safe for
// concurrent use.
type Throttle struct {
	next    atomic.Int64 // ns since start; no event passes before
	skipped atomic.Int64
}

// start is a monotonic zero.
var start = time.Now()

// Pass reports whether an event may pass, and how many were skipped since the last one that did. After it none passes for
// the time every.
func (t *Throttle) Pass(every time.Duration) (skipped int64, ok bool) {
	now, next := int64(time.Since(start)), t.next.Load()
	if now < next || !t.next.CompareAndSwap(next, now+int64(every)) {
		t.skipped.Add(1)
		return 0, false
	}
	return t.skipped.Swap(0), true
}
