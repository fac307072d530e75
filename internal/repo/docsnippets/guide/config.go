package guide

import (
	"context"

	_ "github.com/coordgo/coord/backends/redis" // the stores that this program allows
	"github.com/coordgo/coord/config"
)

func configured(ctx context.Context) error {
	client, err := config.Open(ctx, "coord.yaml")
	if err != nil {
		return err
	}
	defer client.Close()
	supplier, err := client.Limit("supplier")
	if err != nil {
		return err
	}
	return client.Wait(ctx, "supplier", supplier)
}
