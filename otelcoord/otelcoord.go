// Package otelcoord reports what a coord.Client does to OpenTelemetry: metrics of locks,
// limits and calls on the store, and spans of the calls that take their time.
//
//	observer, err := otelcoord.New()
//	…
//	client, err := coord.Open(ctx, url, coord.WithObserver(observer))
//
// It needs OpenTelemetry's API only; the application brings the SDK and the
// exporter. [Metrics] lists the metrics; dashboard.json beside this file shows them in Grafana,
// as Prometheus has them.
//
// # Attributes are bounded
//
// Keys of locks and limits are as many as an application has users and orders, so no
// metric and no span carries one, nor does the text of an error, which would name
// it, unless [WithKey] or [WithSpanKey] gives a function that maps keys to what may be
// shown. Every other attribute has a handful of values.
//
// # Spans
//
// A span named coord.lock, coord.trylock, coord.do, coord.trydo or coord.wait contains what
// the call does, the spans of an instrumented store client among it. A span that waits has a
// link to the span of the holder, where the holder is the same Client: that of its Do, or else
// of its Lock. A loss, and a renewal that failed, are events of the span in which the
// lock was taken, so also of the Do around it.
package otelcoord

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/coordgo/coord/observe"
)

// scope names this package as the source of what it reports.
const scope = "github.com/coordgo/coord/otelcoord"

// Option configures New.
type Option func(*options)

type options struct {
	meters  metric.MeterProvider
	tracers trace.TracerProvider
	key     func(string) string
	spanKey func(string) string
}

// WithMeterProvider sets where metrics go. The default is the global provider.
func WithMeterProvider(p metric.MeterProvider) Option { return func(o *options) { o.meters = p } }

// WithTracerProvider sets where spans go. The default is the global provider.
func WithTracerProvider(p trace.TracerProvider) Option { return func(o *options) { o.tracers = p } }

// WithKey adds the attribute coord.key to every metric of locks and limits, with what
// class makes of the key: the kind of thing it names, such as "order" for
// "order/4711". It must have few values, be quick, and always say the same of the same key.
func WithKey(class func(key string) string) Option { return func(o *options) { o.key = class } }

// WithSpanKey adds the attribute coord.key to every span, with what show makes of the key.
// A span can bear many values; show keeps out what is nobody's business.
func WithSpanKey(show func(key string) string) Option { return func(o *options) { o.spanKey = show } }

// New makes an observer, for coord.WithObserver. Several clients may share it.
// The error is that of a meter that refuses an instrument.
func New(opts ...Option) (observe.Observer, error) {
	o := options{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider()}
	for _, opt := range opts {
		opt(&o)
	}
	m, err := newMeter(o.meters, o.key)
	if err != nil {
		return observe.Observer{}, err
	}
	t := &tracer{tracer: o.tracers.Tracer(scope), show: o.spanKey, holders: make(map[string]trace.SpanContext)}
	return observer(m, t), nil
}
