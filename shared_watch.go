package coord

import (
	"context"
	"slices"
	"time"

	"github.com/coordgo/coord/driver"
)

// groupWatch is one loop over a Shared.Watch.
type groupWatch struct {
	s        *Shared
	key      string
	shortest time.Duration // of the leases that were seen last
	told     bool          // something was yielded
	failed   bool          // the last that was yielded is an error
	seen     []member      // the holders that were yielded last
}

// member is what a change of is told: who it is, and what it has.
type member struct {
	id     string
	mode   driver.Mode
	weight int64
}

func (w *groupWatch) period() time.Duration { return watchPeriod(w.shortest) }
func (w *groupWatch) bound() time.Duration  { return longestPeriod }

func (w *groupWatch) ask(ctx context.Context) ([]Holder, error) {
	holders, err := w.s.holders(ctx, w.key)
	holders = slices.DeleteFunc(holders, func(h Holder) bool { return h.Released })
	w.shortest = w.s.c.defaults.ttl
	for _, h := range holders {
		w.shortest = min(w.shortest, h.TTL)
	}
	return holders, err
}

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
