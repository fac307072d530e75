// Command readme takes a lock, and a permit of a limit.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/coordgo/coord"
	_ "github.com/coordgo/coord/backends/all" // all stores
)

func main() {
	if err := run(context.Background(), "memory://"); err != nil { // or "redis://localhost:6379"
		log.Fatal(err)
	}
}

func run(ctx context.Context, url string) error {
	client, err := coord.Open(ctx, url)
	if err != nil {
		return err
	}
	defer client.Close()

	// One process at a time runs this function. Its ctx ends if the lock is lost.
	return coord.Do(ctx, client, "invoices", func(ctx context.Context) error {
		// All processes together get at most 2000 permits in any minute.
		r, err := client.Allow(ctx, "supplier", coord.PerMinute(2000))
		if err != nil {
			return err
		}
		fmt.Println("allowed:", r.Allowed, "left:", r.Remaining)
		return nil
	})
}
