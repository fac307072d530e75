package config_test

import (
	"context"
	"fmt"

	"github.com/coordgo/coord"
	_ "github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/config"
)

// The store, the lock defaults and the limits come from a file. Here its text
// stands in the program; config.Open reads it from coord.yaml.
func Example() {
	text := []byte(`
url: memory://
lock: {ttl: 10s}
limits:
  supplier: 2/1m
`)
	file, err := config.Parse("coord.yaml", text)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	client, err := file.Open(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	err = coord.Do(ctx, client, "invoices", func(ctx context.Context) error {
		lock, _ := coord.Held(ctx, "invoices")
		fmt.Println("held for", lock.TTL(), "at a time")
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	supplier, err := client.Limit("supplier")
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		r, err := client.Allow(ctx, "supplier", supplier)
		fmt.Println(r.Allowed, err)
	}
	// Output:
	// held for 10s at a time
	// true <nil>
	// true <nil>
	// false <nil>
}
