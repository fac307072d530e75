// Command readme takes a lock, and a permit of a limit.
package main

import (
	"context"
	"errors"
	"log"

	"github.com/coordgo/coord"
	_ "github.com/coordgo/coord/backends/redis"
)

var url = "redis://localhost:6379"

func main() {
	ctx := context.Background()
	client, err := coord.Open(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	err = coord.Do(ctx, client, "invoices", func(ctx context.Context) error { // one process at a time
		return client.Wait(ctx, "supplier", coord.PerMinute(2000)) // all processes together
	})
	if err := errors.Join(err, client.Close()); err != nil {
		log.Fatal(err)
	}
	log.Println("had the lock, and one of 2000 permits in this minute")
}
