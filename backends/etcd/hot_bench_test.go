package etcd

import (
	"testing"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/testserver"
)

// BenchmarkHotKey is one limit that a client asks at once: one goroutine alone, then 64 whose
// asks are sent together, and 64 that spend leased permits.
func BenchmarkHotKey(b *testing.B) {
	srv := testserver.Etcd(b)
	for _, bb := range []struct {
		name       string
		goroutines int
		opts       []coord.Option
	}{
		{"single", 1, nil},
		{"together", 64, nil},
		{"leased", 64, []coord.Option{coord.WithPermitLease(coord.PermitLease{})}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			c, err := coord.Open(b.Context(), "etcd://"+srv.Addr, bb.opts...)
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
			testserver.Hammer(b, bb.goroutines, 100, allow)
		})
	}
}
