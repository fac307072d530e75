package guide

import (
	"context"
	"log/slog"
	"time"

	"github.com/coordgo/coord"
)

// nightly runs the report on one of many machines, and not again within ten minutes.
func nightly(ctx context.Context, client *coord.Client) error {
	ran, err := coord.TryDo(ctx, client, "nightly", writeReport, coord.MinHold(10*time.Minute), coord.MaxHold(time.Hour))
	if err == nil && !ran {
		slog.InfoContext(ctx, "another machine runs the report, or has run it")
	}
	return err
}
