package quorum_test

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
)

// witness sees every hold of one key, and that no two overlap.
type witness struct {
	x     *trial
	mu    sync.Mutex
	last  int64
	holds int
	id    string
	until time.Time // the holder is certain of its hold before that
}

func (w *witness) granted(id string, g driver.Grant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	until := g.Since.Add(g.TTL)
	if !time.Now().Before(until) {
		return // no hold: it passed on the way
	}
	w.holds++
	if time.Now().Before(w.until) {
		w.x.errorf("%s is granted the key, which %s has for %v more", id, w.id, time.Until(w.until))
	}
	w.x.rising(&w.last, g, "of the next holder")
	w.id, w.until = id, until
}

func (w *witness) renewed(id string, g driver.Grant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	until := g.Since.Add(g.TTL)
	switch {
	case w.id == id:
		if until.After(w.until) {
			w.until = until
		}
	case time.Now().Before(until):
		w.x.errorf("%s has renewed its hold, while %s holds", id, w.id)
	}
}

// ended is called before a release is sent.
func (w *witness) ended(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.id == id {
		w.until = time.Time{}
	}
}

// work holds the key again and again: for a moment, with renewals, or until the lease lapses.
func (w *witness) work(c *client, rnd *rand.Rand, stop chan struct{}) {
	ctx := w.x.t.Context()
	for {
		select {
		case <-stop:
			return
		default:
		}
		time.Sleep(time.Duration(rnd.IntN(3000)) * time.Millisecond)
		ttl := time.Duration(1+rnd.IntN(59)) * time.Second
		r := driver.Request{ID: driver.FormatID("w", 1, time.Now(), [16]byte{byte(rnd.Uint32()), byte(rnd.Uint32()), byte(rnd.Uint32()), byte(rnd.Uint32())}), TTL: ttl}
		g, err := c.TryLock(ctx, "k", r)
		if err != nil {
			continue
		}
		w.granted(r.ID, g)
		for range rnd.IntN(4) {
			time.Sleep(g.TTL / 3)
			if again, err := c.Renew(ctx, "k", r); err == nil {
				g = again
				w.renewed(r.ID, g)
			} else if !time.Now().Before(g.Since.Add(g.TTL)) {
				break
			}
		}
		if rnd.IntN(4) > 0 {
			w.ended(r.ID)
			_ = c.Unlock(ctx, "k", r.ID) // what it could not do lapses
		}
	}
}
