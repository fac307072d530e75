package coord

import (
	"context"
	"slices"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/errs"
)

// groupWatch is one loop over a Watch of those who share a key.
type groupWatch struct {
	s      *Shared
	key    string
	told   bool     // something was yielded
	failed bool     // the last that was yielded is an error
	seen   []member // the holders that were yielded last
}

// member is what a change of is told: who it is, and what it has.
type member struct {
	id     string
	mode   driver.Mode
	weight int64
}

// look asks the store once. last is that the watch ends with the answer.
func (w *groupWatch) look(ctx context.Context) (holders []Holder, err error, last bool) {
	if ctx.Err() == nil {
		bounded, cancel := context.WithTimeout(ctx, longestPeriod)
		holders, err = w.s.holders(bounded, w.key)
		cancel()
	}
	switch {
	case ctx.Err() != nil:
		err = errs.ContextError(ctx)
	case err != nil && w.s.c.state.Load() == stateClosed:
		err = ErrClosed
	}
	if err != nil {
		return nil, w.s.c.fail("watch", w.key, err), ctx.Err() != nil || isFinal(err)
	}
	return slices.DeleteFunc(holders, func(h Holder) bool { return h.Released }), nil, false
}

// isNews reports whether an answer is to be told, and remembers it.
func (w *groupWatch) isNews(holders []Holder, err error) bool {
	seen := make([]member, len(holders))
	for i, h := range holders {
		seen[i] = member{h.ID, h.Mode, h.Weight}
	}
	changed := !w.told || w.failed != (err != nil) || err == nil && !slices.Equal(seen, w.seen)
	if changed {
		w.told, w.failed, w.seen = true, err != nil, seen
	}
	return changed
}

// period is the time until the next look.
func (w *groupWatch) period(holders []Holder) time.Duration {
	shortest := w.s.c.defaults.ttl
	for _, h := range holders {
		shortest = min(shortest, h.TTL)
	}
	return watchPeriod(shortest)
}
