package guide

import (
	"context"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/otelcoord"
)

// openMeasured opens a store and reports to OpenTelemetry.
func openMeasured(ctx context.Context, url string) (*coord.Client, error) {
	observer, err := otelcoord.New() // the global providers; or WithMeterProvider, WithTracerProvider
	if err != nil {
		return nil, err
	}
	return coord.Open(ctx, url, coord.WithObserver(observer))
}
