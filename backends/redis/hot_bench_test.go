package redis

import (
	"testing"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/testserver"
)

// BenchmarkHotKey is one limit that a client asks at once: one goroutine alone, then 64 whose
// requests share calls, and 64 that spend leased permits.
func BenchmarkHotKey(b *testing.B) {
	srv := testserver.Redis(b)
	for _, bb := range []struct {
		name       string
		goroutines int
		opts       []coord.Option
	}{
		{"single", 1, nil},
		{"together", 64, nil},
		{"leased", 64, []coord.Option{coord.WithPermitLease(coord.PermitLease{})}},
		{"leased-5000", 64, []coord.Option{coord.WithPermitLease(coord.PermitLease{Max: 5000})}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			c, err := coord.Open(b.Context(), "redis://"+srv.Addr+"/0", bb.opts...)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			allow := func() {
				r, err := c.Allow(b.Context(), b.Name(), coord.PerMinute(1<<39))
				if err != nil || !r.Allowed {
					b.Errorf("%+v, %v", r, err)
				}
			}
			testserver.Hammer(b, bb.goroutines, 1000, allow)
		})
	}
}
