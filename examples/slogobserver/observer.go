// Package slogobserver shows an observer that logs what a person should know: locks that were lost or may be soon, and limits
// that do not hold.
package slogobserver

import (
	"context"
	"log/slog"

	"github.com/coordgo/coord/observe"
)

// Log gives the observer for coord.WithObserver. It logs keys.
func Log(log *slog.Logger) observe.Observer {
	return observe.Observer{
		Lost: func(ctx context.Context, e observe.Lost) {
			log.ErrorContext(ctx, "coord: lock lost", "key", e.Key, "reason", e.Reason, "token", int64(e.Token), "held", e.Held, "error", e.Err)
		},
		RenewFailed: func(ctx context.Context, e observe.RenewFailed) {
			log.WarnContext(ctx, "coord: lock not renewed", "key", e.Key, "token", int64(e.Token), "left", e.Left, "error", e.Err)
		},
		Degraded: func(ctx context.Context, d observe.Decision) {
			log.WarnContext(ctx, "coord: admitted without limit", "key", d.Key, "permits", d.Granted, "error", d.Err)
		},
	}
}
