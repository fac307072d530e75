package redis

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/coordgo/coord"
)

// Calls on several limits that meet keep the sums exact.
func TestSeveralLimitsOfManyCallers(t *testing.T) {
	t.Parallel()
	c := must[*coord.Client](t)(coord.New(shared(t)))
	t.Cleanup(func() { c.Close() })
	user, all := coord.PerHour(300), coord.PerHour(500)
	const goroutines, each = 32, 40
	var allowed [2]atomic.Int64
	var wg sync.WaitGroup
	for i := range goroutines {
		wg.Go(func() {
			name := []string{"ann", "bob"}[i%2]
			for range each {
				results, err := c.AllowAll(t.Context(),
					coord.Demand{Key: "{app}" + name, Limit: user, N: 1},
					coord.Demand{Key: "{app}all", Limit: all, N: 1})
				if err != nil {
					t.Error(err)
				} else if results[0].Allowed {
					allowed[i%2].Add(1)
				}
			}
		})
	}
	wg.Wait()
	ann, bob := allowed[0].Load(), allowed[1].Load()
	if ann+bob != 500 || ann > 300 || bob > 300 {
		t.Errorf("%d and %d allowed, want 500 together and at most 300 each", ann, bob)
	}
}
