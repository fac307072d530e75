package coord_test

import (
	"context"
	"fmt"

	"github.com/coordgo/coord"
	_ "github.com/coordgo/coord/backends/memory"
)

// A lock and a limit. The store is chosen by its URL, here one in memory: "redis://…",
// "etcd://…" or "file:///…" in its place, and everything else stays.
func Example() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	err = coord.Do(ctx, client, "invoices", func(ctx context.Context) error {
		fmt.Println("writing invoices, one process at a time")
		return nil // ctx ends if the lock is lost
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	for range 3 {
		r, err := client.Allow(ctx, "supplier", coord.PerHour(2))
		if err != nil {
			fmt.Println(err)
			return
		}
		if r.Allowed {
			fmt.Println("calling the supplier,", r.Remaining, "left")
		} else {
			fmt.Println("not now")
		}
	}
	// Output:
	// writing invoices, one process at a time
	// calling the supplier, 1 left
	// calling the supplier, 0 left
	// not now
}
