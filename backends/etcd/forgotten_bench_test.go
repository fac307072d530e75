package etcd

import (
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// BenchmarkForgotten is a decision on a limit whose state the client remembers, and on one whose
// state it has forgotten.
func BenchmarkForgotten(b *testing.B) {
	store := connect(b, testserver.Etcd(b).Addr)
	limit := must[driver.Limit](b)(driver.Limit{Rate: 1_000_000_000, Per: time.Hour}.Normal())
	for _, name := range []string{"remembered", "forgotten"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if name == "forgotten" {
					store.limits.states.Forget(func(*cell) bool { return true })
				}
				if one, err := store.TakeOne(b.Context(), "k", limit, driver.Ask{Min: 1, N: 1}); err != nil || one.N != 1 {
					b.Fatalf("%+v, %v", one, err)
				}
			}
		})
	}
}
