// Package readme has the code of the README.
package readme

import (
	"context"

	"github.com/coordgo/coord"
	_ "github.com/coordgo/coord/backends/memory"
)

// open opens the client of the snippets.
func open(ctx context.Context) (*coord.Client, error) {
	return coord.Open(ctx, "memory://")
}

// lock writes invoices, in one process at a time.
func lock(ctx context.Context, client *coord.Client, write func(context.Context, coord.Token) error) error {
	return coord.Do(ctx, client, "invoices", func(ctx context.Context) error {
		lock, _ := coord.Held(ctx, "invoices")
		return write(ctx, lock.Token()) // ctx ends before anyone else gets the lock
	})
}

// limit calls the supplier, at most 2000 times in any minute.
func limit(ctx context.Context, client *coord.Client, call func(context.Context) error) error {
	if err := client.Wait(ctx, "supplier", coord.PerMinute(2000)); err != nil {
		return err // ctx ends before a permit is free
	}
	return call(ctx)
}
