package quorum

import (
	"sync"
	"sync/atomic"
	"time"
)

// holds are the holds of this client that are certain. Only these are granted again at a member that has lost them,
// because until then nobody else has a majority.
type holds struct {
	mu sync.Mutex
	by map[holdKey]certain
	at int // how many there may be before the ones that are over are dropped
}

// certain is a hold until a moment, by its token.
type certain struct {
	token int64
	until time.Time
}

// sure is until when a lease from since to until is certain, though clocks drift: the margin is that of clause L3.
func sure(since, until time.Time) time.Time {
	return until.Add(-max(until.Sub(since)/100, 5*time.Millisecond))
}

func (h *holds) put(k holdKey, c certain) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.by == nil {
		h.by = make(map[holdKey]certain)
	}
	h.by[k] = c
	if len(h.by) <= max(h.at, 128) {
		return
	}
	now := time.Now()
	for k, c := range h.by {
		if !now.Before(c.until) {
			delete(h.by, k)
		}
	}
	h.at = 2 * len(h.by)
}

// extend is put for a renewal: of a hold that was not unlocked meanwhile.
func (h *holds) extend(k holdKey, until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c, ok := h.by[k]; ok && until.After(c.until) {
		c.until = until
		h.by[k] = c
	}
}

// get gives what is known of a hold, and whether it is certain at this moment.
func (h *holds) get(k holdKey) (c certain, known, now bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c, known = h.by[k]
	return c, known, known && time.Now().Before(c.until)
}

func (h *holds) drop(k holdKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.by, k)
}

// clock proposes tokens: by this client's clock, and above what it has seen, so that members agree at once.
type clock struct{ last atomic.Int64 }

func (c *clock) next() int64 {
	for {
		last := c.last.Load()
		next := max(last+1, time.Now().UnixMicro())
		if c.last.CompareAndSwap(last, next) {
			return next
		}
	}
}

func (c *clock) saw(token int64) {
	for last := c.last.Load(); last < token && !c.last.CompareAndSwap(last, token); last = c.last.Load() {
	}
}
