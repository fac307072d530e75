package natskv

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The clock is learned from the sharpest exchange, and not at all from slow ones.
func TestClock(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		trips []time.Duration // of the exchanges, the last one for all that follow
		asked int
		fails bool
	}{
		"sharp at once":    {trips: []time.Duration{time.Millisecond}, asked: 1},
		"sharp at last":    {trips: []time.Duration{90 * time.Millisecond, 300 * time.Millisecond, time.Millisecond}, asked: 3},
		"the best of five": {trips: []time.Duration{90 * time.Millisecond, 30 * time.Millisecond, 90 * time.Millisecond}, asked: 5},
		"slow":             {trips: []time.Duration{300 * time.Millisecond}, asked: 17, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const ahead = time.Hour
				asked := 0
				c := clock{longest: 120 * time.Millisecond}
				c.stamp = func(ctx context.Context) (time.Time, error) {
					trip := tc.trips[min(asked, len(tc.trips)-1)]
					asked++
					select {
					case <-time.After(trip):
					case <-ctx.Done():
						return time.Time{}, ctx.Err()
					}
					return time.Now().Add(ahead - trip/2), nil
				}
				now, err := c.now(t.Context())
				if asked != tc.asked {
					t.Errorf("asked %d times, want %d", asked, tc.asked)
				}
				if tc.fails {
					if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "larger skew") {
						t.Errorf("got %v, want the time-out and what to do", err)
					}
					return
				}
				off := now.Sub(time.Now().Add(ahead)).Abs()
				if err != nil || off > 30*time.Millisecond {
					t.Errorf("got %v, off by %v", err, off)
				}
			})
		})
	}
}
