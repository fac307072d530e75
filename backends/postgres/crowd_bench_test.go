package postgres

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Forty keys that two clients want all the time, beside the same that one client wants: how many locks there are of the one for
// each of the other. They take turns.
func BenchmarkContended(b *testing.B) {
	url := patientURL(b, server(b).Addr) + "&pool_size=10"
	one, two := open(b, url), open(b, url)
	var locks [2]atomic.Int64
	contend := func(i int, clients ...*backend) {
		var wg sync.WaitGroup
		end := time.Now().Add(500 * time.Millisecond)
		for key := range 40 {
			for _, c := range clients {
				wg.Go(func() {
					for time.Now().Before(end) {
						r := request("a", time.Minute)
						if _, err := c.Lock(b.Context(), fmt.Sprint(key), r, func() {}); err != nil {
							b.Error(err)
							return
						}
						if err := c.Unlock(b.Context(), fmt.Sprint(key), r.ID); err != nil {
							b.Error(err)
						}
						locks[i].Add(1)
					}
				})
			}
		}
		wg.Wait()
	}
	for b.Loop() {
		contend(0, one)
		contend(1, one, two)
	}
	b.ReportMetric(float64(locks[1].Load())/float64(locks[0].Load()), "ratio")
}
