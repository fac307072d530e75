package coord_test

import (
	"context"
	"testing"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
)

// A decision on the embedded store, through the whole of the core.
func BenchmarkAllowMemory(b *testing.B) {
	for name, limit := range map[string]coord.Limit{
		"sliding-window": coord.PerSecond(1_000_000_000),
		"token-bucket":   {Rate: 1_000_000, Per: 1_000_000_000, Burst: 1_000_000},
		"fixed-window":   {Rate: 1_000_000_000, Per: 1_000_000_000, Algorithm: coord.FixedWindow},
	} {
		b.Run(name, func(b *testing.B) {
			client, err := coord.New(memory.New())
			if err != nil {
				b.Fatal(err)
			}
			defer client.Close()
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := client.Allow(ctx, "k", limit); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Neither the core nor the memory store allocates for a decision.
func TestAllowMemoryAllocations(t *testing.T) {
	client, err := coord.New(memory.New())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, limit := range []coord.Limit{coord.PerSecond(10), {Rate: 10, Per: 1_000_000_000, Burst: 10}} {
		if got := testing.AllocsPerRun(1000, func() {
			if _, err := client.Allow(t.Context(), "k", limit); err != nil {
				t.Fatal(err)
			}
		}); got != 0 {
			t.Errorf("%v: %v allocations", limit, got)
		}
	}
}
