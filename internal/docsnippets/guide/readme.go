package guide

import (
	"context"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/config"
)

func readme(ctx context.Context) error {
	client, err := config.Open(ctx, "coord.yaml") // import _ ".../backends/all"
	if err != nil {
		return err
	}
	defer client.Close()

	err = coord.Do(ctx, client, "invoices", func(ctx context.Context) error {
		return writeInvoices(ctx) // one process at a time; ctx ends if the lock is lost
	})
	if err != nil {
		return err
	}
	supplier, err := client.Limit("supplier")
	if r, err := client.Allow(ctx, "supplier", supplier); err == nil && r.Allowed {
		callSupplier(ctx) // at most 2000 in any minute, over all machines
	}
	return err
}
