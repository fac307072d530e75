package secrets

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	nometer "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	notrace "go.opentelemetry.io/otel/trace/noop"

	"github.com/coordgo/coord/observe"
	"github.com/coordgo/coord/otelcoord"
)

// tell writes a value to standard error in all the ways in which programs print it.
func tell(what string, v any) { fmt.Fprintf(os.Stderr, "%s: %v | %+v | %#v\n", what, v, v, v) }

// everything is an observer that writes whatever it is told of.
func everything() observe.Observer {
	var o observe.Observer
	fields := reflect.ValueOf(&o).Elem()
	for i := range fields.NumField() {
		field, name := fields.Field(i), fields.Type().Field(i).Name
		field.Set(reflect.MakeFunc(field.Type(), func(args []reflect.Value) []reflect.Value {
			tell(name, args[1].Interface())
			return args[:field.Type().NumOut()] // CallBegan gives a context
		}))
	}
	return o
}

// telemetry is otelcoord's observer, with keys, over providers that write what they get.
func telemetry() (observe.Observer, error) {
	same := func(key string) string { return key }
	return otelcoord.New(otelcoord.WithKey(same), otelcoord.WithSpanKey(same),
		otelcoord.WithMeterProvider(meters{}), otelcoord.WithTracerProvider(tracers{}))
}

type (
	meters    struct{ nometer.MeterProvider }
	meter     struct{ nometer.Meter }
	counter   struct{ nometer.Int64Counter }
	histogram struct{ nometer.Float64Histogram }
	tracers   struct{ notrace.TracerProvider }
	tracer    struct{ notrace.Tracer }
	span      struct{ notrace.Span }
)

func (meters) Meter(string, ...metric.MeterOption) metric.Meter { return meter{} }

func (meter) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return counter{}, nil
}

func (meter) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return histogram{}, nil
}

func (counter) Add(_ context.Context, _ int64, opts ...metric.AddOption) {
	attributes := metric.NewAddConfig(opts).Attributes()
	tell("counted", attributes.ToSlice())
}

func (histogram) Record(_ context.Context, _ float64, opts ...metric.RecordOption) {
	attributes := metric.NewRecordConfig(opts).Attributes()
	tell("measured", attributes.ToSlice())
}

func (tracers) Tracer(string, ...trace.TracerOption) trace.Tracer { return tracer{} }

func (tracer) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	config := trace.NewSpanStartConfig(opts...)
	tell("span "+name, config.Attributes())
	return trace.ContextWithSpan(ctx, span{}), span{}
}

func (span) SetAttributes(attributes ...attribute.KeyValue) { tell("attributes", attributes) }

func (span) SetStatus(_ codes.Code, description string) { tell("status", description) }

func (span) AddEvent(name string, opts ...trace.EventOption) {
	config := trace.NewEventConfig(opts...)
	tell("event "+name, config.Attributes())
}

func (span) RecordError(err error, _ ...trace.EventOption) { tell("recorded", err) }

// Every event reaches both observers, or the search in what they write proves nothing.
func TestObserversTellEverything(t *testing.T) {
	fields := reflect.ValueOf(everything())
	for i := range fields.NumField() {
		if fields.Field(i).IsNil() {
			t.Errorf("%s is not observed", fields.Type().Field(i).Name)
		}
	}
}
