package server

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// meters are what a Server measures. The locks and limits behind it are those of package otelcoord.
type meters struct {
	requests metric.Float64Histogram
	holds    metric.Int64UpDownCounter
}

func newMeters(p metric.MeterProvider) (m meters, err error) {
	if p == nil {
		p = noop.NewMeterProvider()
	}
	meter := p.Meter("github.com/coordgo/coord/server")
	if m.requests, err = meter.Float64Histogram("coord.serve.request.duration", metric.WithUnit("s"),
		metric.WithDescription("Requests by route and status, of gRPC by method and code; those that wait, too")); err != nil {
		return m, err
	}
	m.holds, err = meter.Int64UpDownCounter("coord.serve.holds", metric.WithUnit("{hold}"),
		metric.WithDescription("Holds of remote holders, and attempts at them"))
	return m, err
}

// request counts one of a path, or of a method of gRPC, with its status or code.
func (m *meters) request(route string, status attribute.KeyValue, took time.Duration) {
	m.requests.Record(context.Background(), took.Seconds(), metric.WithAttributes(attribute.String("http.route", route), status))
}

func (m *meters) hold(n int64) { m.holds.Add(context.Background(), n) }
