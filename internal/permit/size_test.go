package permit

import (
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
)

var million = driver.Limit{Rate: 1_000_000, Per: time.Hour}

func normalRule(t *testing.T, r Rule) Rule {
	t.Helper()
	r, err := r.normal()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// How many permits are prefetched at a time.
func TestSize(t *testing.T) {
	for _, tt := range []struct {
		name      string
		rule      Rule
		limit     driver.Limit
		every     time.Duration
		remaining int
		min, max  int
	}{
		{"by rate", Rule{}, million, time.Millisecond, 1 << 30, 80, 100},
		{"for longer", Rule{For: time.Second, Max: 10_000}, million, time.Millisecond, 1 << 30, 700, 1000},
		{"at most Max", Rule{Max: 20}, million, time.Millisecond, 1 << 30, 20, 20},
		{"slow key", Rule{}, million, time.Second, 1 << 30, 0, 0},
		{"share of what is left", Rule{}, million, time.Millisecond, 240, 30, 30},
		{"among more", Rule{Lessees: 10}, million, time.Millisecond, 400, 20, 20},
		{"near the limit", Rule{}, million, time.Millisecond, 120, 0, 0},
		{"limit reached", Rule{}, million, time.Millisecond, 0, 0, 0},
		{"not beyond the sub-window", Rule{}, driver.Limit{Rate: 1_000_000, Per: time.Second}, time.Millisecond, 1 << 30, 0, 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPrefetched(limitKey{"k", demand(t, "k", tt.limit, 1).Limit}, normalRule(t, tt.rule))
			if n := p.size(clock.Instant{}); n != 0 {
				t.Errorf("%d before anything is known", n)
			}
			got := 0
			now := clock.Instant{}
			for range 2000 {
				now.Mono += tt.every
				p.used(1, now.Mono)
				width := max(p.window, 1)
				p.learn(&driver.TakenOne{Granted: driver.Granted{N: 1, ValidFor: width - now.Mono%width}, Remaining: tt.remaining}, now.Mono)
				got = p.size(now)
			}
			if got < tt.min || got > tt.max {
				t.Errorf("%d permits: want %d to %d", got, tt.min, tt.max)
			}
		})
	}
}

// A driver that does not say for how long a window's permits are valid is not prefetched from.
func TestPrefetchNeedsValidFor(t *testing.T) {
	p := newPrefetched(limitKey{"k", demand(t, "k", million, 1).Limit}, normalRule(t, Rule{}))
	for i := range 1000 {
		now := clock.Instant{Mono: time.Duration(i) * time.Millisecond}
		p.used(1, now.Mono)
		p.learn(&driver.TakenOne{Granted: driver.Granted{N: 1}, Remaining: 1 << 30}, now.Mono)
		if n := p.size(now); n != 0 {
			t.Fatalf("%d permits", n)
		}
	}
}
