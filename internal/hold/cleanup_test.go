package hold

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// The signal that may have ended a place is passed on until that has succeeded: once for a place that is known to be gone, and
// for one that a late call may yet take, once more when that can be no longer.
func TestJanitorPassesSignalsOn(t *testing.T) {
	for name, tc := range map[string]struct {
		unknown, failures, want int
	}{
		"gone":                           {0, 0, 1},
		"gone, the store fails":          {0, 3, 4},
		"perhaps taken":                  {1, 0, 2},
		"perhaps taken, the store fails": {1, 3, 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newManager(t, &fakeStore{})
				now, calls := m.clock.Mono(), 0
				m.janitor.put(&task{key: "k", id: "id", until: now + time.Minute, alarm: alarm{next: now}, unknown: tc.unknown, passOn: func(context.Context) error {
					if calls++; calls <= tc.failures {
						return errWire
					}
					return nil
				}})
				time.Sleep(2*time.Minute + taskGrace)
				synctest.Wait()
				if calls != tc.want {
					t.Errorf("passed on %d times, want %d", calls, tc.want)
				}
				wantNothing(t, m)
			})
		})
	}
}

// What the janitor does for one hold costs as much among many as among few. That it is
// sixteen times as many makes one that looks at all of them sixteen times as slow. It is
// timed in handfuls, the quickest of which is one that the machine did not interrupt.
func TestJanitorDoesNotSlowDownWithItsTasks(t *testing.T) {
	const few, many, handful, handfuls, factor = 1000, 16_000, 50, 20, 6
	among := func(n int) time.Duration {
		f := &fakeStore{hung: make(chan struct{})}
		m := newManager(t, f)
		defer close(f.hung)
		now := m.clock.Now().Mono
		put := func(n int) {
			for range n {
				m.janitor.put(&task{key: "k", id: "id", alarm: alarm{next: now}, until: now + time.Hour, known: true})
			}
		}
		put(n)
		best := time.Hour
		for range handfuls {
			began := time.Now()
			put(handful)
			best = min(best, time.Since(began))
		}
		return best
	}
	if a, b := among(few), among(many); b > factor*a {
		t.Errorf("%d tasks take %v among %d, %v among %d", handful, a, few, b, many)
	}
}
