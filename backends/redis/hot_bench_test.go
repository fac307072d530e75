package redis

import (
	"sync"
	"testing"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/testserver"
)

// BenchmarkHotKey is one limit that 64 goroutines of a client ask at once.
func BenchmarkHotKey(b *testing.B) {
	srv := testserver.Redis(b)
	c, err := coord.Open(b.Context(), "redis://"+srv.Addr+"/0")
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	b.ReportAllocs()
	var wg sync.WaitGroup
	work := make(chan struct{}, 64)
	b.ResetTimer()
	for range 64 {
		wg.Go(func() {
			for range work {
				if _, err := c.Allow(b.Context(), "hot", coord.PerSecond(1<<30)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for range b.N {
		work <- struct{}{}
	}
	close(work)
	wg.Wait()
}
