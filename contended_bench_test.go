package coord_test

import (
	"context"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// Sixteen goroutines of one client and one key: what they get of it, against one goroutine
// that does the store's two calls in a loop.
func BenchmarkContended(b *testing.B) {
	for name, section := range map[string]time.Duration{"section=0": 0, "section=1ms": time.Millisecond} {
		b.Run(name, func(b *testing.B) {
			store := memory.NewStore()
			bare := store.Open()
			defer bare.Close()
			client, err := coord.New(store.Open())
			if err != nil {
				b.Fatal(err)
			}
			defer client.Close()
			ctx := context.Background()
			b.ReportAllocs()
			testserver.CompareContended(b, 16, 250*time.Millisecond, func() error {
				if _, err := bare.TryLock(ctx, "bare", driver.Request{ID: "id", TTL: time.Minute}); err != nil {
					return err
				}
				time.Sleep(section)
				return bare.Unlock(ctx, "bare", "id")
			}, func() error {
				l, err := client.Lock(ctx, "k")
				if err != nil {
					return err
				}
				time.Sleep(section)
				return l.Unlock(ctx)
			})
		})
	}
}
