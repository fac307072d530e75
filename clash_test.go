package coord

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// Two limits that share a count are told of, once, when both have come again; what only changed, and what has a count of
// its own, is not.
func TestLimitsOfOneKey(t *testing.T) {
	bucket := func(rate, burst int) Limit { return Limit{Rate: rate, Per: time.Minute, Burst: burst} }
	for name, tc := range map[string]struct {
		limits []Limit
		want   string
	}{
		"one":                    {[]Limit{PerMinute(50), PerMinute(50), PerMinute(50)}, ""},
		"changed":                {[]Limit{PerMinute(50), PerMinute(99), PerMinute(99)}, ""},
		"changed twice":          {[]Limit{PerMinute(50), PerMinute(60), PerMinute(99)}, ""},
		"two, each again":        {[]Limit{PerMinute(50), PerMinute(99), PerMinute(50), PerMinute(99)}, `key=k limit=50/1m other=99/1m`},
		"two, one often":         {[]Limit{PerMinute(50), PerMinute(50), PerMinute(99), PerMinute(99), PerMinute(50)}, `key=k limit=50/1m other=99/1m`},
		"two lengths":            {[]Limit{PerMinute(50), PerHour(99), PerMinute(50), PerHour(99)}, ""},
		"two buckets":            {[]Limit{bucket(50, 5), bucket(99, 5), bucket(50, 5), bucket(99, 5)}, ""},
		"a bucket of two bursts": {[]Limit{bucket(50, 5), bucket(50, 9), bucket(50, 5)}, `key=k limit="50/1m burst=5" other="50/1m burst=9"`},
	} {
		t.Run(name, func(t *testing.T) {
			log := &logBuffer{}
			c := newTestClient(t, newFakeLimits(), WithLogger(slog.New(slog.NewTextHandler(log, nil))))
			for i := range 3 {
				for _, l := range tc.limits {
					if i == 0 || tc.want != "" {
						must[Result](t)(c.Allow(t.Context(), "k", l))
						must[Result](t)(c.Allow(t.Context(), fmt.Sprint("other", i), l))
					}
				}
			}
			if said := log.String(); !strings.Contains(said, tc.want) || strings.Count(said, "\n") != len(tc.want)/max(len(tc.want), 1) {
				t.Errorf("the log has %q, want %q", said, tc.want)
			}
		})
	}
}

func BenchmarkNoteLimit(b *testing.B) {
	var c clashes
	for b.Loop() {
		c.note("tenant/4711", PerMinute(100))
	}
}
