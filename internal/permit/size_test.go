package permit

import (
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
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
			rule := normalRule(t, tt.rule)
			limit := demand(t, "k", tt.limit, 1).Limit
			var s sizer
			s.init(&limit, rule, 0)
			if n := s.size(tt.every, 0, 0); n != 0 {
				t.Errorf("%d before anything is known", n)
			}
			got := 0
			now := time.Duration(0)
			for i := range 2000 {
				now += tt.every
				width := max(s.window, 1)
				s.learn(&driver.TakenOne{Granted: driver.Granted{N: 1, ValidFor: width - now%width}, Remaining: tt.remaining}, now, now)
				got = s.size(now, int64(i+1), 0)
			}
			if got < tt.min || got > tt.max {
				t.Errorf("%d permits: want %d to %d", got, tt.min, tt.max)
			}
		})
	}
}

// A driver that does not say for how long a window's permits are valid is not prefetched from.
func TestPrefetchNeedsValidFor(t *testing.T) {
	var s sizer
	limit := demand(t, "k", million, 1).Limit
	s.init(&limit, normalRule(t, Rule{}), 0)
	for i := range 1000 {
		now := time.Duration(i) * time.Millisecond
		s.learn(&driver.TakenOne{Granted: driver.Granted{N: 1}, Remaining: 1 << 30}, now, now)
		if n := s.size(now, int64(i), 0); n != 0 {
			t.Fatalf("%d permits", n)
		}
	}
}
