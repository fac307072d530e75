package natskv

import (
	"context"
	"fmt"
	"time"

	"github.com/coordgo/coord/driver/cas"
)

// clock follows the clock of the stream's leader.
type clock struct {
	cas.Clock
	longest time.Duration // the slowest exchange that it learns from
	stamp   func(context.Context) (time.Time, error)
}

const (
	// sharp is an exchange so fast that a better one is not looked for.
	sharp = 2 * time.Millisecond
	// enough is how many exchanges are made to find a sharp one, before the best of them will do.
	enough = 5
)

// exchange is one look at the store's clock.
type exchange struct{ sent, came, stamp time.Time }

func (e exchange) took() time.Duration { return e.came.Sub(e.sent) }

// now is the store's clock.
func (c *clock) now(ctx context.Context) (time.Time, error) {
	for {
		if now, known := c.Now(); known {
			return now, nil
		}
		e, err := c.look(ctx)
		if err != nil {
			return time.Time{}, fmt.Errorf("the store's clock: %w", err)
		}
		c.Learn(e.sent, e.came, e.stamp, 0)
	}
}

// look asks for the clock until an exchange is sharp, or the best of enough is fast enough to learn from,
// or ctx or the time-out ends.
func (c *clock) look(ctx context.Context) (best exchange, err error) {
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for n := 1; ; n++ {
		var e exchange
		e.sent = time.Now()
		e.stamp, err = c.stamp(bounded)
		e.came = time.Now()
		switch {
		case err != nil && n > enough:
			return best, ended(ctx, fmt.Errorf("the fastest of %d round trips took %v, want %v: give the bucket a larger skew: %w", n-1, best.took(), c.longest, err))
		case err != nil:
			return best, err
		case n == 1 || e.took() < best.took():
			best = e
		}
		if best.took() <= min(sharp, c.longest) || n >= enough && best.took() <= c.longest {
			return best, nil
		}
	}
}
