// Command quickstart sells tickets under a lock, and calls a supplier within a limit.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/coordgo/coord"
	_ "github.com/coordgo/coord/backends/all" // all stores; coord.yaml selects one
	"github.com/coordgo/coord/config"
)

func main() {
	if err := run(context.Background(), "coord.yaml"); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, file string) error {
	client, err := config.Open(ctx, file)
	if err != nil {
		return err
	}
	defer client.Close()

	// One process at a time runs this function.
	err = coord.Do(ctx, client, "tickets", func(ctx context.Context) error {
		lock, _ := coord.Held(ctx, "tickets")
		fmt.Println("selling, with token", lock.Token())
		select {
		case <-time.After(2 * time.Second): // the work
			return nil
		case <-ctx.Done(): // the lock is lost: stop
			return context.Cause(ctx)
		}
	})
	if err != nil {
		return err
	}

	// All processes together get 3 permits in any minute.
	limit, err := client.Limit("supplier")
	if err != nil {
		return err
	}
	for range 4 {
		r, err := client.Allow(ctx, "supplier", limit)
		if err != nil {
			return err
		}
		if !r.Allowed {
			fmt.Println("denied, retry after", r.RetryAfter.Round(time.Second))
			continue
		}
		fmt.Println("calling the supplier, permits left:", r.Remaining)
	}
	return nil
}
