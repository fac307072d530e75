package middleware

import (
	"sync/atomic"
	"time"
)

// Gate lets one event through in a while, and counts the others. The zero Gate is ready;
// it is safe for concurrent use.
type Gate struct {
	next    atomic.Int64 // ns since start; no event passes before
	skipped atomic.Int64
}

// start is a monotonic zero.
var start = time.Now()

// Pass reports whether an event may be told, and how many were not since the last that
// was. After one that may, none may for the time every.
func (g *Gate) Pass(every time.Duration) (skipped int64, ok bool) {
	now, next := int64(time.Since(start)), g.next.Load()
	if now < next || !g.next.CompareAndSwap(next, now+int64(every)) {
		g.skipped.Add(1)
		return 0, false
	}
	return g.skipped.Swap(0), true
}
