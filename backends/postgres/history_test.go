package postgres

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coordgo/coord"
)

// tenure is one hold, as its holder saw it.
type tenure struct {
	token           coord.Token
	sent, got, till time.Time // it was certain from got to till
}

// history is what the holders of one key, and those who ask one limit, have seen.
type history struct {
	mu      sync.Mutex
	tenures []tenure
	lost    int
	takes   []tenure // permits, without token and till
	limit   coord.Limit
}

// newClient opens a client that says nothing of outages.
func newClient(t *testing.T, url string) *coord.Client {
	t.Helper()
	c := must[*coord.Client](t)(coord.Open(t.Context(), url, coord.WithLogger(slog.New(slog.DiscardHandler))))
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

// hold takes the key again and again, for short mostly, and gives it back, until ctx ends.
func (h *history) hold(ctx context.Context, c *coord.Client, key string, ttl time.Duration) {
	for ctx.Err() == nil {
		sent := time.Now()
		l, err := c.Lock(ctx, key, coord.TTL(ttl))
		if err != nil {
			pause(rand.N(20 * time.Millisecond)) // backoff in an outage
			continue
		}
		got, works := time.Now(), rand.N(5*time.Millisecond)
		if rand.N(40) == 0 {
			works = rand.N(2 * ttl)
		}
		select {
		case <-time.After(works):
		case <-l.Done():
		}
		h.end(l, tenure{token: l.Token(), sent: sent, got: got})
		_ = l.Unlock(context.WithoutCancel(ctx)) // if it fails, the lease ends
	}
}

// end notes a hold that is about to be given back. It was certain until then, or until its deadline.
func (h *history) end(l *coord.Lock, seen tenure) {
	seen.till = time.Now()
	if d := l.Deadline(); d.Before(seen.till) {
		seen.till = d
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.Err() != nil {
		h.lost++
	}
	h.tenures = append(h.tenures, seen)
}

// take asks the limit again and again, until ctx ends.
func (h *history) take(ctx context.Context, c *coord.Client, key string) {
	for ; ctx.Err() == nil; pause(rand.N(10 * time.Millisecond)) {
		asking, cancel := context.WithTimeout(ctx, 2*time.Second)
		sent := time.Now()
		r, err := c.Allow(asking, key, h.limit)
		cancel()
		if err == nil && r.Allowed {
			h.mu.Lock()
			h.takes = append(h.takes, tenure{sent: sent, got: time.Now()})
			h.mu.Unlock()
		}
	}
}

// pause lets time pass for others.
func pause(d time.Duration) { <-time.After(d) }

// await waits until so many holds have begun since a time, and as many permits, if there is a limit.
func (h *history) await(t *testing.T, what string, since time.Time, n int) {
	t.Helper()
	count := func(all []tenure) (n int) {
		for _, s := range all {
			if s.sent.After(since) {
				n++
			}
		}
		return n
	}
	for deadline := time.Now().Add(10 * hung); ; pause(5 * time.Millisecond) {
		h.mu.Lock()
		holds, takes := count(h.tenures), count(h.takes)
		h.mu.Unlock()
		if holds >= n && (takes >= n || h.limit == coord.Limit{}) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: only %d holds and %d permits", what, holds, takes)
		}
	}
}

// overlaps gives how long two held at once, of each two that did, with when that began.
func (h *history) overlaps() (of []time.Duration, begun []time.Time) {
	slices.SortFunc(h.tenures, func(a, b tenure) int { return a.got.Compare(b.got) })
	var till time.Time // of all before
	for _, b := range h.tenures {
		if b.got.Before(till) {
			of, begun = append(of, till.Sub(b.got)), append(begun, b.got)
		}
		if b.till.After(till) {
			till = b.till
		}
	}
	return of, begun
}

// checkExclusion wants no two holds at once.
func (h *history) checkExclusion(t *testing.T) {
	t.Helper()
	of, begun := h.overlaps()
	for i := range of {
		t.Errorf("two hold for %v, from %v after the first hold", of[i], begun[i].Sub(h.tenures[0].got))
	}
}

// checkTokens wants each token above all that were known when it was asked for.
func (h *history) checkTokens(t *testing.T) {
	t.Helper()
	for _, a := range h.tenures {
		for _, b := range h.tenures {
			if b.sent.After(a.got) && b.token <= a.token {
				t.Errorf("token %d, asked for %v after %d was granted", b.token, b.sent.Sub(a.got), a.token)
			}
		}
	}
}

// peak is the most permits that were certainly granted within one period.
func (h *history) peak() (peak int) {
	slices.SortFunc(h.takes, func(a, b tenure) int { return a.sent.Compare(b.sent) })
	for i, first := range h.takes {
		end, n := first.sent.Add(h.limit.Per), 0
		for _, t := range h.takes[i:] {
			if t.sent.After(end) {
				break
			}
			if !t.got.After(end) {
				n++
			}
		}
		peak = max(peak, n)
	}
	return peak
}
