package guide

import (
	"context"
	"log/slog"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/otelcoord"
)

// openLogged opens a store and logs lost locks.
func openLogged(ctx context.Context, url string) (*coord.Client, error) {
	return coord.Open(ctx, url, coord.WithObserver(coord.Observer{
		Lost: func(ctx context.Context, e coord.Lost) {
			slog.WarnContext(ctx, "lock lost", "key", e.Key, "token", int64(e.Token), "held", e.Held, "reason", e.Reason)
		},
	}))
}

// openMeasured opens a store and reports to OpenTelemetry.
func openMeasured(ctx context.Context, url string) (*coord.Client, error) {
	observer, err := otelcoord.New() // the global providers; or WithMeterProvider, WithTracerProvider
	if err != nil {
		return nil, err
	}
	return coord.Open(ctx, url, coord.WithObserver(observer))
}
