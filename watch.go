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
	return watchOver(ctx, c, key, func() watched[Holder] {
		return &holderWatch{c: c, key: key, rest: watchPeriod(c.defaults.ttl)}
	})
}

// watched is what one loop over a Watch looks at.
type watched[T any] interface {
	// ask asks the store once.
	ask(ctx context.Context) (T, error)
	// isNews reports whether an answer is to be told, and remembers it.
	isNews(v T, err error) bool
	// period is the time until the next look, and bound what that may take.
	period() time.Duration
	bound() time.Duration
}

// watchOver looks at key until ctx ends, or the loop, or an error is final.
func watchOver[T any](ctx context.Context, c *Client, key string, begin func() watched[T]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		w := begin()
		for {
			v, err, last := look(ctx, c, key, w)
			if (last || w.isNews(v, err)) && !yield(v, err) || last {
				return
			}
			c.restBefore(ctx, key, w.period())
		}
	}
}

// look asks the store once. last is that the watch ends with the answer.
func look[T any](ctx context.Context, c *Client, key string, w watched[T]) (v T, err error, last bool) {
	if ctx.Err() == nil {
		bounded, cancel := context.WithTimeout(ctx, w.bound())
		v, err = w.ask(bounded)
		cancel()
	}
	switch {
	case ctx.Err() != nil:
		err = errs.ContextError(ctx)
	case err != nil && c.state.Load() == stateClosed:
		err = ErrClosed
	}
	if err != nil {
		var none T
		return none, c.fail("watch", key, err), ctx.Err() != nil || isFinal(err)
	}
	return v, nil, false
}

// holderWatch is one loop over a Client.Watch.
type holderWatch struct {
	c    *Client
	key  string
	rest time.Duration

	lease Holder        // the holder seen last, with the most of its TTL that was seen
	until clock.Instant // when its lease ends, unless it is renewed
	told  sight         // the last that was yielded
}

func (w *holderWatch) period() time.Duration { return w.rest }
func (w *holderWatch) bound() time.Duration  { return max(w.rest, time.Second) }

func (w *holderWatch) ask(ctx context.Context) (Holder, error) {
	h, err := w.c.inspect(ctx, w.key)
	if err == nil && h.Released {
		err = ErrNotHeld
	}
	return h, err
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
	w.lease, w.rest = h, watchPeriod(h.TTL)
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
