package server

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// meters are what a Server measures. The locks and limits behind it are those of package otelcoord.
type meters struct {
	requests metric.Float64Histogram
	holds    metric.Int64UpDownCounter
	figures  sync.Map // of figure to the option of Record that says it: making one costs more than a decision
}

// figure is a route, of which there are few, and how a request of it ended.
type figure struct {
	route, name string
	status      int64
}

func newMeters(p metric.MeterProvider) (m *meters, err error) {
	if p == nil {
		p = noop.NewMeterProvider()
	}
	meter := p.Meter("github.com/coordgo/coord/server")
	m = new(meters)
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
	of := figure{route, string(status.Key), status.Value.AsInt64()}
	option, ok := m.figures.Load(of)
	if !ok {
		set := attribute.NewSet(attribute.String("http.route", route), status)
		option, _ = m.figures.LoadOrStore(of, metric.WithAttributeSet(set))
	}
	m.requests.Record(context.Background(), took.Seconds(), option.(metric.RecordOption))
}

func (m *meters) hold(n int64) { m.holds.Add(context.Background(), n) }
