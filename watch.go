package coord

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/coordgo/coord/internal/clock"
	"github.com/coordgo/coord/internal/errs"
)

// Watch gives the holder of key, as [Client.Inspect] shows it: the present one, and then each change that it
// sees. ErrNotHeld, with no Holder, is a vacancy: nobody holds the key, though it may be kept taken. It does not
// say that the last holder's work has ended: one whose hold was broken works on until its next renewal. Holders
// come in the order of their tokens; a lower token comes only after the lease of the holder seen last has
// ended, as when a store was restored from a backup.
//
// An error of the store is given once, and Watch goes on: what it sees next is given again. ErrInvalid, ErrUnsupported,
// ErrClosed and the end of ctx, whose error it matches, end the sequence; so does the end of the loop.
//
// Watch asks the store once in a period: a third of the lease that it sees, of the client's default TTL before it
// has seen one, at least 250 ms and at most 5 s. So it is up to a period behind, holders that come and
// go within one are not seen, and what it gives may be over: a leader does not decide by it whether it
// leads. It costs that one request, nothing in between, and no goroutine.
func (c *Client) Watch(ctx context.Context, key string) iter.Seq2[Holder, error] {
	return func(yield func(Holder, error) bool) {
		w := holderWatch{c: c, key: key, period: watchPeriod(c.defaults.ttl)}
		for {
			h, err, last := w.look(ctx)
			if (last || w.isNews(h, err)) && !yield(h, err) || last {
				return
			}
			c.restBefore(ctx, key, w.period)
		}
	}
}

// holderWatch is one loop over a Watch.
type holderWatch struct {
	c      *Client
	key    string
	period time.Duration

	lease Holder        // the holder seen last, with the most of its TTL that was seen
	until clock.Instant // when its lease ends, unless it is renewed
	told  sight         // the last that was yielded
}

// sight is what a look at a holder may show.
type sight struct {
	kind  sightKind
	id    string
	token Token
}

type sightKind uint8

const (
	nothingSeen sightKind = iota
	holderSeen
	vacancySeen
	failureSeen
)

// look asks the store once. last is that the watch ends with the answer.
func (w *holderWatch) look(ctx context.Context) (h Holder, err error, last bool) {
	if ctx.Err() == nil {
		bounded, cancel := context.WithTimeout(ctx, max(w.period, time.Second))
		h, err = w.c.inspect(bounded, w.key)
		cancel()
	}
	switch {
	case ctx.Err() != nil:
		err = errs.ContextError(ctx)
	case err != nil && w.c.state.Load() == stateClosed:
		err = ErrClosed
	case err == nil && h.Released:
		err = ErrNotHeld
	}
	if err != nil {
		return Holder{}, w.c.fail("watch", w.key, err), ctx.Err() != nil || isFinal(err)
	}
	return h, nil, false
}

// isNews reports whether an answer is to be told, and remembers it.
func (w *holderWatch) isNews(h Holder, err error) bool {
	now := sight{kind: failureSeen}
	switch {
	case err == nil:
		if !w.learn(h) {
			return false
		}
		now = sight{holderSeen, h.ID, h.Token}
	case errors.Is(err, ErrNotHeld):
		now.kind = vacancySeen
	}
	changed := now != w.told
	w.told = now
	return changed
}

// learn takes in a holder that was seen. It reports false if the answer is older than one before.
func (w *holderWatch) learn(h Holder) bool {
	now := w.c.clock.Now()
	if h.Token < w.lease.Token && !w.until.Reached(now) {
		return false
	}
	if h.Token == w.lease.Token {
		h.TTL = max(h.TTL, w.lease.TTL)
	}
	w.until = now.Add(h.TTL)
	w.lease, w.period = h, watchPeriod(h.TTL)
	return true
}

// The bounds of the time between two looks.
const (
	shortestPeriod = 250 * time.Millisecond
	longestPeriod  = 5 * time.Second
)

func watchPeriod(lease time.Duration) time.Duration {
	return min(max(lease/3, shortestPeriod), longestPeriod)
}

// restBefore waits about a period until the next look, or until ctx ends or the client closes. Clients do not look in
// step.
func (c *Client) restBefore(ctx context.Context, key string, period time.Duration) {
	timer := time.NewTimer(period - c.jitter(key, period/10))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-c.done:
	}
}
