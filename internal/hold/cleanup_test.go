package hold

import (
	"testing"
	"time"
)

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
